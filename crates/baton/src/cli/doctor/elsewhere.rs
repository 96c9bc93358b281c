//! A database elsewhere: what can be wrong with it, and what helps.

use std::path::Path;

use baton_store::postgres::backup::{self, Edition};
use baton_store::postgres::examine::{
    Condition, MORE_CONNECTIONS, SHOW_STANDBYS, WAIT_FOR_NOBODY, WAIT_FOR_ONE, examine,
};

use crate::chance::{Chance as _, SystemChance};
use crate::surroundings;

use super::facts::{Database, Facts, pepper_at};
use super::judge::{BEHIND_MAX_MS, Finding, good, odd, restart, wrong};

/// Connections that should be left besides those of servers at work: for an administrator, a tool.
const LEFT_MIN: i64 = 5;
/// How far a standby may be behind before it is worth a word.
const LAG_MAX_MS: i64 = 10_000;

/// Looks at the database that the environment names, in the place of the one in the folder.
pub(super) async fn look(facts: &mut Facts, folder: &Path, named: &surroundings::Database) {
    let own = folder.join("pepper");
    let pepper = named.pepper_file.as_deref().unwrap_or(&own);
    facts.database_changed_at = None;
    let mut chance: baton_store::Chance = Box::new(|bytes| SystemChance.fill(bytes));
    match examine(named.url.reveal(), &mut chance).await {
        Ok(condition) => {
            let Edition { version, incarnation, pepper: known } = condition.edition;
            facts.database = match version {
                0 => Database::Absent,
                _ => Database::Sound { version, incarnation },
            };
            facts.pepper = pepper_at(pepper, known);
            facts.condition = Some(condition);
        }
        Err(error) => {
            let fix = match &error {
                backup::Error::Open(error) => error.fix(),
                backup::Error::Exists(_)
                | backup::Error::NotEmpty
                | backup::Error::Empty
                | backup::Error::NotACopy(_)
                | backup::Error::InUse
                | backup::Error::Pooled
                | backup::Error::Busy
                | backup::Error::NoTool(_)
                | backup::Error::Tool(..)
                | backup::Error::Damaged(_)
                | backup::Error::Fault { .. }
                | backup::Error::Io(..) => "baton audit verify",
            };
            facts.database = Database::Elsewhere { why: error.to_string(), fix };
        }
    }
}

/// An opinion on what it is like.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let Some(condition) = &facts.condition else { return vec![] };
    let mut findings = of_readers(facts, condition);
    findings.extend(of_standbys(condition));
    findings.extend(of_connections(condition));
    findings.extend(of_way(facts, condition));
    if findings.is_empty() {
        findings.push(good("postgres", "rights, standbys and connections are as they should be"));
    }
    findings
}

fn of_readers(facts: &Facts, condition: &Condition) -> Vec<Finding> {
    let readers = &condition.readers;
    let (name, user) = (&readers.name, &condition.user);
    if !readers.is_usable {
        let what = format!("the role {name} is missing, or {user} may not act as it");
        return vec![wrong("rights", what, condition.make_readers())];
    }
    let mut findings = vec![];
    if let Some(first) = readers.missing.first() {
        let count = readers.missing.len();
        let what = format!("{name} may not see {count} columns that it needs, {first} for one");
        findings.push(wrong("rights", what, restart(facts)));
    }
    if let Some(first) = readers.excess.first() {
        let count = readers.excess.len();
        let what = format!("{name} may see {count} columns that it must not, {first} for one");
        findings.push(wrong("rights", what, restart(facts)));
    }
    findings
}

fn of_standbys(condition: &Condition) -> Vec<Finding> {
    let standbys = condition.standbys;
    let mut findings = vec![];
    if standbys.are_named && standbys.count == 0 {
        let what = "synchronous_standby_names is set and nobody follows: no commit is answered";
        findings.push(wrong("standby", what, WAIT_FOR_NOBODY));
    } else if standbys.are_named && standbys.synchronous + standbys.hidden == 0 {
        let what = "commits wait for a standby, and none of those that follow is the one";
        findings.push(wrong("standby", what, SHOW_STANDBYS));
    } else if !standbys.are_named && standbys.count > 0 {
        let what = "a standby follows, but no answer waits for it: after a failover to it the last \
            answers may be missing";
        findings.push(odd("standby", what, WAIT_FOR_ONE));
    }
    if let Some(behind) = standbys.behind_ms.filter(|behind| *behind > LAG_MAX_MS) {
        let what = format!("a standby is {} s behind", behind / 1_000);
        findings.push(odd("standby", what, SHOW_STANDBYS));
    }
    findings
}

fn of_connections(condition: &Condition) -> Option<Finding> {
    let (left, ours) = (condition.connections_left, condition.connections_ours);
    // A server that is at work has what it needs.
    let needed = if ours == 0 { condition.connections_max } else { LEFT_MIN };
    if left >= needed {
        return None;
    }
    let what = format!(
        "{left} connections are left, and a server opens up to {}",
        condition.connections_max
    );
    let fix = MORE_CONNECTIONS;
    Some(if ours == 0 { wrong("connections", what, fix) } else { odd("connections", what, fix) })
}

fn of_way(facts: &Facts, condition: &Condition) -> Vec<Finding> {
    let mut findings = vec![];
    if condition.pooled_unsaid {
        let what = "a pooler lends connections for one transaction at a time, and the address does \
            not say so: statements of two servers would be mixed up";
        let url = facts.around.database_url.as_ref();
        let sign = if url.is_some_and(|url| url.reveal().contains('?')) { '&' } else { '?' };
        let fix = format!(
            "export BATON_DATABASE_URL=\"$BATON_DATABASE_URL{sign}pooler=transaction\"; {}",
            restart(facts)
        );
        findings.push(wrong("pooler", what, fix));
    }
    let apart = (condition.now.0 - facts.now.0).abs();
    if apart > BEHIND_MAX_MS {
        let what = format!(
            "the clock of the database is {} s apart from the one here; leases go by that of the \
             database",
            apart / 1_000
        );
        findings.push(odd("clock", what, "sudo timedatectl set-ntp true"));
    }
    findings
}
