//! Another tenant has everything that there can be. Whatever of it a request names, in whichever
//! field, on whichever surface, it gets the answer that it would get if there were nothing of it.

use std::collections::BTreeSet;

use baton::operation::Entry;
use serde_json::{Value, json};

use crate::examples::{example, table};
use crate::foreign::{EVE, plainly, told};
use crate::ground::Fresh;
use crate::references::{Naming, Theirs};
use crate::scene::{Scene, Who, carry_out, entry, title};
use crate::surfaces::{Stand, Way, plain};

crate::on_every_ground![embedded: whatever_of_theirs_is_named_nobody_can_tell_that_it_is_there];

/// An agent of theirs.
const OLGA: Who = Who { key: "olga", token: None };
/// The same as a holder.
const HOLDING: Who = Who { token: Some("vase"), ..OLGA };

/// Tasks of theirs before the one that is named: more than we have, and ever make.
const TASKS_BEFORE: usize = 39;

/// What they do.
const STEPS: &[(Who, &str, &str)] = &[
    (
        EVE,
        "task create",
        r#"{ "project": "pottery", "title": "the vase", "stage": "kiln", "parent": "T-39",
            "labels": ["cracked"], "key": "oven", "capabilities": ["firing"],
            "contract": [{ "id": "glaze", "kind": "gate", "command": "make glaze" }] }"#,
    ),
    (EVE, "task depend", r#"{ "task": "T-1", "on": "T-40" }"#),
    (
        EVE,
        "task close",
        r#"{ "task": "T-2", "ending": "superseded", "by": "T-40", "reason": "a" }"#,
    ),
    (EVE, "pool set", r#"{ "pool": "stage pottery kiln", "limit": 3 }"#),
    (EVE, "pool set", r#"{ "pool": "key pottery oven", "limit": 3 }"#),
    (EVE, "pool set", r#"{ "pool": "holder olga", "limit": 3 }"#),
    (EVE, "pool set", r#"{ "pool": "account provider/olga", "limit": 3 }"#),
    (EVE, "pool set", r#"{ "pool": "budget T-40", "limit": 3 }"#),
    (EVE, "channel add", r#"{ "channel": "bell", "need": ["stop_unverified"] }"#),
];

/// And what their agent does with the run that it holds.
const WORDS: &[(Who, &str, &str)] = &[
    (HOLDING, "run begin", r#"{ "run": "mine" }"#),
    (HOLDING, "run checkpoint", r#"{ "run": "mine", "summary": "half of the vase" }"#),
    (HOLDING, "run progress", r#"{ "run": "mine", "done": ["the foot"] }"#),
    (HOLDING, "run ask", r#"{ "run": "mine", "question": "which glaze?" }"#),
    (EVE, "scheduler pause", r#"{ "task": "T-40", "reason": "the oven is hot" }"#),
];

/// Fields in which a name of one thing is no reason for `not_found`, whoever has it: a new name.
const OTHERWISE: [(&str, &str); 2] = [("channel add", "channel"), ("project add", "project")];

/// Requests beside the examples, for fields that do not go together with theirs.
const BESIDE: [(&str, &str); 4] = [
    ("run block", r#"{ "run": "R-4.1", "kind": "dependency", "reason": "first", "on": "T-1" }"#),
    ("run claim", "{}"),
    ("scheduler pause", r#"{ "task": "T-1", "reason": "not yet" }"#),
    ("scheduler resume", r#"{ "project": "shop" }"#),
];

/// A world with them, and the same world without them.
struct Pair {
    with: Stand,
    without: Stand,
    theirs: Theirs,
    kept: String,
}

fn text(value: &Value) -> String {
    value.as_str().expect("it is a text").to_owned()
}

async fn furnish(scene: &mut Scene) -> Theirs {
    let wish = json!({ "name": "olgas", "principal": "olga", "kind": "agent", "scopes": ["all"] });
    let made = scene.done(&EVE, "key create", wish).await;
    scene.keys.insert("olga", text(&made["key"]));
    let pottery = json!({ "project": "pottery", "stages": [{ "name": "kiln" }] });
    scene.done(&EVE, "project add", pottery).await;
    let one = json!({ "project": "pottery", "title": "a cup", "stage": "kiln" });
    let one = json!({ "operation": "task_create", "arguments": one });
    let many = scene.done(&EVE, "bulk submit", json!({ "entries": vec![one; TASKS_BEFORE] })).await;
    assert_eq!(many["failed"], 0, "{many}");
    carry_out(scene, STEPS).await;
    let claim = json!({ "task": "T-40", "capabilities": ["firing"], "account": "provider/olga" });
    let claimed = scene.done(&OLGA, "run claim", claim).await;
    assert_eq!((&claimed["run"]["id"], &claimed["attempt"]), (&json!("R-40.1"), &json!("A-40.1")));
    scene.tokens.insert("vase", text(&claimed["claim_token"]));
    carry_out(scene, WORDS).await;
    let place = scene.done(&EVE, "event list", json!({ "newest": true, "limit": 1 })).await;
    Theirs { key: text(&made["id"]), place: text(&place["as_of"]) }
}

impl Pair {
    async fn new(fresh: Fresh) -> Self {
        let mut with = Scene::new(fresh).await;
        let theirs = furnish(&mut with).await;
        let kept = with.dump_of("other").await;
        let without = Stand::of(Scene::new(fresh).await);
        Self { with: Stand::of(with), without, theirs, kept }
    }

    /// Whether a request was granted, in both worlds with the same answer.
    async fn same(&self, who: &Who, entry: &'static Entry, one: &Naming, request: &str) -> Asked {
        let told_by = format!("{} {}", title(entry), one.arguments);
        let ask = |scene: &Scene| scene.signed(who, plain(entry, &one.arguments, request));
        let with = self.with.scene.world.ask(&ask(&self.with.scene)).await;
        let without = self.without.scene.world.ask(&ask(&self.without.scene)).await;
        if with.status < 300 {
            assert_eq!(plainly(&with), plainly(&without), "{told_by}");
            return Asked { granted: true, code: "granted".to_owned() };
        }
        assert_eq!(told(&with), told(&without), "{told_by}");
        if let Some(missing) = &one.missing {
            let scene = &self.with.scene;
            let missing = scene.signed(who, plain(entry, missing, request));
            assert_eq!(told(&with), told(&scene.world.ask(&missing).await), "{told_by}");
        }
        self.elsewhere(who, entry, &one.arguments, request).await;
        Asked { granted: false, code: with.code() }
    }

    /// What was refused is refused the same as a tool, and as one of many.
    async fn elsewhere(&self, who: &Who, own: &'static Entry, arguments: &Value, request: &str) {
        let many = json!({ "operation": own.about.name(), "arguments": arguments });
        let many = json!({ "entries": [many] });
        for (way, entry, arguments) in
            [(Way::Mcp, own, arguments), (Way::Table, entry("bulk submit"), &many)]
        {
            let with = self.with.ask(way, who, entry, arguments, request).await;
            let without = self.without.ask(way, who, entry, arguments, request).await;
            assert_eq!(with, without, "{} {arguments} {way:?}", title(own));
            let refused = way == Way::Mcp && !with.granted || with.body["failed"] == 1;
            assert!(refused, "{} {arguments} {way:?}: {}", title(own), with.body);
        }
    }
}

/// What became of a request.
struct Asked {
    granted: bool,
    code: String,
}

/// The requests of an operation that name something of theirs, and by whom.
fn requests(pair: &Pair, entry: &'static Entry) -> Vec<(Naming, Who)> {
    let own = example(&pair.with.scene, entry);
    let beside = BESIDE.iter().filter(|(what, _)| *what == title(entry));
    let beside = beside.map(|(_, arguments)| serde_json::from_str(arguments).expect("JSON"));
    let mut all = vec![];
    for arguments in [own.arguments.clone()].into_iter().chain(beside) {
        all.extend(pair.theirs.naming(entry, &arguments));
    }
    if !entry.about.changes() {
        // What shows everything shows nothing of theirs.
        all.push(Naming { field: None, arguments: own.arguments, missing: None });
    }
    // With its token a holder is its own attempt; without it, the one that it names.
    let bare = own.who.token.map(|_| Who { token: None, ..own.who });
    let by = |one: Naming| [own.who].into_iter().chain(bare).map(move |who| (one.clone(), who));
    all.into_iter().flat_map(by).collect()
}

async fn whatever_of_theirs_is_named_nobody_can_tell_that_it_is_there(fresh: Fresh) {
    let mut pair = Pair::new(fresh).await;
    let (mut asked, mut otherwise) = (0, vec![]);
    for entry in table() {
        let (mut trodden, mut found, mut open) = (false, vec![], BTreeSet::new());
        for (one, who) in requests(&pair, entry) {
            let said = pair.same(&who, entry, &one, &format!("naming-{asked}")).await;
            trodden |= said.granted && entry.about.changes();
            asked += 1;
            if one.missing.is_none() {
                continue;
            }
            let named = one.field.map_or_else(|| Naming::ids(entry), |field| vec![field.name]);
            // A list of what is theirs is a list of nothing.
            let is_list = said.granted && entry.answer.field("items").is_some();
            let nothing = ["not_found", "nothing_claimable"].contains(&said.code.as_str());
            if is_list || nothing {
                found.extend(named);
            } else {
                open.extend(named);
            }
        }
        open.retain(|name| !found.contains(name));
        otherwise.extend(open.into_iter().map(|name| (title(entry), name)));
        assert_eq!(pair.with.scene.dump_of("other").await, pair.kept, "{}", title(entry));
        if trodden {
            pair = Pair::new(fresh).await;
        }
    }
    assert!(asked > 250, "only {asked} requests were made");
    let mut expected: Vec<_> = OTHERWISE.map(|(what, name)| (what.to_owned(), name)).to_vec();
    otherwise.sort();
    expected.sort();
    assert_eq!(otherwise, expected);
}
