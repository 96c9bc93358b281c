//! The dashboard: what a page weighs with everything that it needs, how long the server takes for a full
//! board beside everything that has finished, and what open tabs cost in which nothing happens.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::Failure;
use super::http::{Server, Work, prepare, share};
use super::load::histogram;
use super::table::Table;
use crate::clock::Stopwatch;

/// Tasks that are live while the board is drawn.
const LIVE: u64 = 1_000;
/// How often it is drawn.
const LOOKS: u64 = 50;
/// Tabs that are open.
const TABS: u64 = 50;
/// How long they are watched.
const WATCHED: Duration = Duration::from_secs(30);

/// Measures the dashboard on a folder with whatever has finished there.
pub(super) async fn run(
    folder: &Path,
    watch: &Arc<dyn Stopwatch>,
    table: &mut Table<'_>,
) -> Result<(), Failure> {
    let server = Server::start(folder)?;
    prepare(&server).await?;
    share(&server, LIVE, 16, watch, Work::Create).await?;
    let cookie = sign_in(&server).await?;
    let page = get(&server, "/board", &cookie).await?.1;
    let text = unpacked(&page);
    let mut weight = page.len();
    let mut script = 0;
    let fonts = ["/assets/inter.woff2", "/assets/mono.woff2"].map(str::to_owned);
    for path in assets(&text).into_iter().chain(fonts) {
        let bytes = get(&server, &path, &cookie).await?.1.len();
        weight += bytes;
        let own = path.ends_with(".js") && !path.contains("idiomorph");
        script += if own { bytes } else { 0 };
    }
    let kilobytes = |bytes: usize| format!("{}.{} KB", bytes / 1_000, bytes / 100 % 10);
    let weight = format!("{}, of which own script {}", kilobytes(weight), kilobytes(script));
    table.line("board page with fonts, over the wire", &weight)?;
    let mut times = histogram();
    for _ in 0..LOOKS {
        let began = watch.micros();
        get(&server, "/board", &cookie).await?;
        times.saturating_record(watch.micros() - began);
    }
    table.times(&format!("board, {LIVE} live, beside all that finished"), &times)?;
    let size = format!("{} as HTML, {} sent", kilobytes(text.len()), kilobytes(page.len()));
    table.line("  its size", &size)?;
    idle_tabs(&server, &cookie, table).await
}

/// Tabs that are looked at while nothing happens.
async fn idle_tabs(server: &Server, cookie: &str, table: &mut Table<'_>) -> Result<(), Failure> {
    let mut tabs = vec![];
    for _ in 0..TABS {
        let mut stream = TcpStream::connect(&server.address).await?;
        stream.write_all(request(server, "/live/board", cookie).as_bytes()).await?;
        // The whole board comes first; it is read, so that nobody waits for the reader.
        tabs.push(tokio::spawn(async move {
            let mut bytes = vec![0; 65_536];
            while let Ok(1..) = stream.read(&mut bytes).await {}
        }));
    }
    sleep(Duration::from_secs(5)).await;
    let began = server.cpu_micros();
    sleep(WATCHED).await;
    let spent = server.cpu_micros() - began;
    let gone = tabs.iter().filter(|tab| tab.is_finished()).count();
    tabs.iter().for_each(tokio::task::JoinHandle::abort);
    let seconds = WATCHED.as_secs();
    let figures = format!(
        "{}.{} % of a core, {gone} cut",
        spent / seconds / 10_000,
        spent / seconds / 1_000 % 10
    );
    Ok(table.line(&format!("{TABS} open tabs of the board, nothing happens"), &figures)?)
}

/// Signs a browser in; answers with its cookie.
async fn sign_in(server: &Server) -> Result<String, Failure> {
    let mut wire = server.connect().await?;
    let key = format!("ticket-{}", wire.number());
    let ticket = wire.ask("POST", "/v1/tickets", &key, None, &json!({})).await?;
    let url = ticket["url"].as_str().unwrap_or_default();
    let secret = url.rsplit('#').next().unwrap_or_default();
    let body = Value::to_string(&json!({ "secret": secret }));
    let words = format!(
        "POST /sign-in HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    let head = exchange(server, &words).await?.0;
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.and_then(|cookie| cookie.split(';').next());
    cookie.map(str::to_owned).ok_or_else(|| Failure::Loop(format!("no cookie: {head}")))
}

fn request(server: &Server, path: &str, cookie: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\naccept-encoding: gzip\r\ncookie: {cookie}\r\n\r\n",
        server.address
    )
}

async fn get(server: &Server, path: &str, cookie: &str) -> Result<(String, Vec<u8>), Failure> {
    let (head, body) = exchange(server, &request(server, path, cookie)).await?;
    if head.starts_with("HTTP/1.1 200") {
        return Ok((head, body));
    }
    Err(Failure::Loop(format!("GET {path}: {head}")))
}

/// One request on a connection of its own.
async fn exchange(server: &Server, words: &str) -> Result<(String, Vec<u8>), Failure> {
    let mut stream = TcpStream::connect(&server.address).await?;
    stream.write_all(words.as_bytes()).await?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer).await?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or_else(|| io::Error::other("no answer"))?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    Ok((head, answer.split_off(end + 4)))
}

/// What a page names that a browser fetches.
fn assets(page: &str) -> Vec<String> {
    let mut found = vec![];
    for part in page.split("=\"/assets/").skip(1) {
        let name = part.split('"').next().unwrap_or_default();
        let path = format!("/assets/{name}");
        if !found.contains(&path) && !name.ends_with(".woff2") {
            found.push(path);
        }
    }
    found
}

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut reader = flate2::read::GzDecoder::new(bytes);
    match io::Read::read_to_string(&mut reader, &mut text) {
        Ok(_) => text,
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
