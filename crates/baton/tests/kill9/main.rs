//! The real server is killed again and again under load from clients that repeat what they got no
//! answer to: nothing that was answered is lost, nothing happens twice, every history can be put
//! in one order, and no lease outlives a crash loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use baton_domain::limits::{AMNESTY, SILENCE_MAX};
use baton_testkit::chance::Chance;
use baton_testkit::rounds;
use serde_json::{Value, json};

use history::{History, Kept};
use holder::{Holder, Lapsed, position};
use http::{Asked, Client, Heard};
use order::faults;
use server::{Ground, Server, wall_ms};

mod history;
mod holder;
mod http;
mod order;
mod server;

/// Who asks side by side.
const CALLERS: [&str; 6] = ["ada", "bob", "cid", "dan", "eve", "fay"];

/// How long after its effective end a lease may still be held, by the promise.
const FREE_WITHIN_MS: i64 = 2_000;

/// The lease that holders ask for.
const LEASE_MS: i64 = 1_000;

/// How often one lease is waited for; each time for as long as a request may wait. A lease that
/// outlives an amnesty and all of these is immortal.
const WAITS_MAX: usize = 8;

#[test]
fn a_server_killed_under_load_loses_nothing_and_doubles_nothing() {
    let place = tempfile::tempdir().expect("a folder");
    killed_often(&Ground::sqlite(place.path()));
}

fn killed_often(ground: &Ground) {
    let first = Server::start(ground, "127.0.0.1:0");
    let (address, key_file) = (first.address.clone(), first.key_file.clone());
    let bearer = std::fs::read_to_string(&key_file).expect("the key can be read");
    let client = || Client::new(&address, bearer.trim());
    put_project(&mut client());
    let (history, stop) = (Arc::new(History::default()), Arc::new(AtomicBool::new(false)));
    let (downs, holders) = thread::scope(|scope| {
        let work = |name: &&str| {
            let holder = Holder::new(name, client(), (Arc::clone(&history), Arc::clone(&stop)));
            scope.spawn(move || holder.work())
        };
        let working: Vec<_> = CALLERS.iter().map(work).collect();
        let (last, downs) = kill_often(first, ground, &address, &history);
        stop.store(true, Ordering::SeqCst);
        history.start();
        let holders: Vec<_> =
            working.into_iter().map(|one| one.join().expect("a caller works")).collect();
        last.kill();
        (downs, holders)
    });
    let last = Server::start(ground, &address);
    wait_for_expiries(&mut client(), &holders);
    let kept = read_all(&mut client());
    let (seen, fenced) = (history.seen(), history.fenced());
    let found = faults(&seen, &fenced, &kept);
    assert!(found.is_empty(), "{} faults, first {:?}", found.len(), &found[..found.len().min(5)]);
    let lapsed: Vec<_> = holders.iter().flat_map(|holder| &holder.lapsed).collect();
    let freed = Freed::of(&lapsed, &kept, &downs);
    println!(
        "{} kills, {} entries, {} answers, {} refused by the fence, {freed:?}, {:?}",
        downs.len(),
        kept.len(),
        seen.len(),
        fenced.len(),
        history.met
    );
    enough(&history, &freed, fenced.len());
    last.kill();
    audited(ground);
}

/// A run that did not meet what it is for proves nothing.
fn enough(history: &History, freed: &Freed, fenced: usize) {
    let met = &history.met;
    assert!(freed.count > 0, "too tame: no lease ended");
    assert!(freed.in_the_loop > 0, "no lease ended while the server was killed again and again");
    assert!(fenced > 0, "too tame: nobody was fenced");
    for (counter, what) in [
        (&met.unknown_had_happened, "no lost answer"),
        (&met.unknown_had_not, "no lost request"),
        (&met.unknown_claims, "no claim whose outcome was unknown"),
        (&met.taken_over, "nobody went on with what another let lapse"),
    ] {
        assert!(counter.load(Ordering::SeqCst) > 0, "too tame: {what}");
    }
}

/// Kills the server at moments that chance picks, and starts it again.
fn kill_often(
    first: Server,
    ground: &Ground,
    address: &str,
    history: &History,
) -> (Server, Vec<(i64, i64)>) {
    let kills = if rounds(1) > 1 { 10_000 } else { 200 };
    let (mut server, mut chance, mut downs) = (first, Chance::new(3), vec![]);
    for _ in 0..kills {
        history.wait_for_more(chance.below(40));
        let down = wall_ms();
        server.kill();
        if chance.chance(0.1) {
            // Sometimes it does not even get as far as its first word.
            let mut stillborn = Server::spawn(ground, address);
            stillborn.kill().expect("it takes a signal");
            stillborn.wait().expect("it can be reaped");
        }
        server = Server::start(ground, address);
        downs.push((down, wall_ms()));
        history.start();
    }
    (server, downs)
}

fn put_project(client: &mut Client) {
    let stages = json!([{ "name": "coding" }]);
    let asked = Asked {
        method: "PUT",
        path: "/v1/projects/shop",
        key: Some("project"),
        token: None,
        body: json!({ "stages": stages }),
    };
    let Heard::Answer(answer) = client.ask(&asked) else { panic!("no answer") };
    assert!(answer.status < 300, "{answer:?}");
}

fn get(client: &mut Client, path: &str) -> Value {
    let asked = Asked { method: "GET", path, key: None, token: None, body: Value::Null };
    let Heard::Answer(answer) = client.ask(&asked) else { panic!("no answer to {path}") };
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.body
}

/// Every entry from the first one on, page by page.
fn read_all(client: &mut Client) -> Vec<Kept> {
    let (mut kept, mut after) = (vec![], String::new());
    loop {
        let from = if after.is_empty() { String::new() } else { format!("&after={after}") };
        let page = get(client, &format!("/v1/events?limit=200{from}"));
        for item in page["items"].as_array().expect("a page has items") {
            after = item["cursor"].as_str().expect("an entry has a cursor").to_owned();
            kept.push(Kept {
                position: position(&item["cursor"]).expect("a cursor has a position"),
                at_ms: time_ms(&item["at"]),
                task: item["task"].as_str().unwrap_or_default().to_owned(),
                events: item["events"].as_array().cloned().unwrap_or_default(),
                text: item["events"].to_string(),
            });
        }
        if page["next"].is_null() {
            return kept;
        }
    }
}

fn time_ms(value: &Value) -> i64 {
    let when: jiff::Timestamp =
        value.as_str().expect("it has a time").parse().expect("the time can be read");
    when.as_millisecond()
}

/// Whoever let a lease lapse is gone from its run; the server is asked to tell when.
fn wait_for_expiries(client: &mut Client, holders: &[Holder]) {
    for claim in holders.iter().flat_map(|holder| &holder.lapsed) {
        let mine = format!("A-{}.{}", &claim.task[2..], claim.attempt);
        let mut looks = 0;
        loop {
            let task = get(client, &format!("/v1/tasks/{}", claim.task));
            if task["run"]["attempt"] != mine.as_str() {
                break;
            }
            assert!(looks < WAITS_MAX, "{claim:?} is immortal: {task}");
            looks += 1;
            let since = task["version"].as_u64().expect("a task has a version");
            let (path, key) = (format!("/v1/runs/{}/wait", claim.run), format!("{mine}-{looks}"));
            let body = json!({ "since": since, "wait": "15s" });
            let (key, path) = (Some(key.as_str()), path.as_str());
            let heard = client.ask(&Asked { method: "POST", path, key, token: None, body });
            let Heard::Answer(answer) = heard else { panic!("no answer to {path}") };
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
        }
    }
}

/// Leases that ended by themselves.
#[derive(Debug)]
struct Freed {
    count: usize,
    /// Those of them that ended before the last kill.
    in_the_loop: usize,
    late_ms_max: i64,
}

impl Freed {
    /// Each within two seconds that the server was up. All times but those of the kills are the
    /// server's own.
    fn of(lapsed: &[&Lapsed], kept: &[Kept], downs: &[(i64, i64)]) -> Self {
        let calm = downs.last().map_or(0, |(down, _)| *down);
        let mut all = Self { count: 0, in_the_loop: 0, late_ms_max: 0 };
        for claim in lapsed {
            let of_task: Vec<_> = kept.iter().filter(|entry| entry.task == claim.task).collect();
            let ended = |entry: &&&Kept| {
                entry.events.iter().any(|event| {
                    event["event"] == "attempt_ended"
                        && event["attempt"] == claim.attempt
                        && event["outcome"] == "lost"
                })
            };
            let Some(end) = of_task.iter().find(ended) else { continue };
            let words = of_task.iter().filter(|entry| entry.position < end.position);
            let renewed = words.map(|entry| entry.at_ms + LEASE_MS).max().unwrap_or(0);
            let expiry = time_ms(&Value::from(claim.expires_at.clone())).max(renewed);
            let expiry = expiry.max(amnesty(downs, end.at_ms));
            let down: i64 = downs
                .iter()
                .map(|(from, to)| ((*to).min(end.at_ms) - (*from).max(expiry)).max(0))
                .sum();
            let late = end.at_ms - expiry - down;
            assert!(late <= FREE_WITHIN_MS, "{claim:?} was freed {late} ms late");
            all.count += 1;
            all.in_the_loop += usize::from(end.at_ms < calm);
            all.late_ms_max = all.late_ms_max.max(late);
        }
        all
    }
}

/// Until when nobody loses a lease by this time, because the server was away for long. That it sweeps
/// twice a second makes an absence a second shorter than the silence that counts.
fn amnesty(downs: &[(i64, i64)], by: i64) -> i64 {
    let silence = i64::try_from(SILENCE_MAX.0).expect("it is short") - 1_000;
    let grace = i64::try_from(AMNESTY.0).expect("it is short");
    let long = downs.iter().filter(|(from, to)| to - from >= silence && *to <= by);
    long.map(|(_, to)| to + grace).max().unwrap_or(0)
}

fn audited(ground: &Ground) {
    let audit = ground.command(&["audit", "verify"]).output().expect("the program starts");
    assert!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stderr));
}
