//! The dashboard over HTTP: who looks, what a browser may do with a page, and how somebody signs
//! in. A page is shown to whoever has the cookie of a key that can only read; what acts is another
//! key, which the script of the page keeps and sends to the table like any other caller.

use std::sync::Arc;

use baton_domain::ids::{KeyName, PrincipalId};
use baton_domain::key::Kind;
use baton_domain::scope::Level;
use baton_domain::text::{KEY_PREFIX, Reason, Text};
use baton_domain::time::Millis;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::chance::Chance as _;
use crate::chance::SystemChance;
use crate::dashboard::{self, Asset, Onlooker, Screen, Theme};
use crate::identity::{Caller, How, Identity, KeyWish};
use crate::problem::Problem;
use crate::shape::{Violation, When};

use super::Server;
use super::answer::{self, Sent};
use super::guard::once;

/// The cookie of how pages look.
const THEME: &str = "baton-theme";
/// How long somebody stays signed in.
const SIGNED_IN: Millis = Millis::hours(24 * 7);
/// How long the making of a key may take: so much earlier than its parent it ends.
const MAKING: Millis = Millis::minutes(1);
/// What the keys of browsers are called, before what tells them apart.
const BROWSER: &str = "browser-";
/// Browsers of one person; who signs in with one more is signed out of the oldest.
const BROWSERS_MAX: usize = 10;
/// Keys that are looked through for them: all there can be.
const KEYS_MAX: usize = 500;
/// Bytes of a secret that is worth a look.
const SECRET_BYTES_MAX: usize = 256;

/// What a browser may do with our pages: run our script, and nothing else of anybody.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types baton";

/// What a path of the dashboard is.
#[derive(Clone, Copy)]
pub enum Web {
    /// A file that pages need.
    Asset(&'static Asset),
    /// The page where people come in.
    SignIn,
    /// Somebody comes in.
    Enter,
    /// Somebody goes.
    Leave,
    /// Somebody wants to come in with a browser.
    Ticket,
    /// A page.
    Page,
    /// What changes of a page.
    Live,
}

/// What a method and a path mean; the methods of a path that is asked by another one.
#[must_use]
pub fn find(method: &Method, path: &str) -> Option<Result<Web, &'static str>> {
    let (web, by) = match path {
        "/sign-in" if method == Method::POST => (Web::Enter, Method::POST),
        "/sign-in" => (Web::SignIn, Method::GET),
        "/sign-out" => (Web::Leave, Method::POST),
        "/v1/tickets" => (Web::Ticket, Method::POST),
        _ => {
            let live = path.strip_prefix("/live").filter(|rest| Screen::of(rest, &[]).is_some());
            let web = match (dashboard::asset(path), live) {
                (Some(asset), _) => Web::Asset(asset),
                (None, Some(_)) => Web::Live,
                (None, None) => {
                    Screen::of(path, &[])?;
                    Web::Page
                }
            };
            (web, Method::GET)
        }
    };
    let allowed = match (path, by == Method::POST) {
        ("/sign-in", _) => "GET, POST",
        (_, true) => "POST",
        (_, false) => "GET",
    };
    Some(if *method == by { Ok(web) } else { Err(allowed) })
}

/// What a cookie of ours says.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let Some(all) = once(headers, &header::COOKIE)? else { return Ok(None) };
    let pairs = all.split(';').filter_map(|pair| pair.trim().split_once('='));
    Ok(pairs.into_iter().find(|(own, _)| *own == name).map(|(_, value)| value))
}

/// The key in the cookie of a browser.
pub fn shown<'a>(server: &Server, headers: &'a HeaderMap) -> Result<Option<&'a str>, Problem> {
    cookie(headers, &name(server))
}

/// The name of the cookie that shows pages. Cookies know hosts, not ports, and two servers of one machine
/// must not sign each other out.
fn name(server: &Server) -> String {
    let port = server.hosts.url().rsplit(':').next().unwrap_or_default();
    let plain = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if plain { format!("baton-{port}") } else { "baton".to_owned() }
}

/// How pages look to this browser.
#[must_use]
pub fn theme(headers: &HeaderMap) -> Theme {
    Theme::of(cookie(headers, THEME).ok().flatten())
}

/// A file that pages need. Its name changes with it, so it is kept for ever.
#[must_use]
pub fn asset(asset: &'static Asset) -> Response<Sent> {
    let mut response = answer::text(StatusCode::OK, asset.kind, asset.bytes.clone());
    let headers = response.headers_mut();
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    headers.insert(header::CACHE_CONTROL, forever);
    if asset.gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// A page.
#[must_use]
pub fn html(status: StatusCode, text: String, packs: bool) -> Response<Sent> {
    let kind = "text/html; charset=utf-8";
    let mut response = if packs {
        answer::text(status, kind, dashboard::packed(text.as_bytes()))
    } else {
        answer::text(status, kind, text)
    };
    let headers = response.headers_mut();
    if packs {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding, cookie"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// To somewhere else.
#[must_use]
pub fn see(path: &'static str) -> Response<Sent> {
    let mut response = html(StatusCode::SEE_OTHER, String::new(), false);
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(path));
    response
}

/// Whether a caller takes in what is compressed.
#[must_use]
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|all| all.split(',').any(|one| one.trim().starts_with("gzip")))
}

/// A page for whoever looks, or why there is none.
pub async fn page(onlooker: &Onlooker, screen: &Screen, headers: &HeaderMap) -> Response<Sent> {
    let packs = takes_gzip(headers);
    match onlooker.page(screen, theme(headers)).await {
        Ok(page) => html(StatusCode::OK, page.into_string(), packs),
        Err(problem) => trouble(&problem, headers),
    }
}

/// Why there is nothing to see.
#[must_use]
pub fn trouble(problem: &Problem, headers: &HeaderMap) -> Response<Sent> {
    let status = StatusCode::from_u16(problem.status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    html(status, dashboard::trouble(problem, theme(headers)).into_string(), takes_gzip(headers))
}

/// What was shown to come in: a ticket of this server, or a key.
pub fn secret(body: &Map<String, Value>) -> Result<&str, Problem> {
    let given = body.get("secret").and_then(Value::as_str);
    given.filter(|text| !text.is_empty() && text.len() <= SECRET_BYTES_MAX).ok_or_else(|| {
        let rule = "must be a ticket of `baton open`, or a key".to_owned();
        Problem::invalid(vec![Violation { field: "secret".into(), rule }])
    })
}

/// Whether it is a key, and no ticket.
#[must_use]
pub fn is_key(secret: &str) -> bool {
    secret.starts_with(KEY_PREFIX)
}

/// Lets somebody in: makes the two keys of a browser, and hands them over.
pub async fn enter(server: &Server, caller: &Caller) -> Result<Response<Sent>, Problem> {
    if caller.kind != Kind::Person {
        let detail = "the dashboard is for people: this key is of another kind";
        return Err(Problem::new("not_for_you", detail).next("baton key create --kind person"));
    }
    let identity = server.identity();
    make_room(identity, caller).await?;
    let mut bytes = [0; 4];
    SystemChance.fill(&mut bytes);
    let told: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // What administers keys and tenants stays with the command line.
    let acts = |level: Level| level != Level::Admin;
    let acting = key(identity, caller, format!("{BROWSER}{told}"), acts).await?;
    let reading =
        key(identity, &acting.0, format!("{BROWSER}{told}-reads"), |level| level == Level::Read)
            .await?;
    let mut response = answer::json(StatusCode::OK, &json!({ "key": acting.1 }));
    let secure = if server.hosts.is_secure() { "; Secure" } else { "" };
    let seconds = SIGNED_IN.0 / 1_000;
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}",
        name(server),
        reading.1
    );
    let cookie = HeaderValue::from_str(&cookie).expect("keys are plain characters");
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Forgets the cookie; the script has revoked the keys.
#[must_use]
pub fn leave(server: &Server) -> Response<Sent> {
    let mut response = answer::json(StatusCode::OK, &json!({}));
    let gone = format!("{}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0", name(server));
    let gone = HeaderValue::from_str(&gone).expect("a name is plain characters");
    response.headers_mut().insert(header::SET_COOKIE, gone);
    response
}

/// A ticket for whoever asks, and the URL that takes it.
pub fn ticket(server: &Server, caller: &Caller) -> Result<Response<Sent>, Problem> {
    if caller.kind != Kind::Person {
        let detail = "only a person may say `open`";
        return Err(Problem::new("not_for_you", detail));
    }
    let now = server.engine().now();
    let (ticket, until) = server.tickets().mint(caller.clone(), &SystemChance, now);
    // What stands after the `#` is sent to nobody and kept by no log.
    let url = format!("{}/sign-in#{ticket}", server.hosts.url());
    let body = json!({ "url": url, "expires_at": When(until).to_string() });
    Ok(answer::json(StatusCode::OK, &body))
}

/// One key of a browser, and the caller who shows it.
async fn key(
    identity: &Arc<Identity>,
    by: &Caller,
    name: String,
    wanted: impl Fn(Level) -> bool,
) -> Result<(Caller, String), Problem> {
    let scopes = by.scopes.iter().filter(|scope| wanted(scope.level()));
    let wish = KeyWish {
        name: KeyName::new(&name).map_err(baton_store::Error::from)?,
        principal: by.principal.clone(),
        kind: Kind::Person,
        scopes: scopes.map(ToString::to_string).collect(),
        lifetime: None,
    };
    let now = identity.engine().now();
    let parent = match &by.key {
        Some(key) => identity.engine().key(key).await?,
        None => None,
    };
    // A key lives no longer than the one that it is made with, and time passes until it is made.
    let left = parent.map_or(SIGNED_IN, |found| found.credential.key.expires_at.since(now));
    let left = Millis(left.0.saturating_sub(MAKING.0).max(1));
    let wish = KeyWish { lifetime: Some(SIGNED_IN.min(left)), ..wish };
    let made = identity.create(by, how(), wish).await?;
    let token = made.token.expect("without a request key nothing is replayed");
    let caller = identity
        .authenticate(token.reveal())
        .await
        .map_err(|denied| Problem::new("unauthenticated", denied.to_string()))?;
    Ok((caller, token.reveal().to_owned()))
}

fn how() -> How {
    let origin = Text::new("origin", "web").expect("a plain word is a text");
    How { origin, trace: None, request: None }
}

/// Signs the oldest browsers of a person out, should there be too many.
async fn make_room(identity: &Arc<Identity>, caller: &Caller) -> Result<(), Problem> {
    let is_own = |principal: &PrincipalId| *principal == caller.principal;
    let now = identity.engine().now();
    let page = identity.list(caller, None, KEYS_MAX).await?;
    let mut browsers: Vec<_> = page
        .rows
        .into_iter()
        .filter(|row| row.key.is_live(now) && is_own(&row.key.principal))
        .filter(|row| {
            let name = row.key.name.as_str();
            name.starts_with(BROWSER) && !name.ends_with("-reads")
        })
        .collect();
    browsers.sort_by_key(|row| row.key.expires_at);
    let over = (browsers.len() + 1).saturating_sub(BROWSERS_MAX);
    for row in browsers.into_iter().take(over) {
        let reason = Reason::new("reason", "another browser signed in")
            .map_err(|refusal| Problem::from(baton_store::Error::from(refusal)))?;
        identity.revoke(caller, how(), &row.key.id, reason).await?;
    }
    Ok(())
}
