//! Which operation a method and a path mean, read from the table.

use hyper::Method;

use crate::operation::Entry;

use super::url;
use super::web::{self, Web};

/// What the server answers itself, besides the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Whether it is well, in one word.
    Health,
    /// The description of everything else.
    OpenApi,
    /// Figures.
    Metrics,
}

/// The paths of those pages.
const PAGES: [(&str, Page); 3] =
    [("/health", Page::Health), ("/v1/openapi.json", Page::OpenApi), ("/metrics", Page::Metrics)];

/// Where agents come in.
const MCP: &str = "/mcp";
/// Where workers come in.
const WORKER: &str = "/v1/worker";

/// Where bytes are, by their digest.
const BLOBS: &str = "/v1/blobs/";

/// What a method and a path mean.
pub enum Found {
    /// An operation, and its arguments in the path.
    Operation(&'static Entry, Vec<(&'static str, String)>),
    /// A page.
    Page(Page),
    /// The agents' protocol, which has methods of its own.
    Mcp,
    /// The workers' protocol, which goes on without HTTP.
    Worker,
    /// The bytes of this name.
    Blob(String),
    /// The dashboard, or what belongs to it.
    Web(Web),
    /// Something, but not by this method; by these.
    WrongMethod(Vec<&'static str>),
    /// Nothing.
    Nothing,
}

/// Looks for what a method and a path mean. A word that is spelled out beats a placeholder.
#[must_use]
pub fn find(table: &'static [Entry], method: &Method, path: &str) -> Found {
    if path == MCP {
        return Found::Mcp;
    }
    if path == WORKER {
        let asks = method == Method::GET;
        return if asks { Found::Worker } else { Found::WrongMethod(vec!["GET"]) };
    }
    if let Some(name) = path.strip_prefix(BLOBS).filter(|name| !name.contains('/')) {
        let known = [Method::GET, Method::PUT].contains(method);
        let blob = || Found::Blob(name.to_owned());
        return if known { blob() } else { Found::WrongMethod(vec!["GET", "PUT"]) };
    }
    if let Some((_, page)) = PAGES.iter().find(|(own, _)| *own == path) {
        let reads = method == Method::GET;
        return if reads { Found::Page(*page) } else { Found::WrongMethod(vec!["GET"]) };
    }
    let parts: Vec<&str> = path.split('/').collect();
    let fitting = || table.iter().filter(|entry| fits(entry.about.path, &parts));
    let open = |entry: &Entry| entry.about.placeholders().count();
    // A path that is written out is that path, whatever else a placeholder could stand for.
    let Some(fewest) = fitting().map(open).min() else {
        return match web::find(method, path) {
            Some(Ok(web)) => Found::Web(web),
            Some(Err(allowed)) => Found::WrongMethod(vec![allowed]),
            None => Found::Nothing,
        };
    };
    let mut meant = fitting().filter(|entry| open(entry) == fewest);
    let Some(entry) = meant.clone().find(|entry| entry.about.method.word() == method.as_str())
    else {
        let mut allowed: Vec<_> = meant.by_ref().map(|entry| entry.about.method.word()).collect();
        allowed.dedup();
        return Found::WrongMethod(allowed);
    };
    // A part that is not well encoded names nothing.
    match arguments(entry.about.path, &parts) {
        Some(arguments) => Found::Operation(entry, arguments),
        None => Found::Nothing,
    }
}

fn fits(template: &str, parts: &[&str]) -> bool {
    let mut given = parts.iter();
    let all =
        template.split('/').all(|own| {
            given.next().is_some_and(|part| {
                if own.starts_with('{') { !part.is_empty() } else { own == *part }
            })
        });
    all && given.next().is_none()
}

fn arguments(template: &'static str, parts: &[&str]) -> Option<Vec<(&'static str, String)>> {
    let named = template.split('/').zip(parts).filter_map(|(own, part)| {
        let name = own.strip_prefix('{')?.strip_suffix('}')?;
        Some(url::decoded(part, false).map(|text| (name, text)))
    });
    named.collect()
}
