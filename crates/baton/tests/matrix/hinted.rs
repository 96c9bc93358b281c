//! What agent programs are told of an operation's effects is what it does: by its example, asked
//! once and once more.

use baton::operation::{Entry, Hints};
use serde_json::json;

use crate::examples::{Example, example, table};
use crate::ground::Memory;
use crate::scene::{Scene, holding, title};

/// What takes something away, or puts something else in its place, with the worst of its arguments.
/// Nothing else does: whatever it sets, a person takes back by its counterpart.
const DESTRUCTIVE: &[&str] = &[
    "project add",
    "project remove",
    "task edit",
    "task move",
    "task reject",
    "task close",
    "task undepend",
    "run block",
    "run release",
    "run complete",
    "run fail",
    "run cancel",
    "run waive",
    "run review",
    "run exit",
    "run force-release",
    "run force-fail",
    "channel remove",
    "pool set",
    "bulk submit",
    "key rotate",
    "key revoke",
];

/// What may do more when it is asked again, though its example cannot show it: by then somebody
/// holds the run, the question is asked or answered, the run is live, what one of many asked for is
/// so, or the name is taken.
const ONCE_BY_EXAMPLE: &[&str] = &[
    "run claim",
    "run ask",
    "run answer",
    "run retry",
    "channel add",
    "bulk submit",
    "key create",
    "tenant create",
];

/// What happens in another tenant, or beyond Baton, is not in the dump of ours.
const ELSEWHERE: &[&str] = &["channel test", "tenant create"];

/// What reaches beyond Baton at once, as the desk has heard; and what lets others do so from then on,
/// as the tests of notices have seen.
const BEYOND_AT_ONCE: &[&str] = &["channel test"];
const BEYOND_LATER: &[&str] = &["channel add"];

/// The example that shows the most.
fn telling(scene: &Scene, entry: &Entry) -> Example {
    match title(entry).as_str() {
        // Whoever waits for an answer that is there has read it.
        "run wait" => Example {
            who: holding("answered"),
            arguments: json!({ "run": "R-14.1", "wait": "1s" }),
        },
        _ => example(scene, entry),
    }
}

#[tokio::test]
async fn the_hints_of_every_operation_are_what_it_does() {
    let (mut once, mut wrong) = (vec![], vec![]);
    for entry in table() {
        let scene = Scene::new(Memory::fresh).await;
        let Example { who, arguments, .. } = telling(&scene, entry);
        let Hints { read_only, destructive, idempotent, open_world } = entry.about.hints;
        let told = title(entry);
        let before = scene.dump().await;
        drop(scene.perform(&who, entry, arguments.clone(), "one").await);
        let after = scene.dump().await;
        drop(scene.perform(&who, entry, arguments, "two").await);
        let again = scene.dump().await;
        let beyond = !scene.desk.said().is_empty();
        if !idempotent && after == again {
            once.push(told.clone());
        }
        let faults = [
            (read_only != (before == after && !ELSEWHERE.contains(&&*told)), "does it only read?"),
            (idempotent && after != again, "asked again, it does more"),
            (destructive != DESTRUCTIVE.contains(&told.as_str()), "may it destroy?"),
            (read_only && destructive, "it cannot be both"),
            (beyond != BEYOND_AT_ONCE.contains(&&*told), "does it reach beyond Baton?"),
            (
                open_world != (beyond || BEYOND_LATER.contains(&&*told)),
                "what reaches beyond Baton says so, and nothing else does",
            ),
        ];
        let faults = faults.into_iter().filter(|(is, _)| *is);
        wrong.extend(faults.map(|(_, fault)| format!("{told}: {fault}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(once, ONCE_BY_EXAMPLE, "these look idempotent by their example");
}
