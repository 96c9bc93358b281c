//! Every route for every scope and every sort of caller. Whether somebody may ask is told before
//! anybody looks at what is asked, so a request with nonsense in it tells one from the other and
//! never changes anything.

use baton::operation::{Audience, Entry};
use baton::operations;
use baton_domain::key::Kind;
use baton_domain::scope::Level;
use serde_json::{Value, json};

use crate::caller::{Answer, Ask};
use crate::examples::{example, table};
use crate::ground::Fresh;
use crate::scene::{ADA, BEA, Scene, WES, Who, holding, title};
use crate::surfaces::plain;

crate::on_every_ground![
    a_key_opens_what_its_scope_names_and_nothing_else,
    without_a_key_nothing_is_answered,
    a_key_that_reads_changes_nothing,
    what_only_a_person_may_say_no_agent_worker_or_holder_says,
    many_at_once_are_no_way_around_scopes_and_speakers,
    no_key_is_wider_than_the_one_that_made_it,
];

/// A request that is admitted and then refused for what it says.
fn nonsense(scene: &Scene, entry: &Entry) -> Ask {
    let mut arguments = example(scene, entry).arguments;
    arguments["nonsense"] = json!("x");
    plain(entry, &arguments, "permits")
}

async fn ask(scene: &Scene, who: &Who, entry: &Entry) -> Answer {
    scene.world.ask(&scene.signed(who, nonsense(scene, entry))).await
}

async fn with_key(scene: &Scene, key: &str, entry: &Entry) -> Answer {
    let ask = scene.world.plain(nonsense(scene, entry));
    scene.world.ask(&ask.with("authorization", &format!("Bearer {key}"))).await
}

async fn a_key_opens_what_its_scope_names_and_nothing_else(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    for scope in operations::scopes() {
        let name = scope.to_string().replace(':', ".");
        let (_, only) = scene.world.make_key(&name, Kind::Person, &scope.to_string()).await;
        let before = scene.dump().await;
        for entry in table() {
            let answer = with_key(&scene, &only, entry).await;
            let told = format!("{} with {scope}", title(entry));
            match entry.about.scope().filter(|needed| needed != scope) {
                None => {
                    assert_eq!((answer.status, answer.code().as_str()), (422, "invalid"), "{told}");
                }
                Some(needed) => {
                    let refused = (answer.status, answer.json()["scope"].clone());
                    assert_eq!(refused, (403, json!(needed.to_string())), "{told}");
                    assert_eq!(answer.code(), "forbidden", "{told}");
                }
            }
        }
        assert_eq!(scene.dump().await, before);
    }
}

async fn without_a_key_nothing_is_answered(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let real: Vec<&str> = scene.keys["bea"].split('_').collect();
    assert_eq!(forged(real[1], real[2]), scene.keys["bea"], "what is forged is well formed");
    let nobodys = forged("000000000000", real[2]);
    let guessed = forged(real[1], &"0".repeat(43));
    let before = scene.dump().await;
    for entry in table() {
        let bare = scene.world.plain(nonsense(&scene, entry));
        let mut bodies = vec![];
        for bearer in [None, Some("x"), Some(&*nobodys), Some(&*guessed)] {
            let ask = match bearer {
                Some(bearer) => bare.clone().with("authorization", &format!("Bearer {bearer}")),
                None => bare.clone(),
            };
            let answer = scene.world.ask(&ask).await;
            let told = title(entry);
            assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{told}");
            bodies.push(answer.body);
        }
        assert_eq!(bodies[1], bodies[2], "one answer, whatever is wrong with a key");
        assert_eq!(bodies[1], bodies[3], "also if there is such a key");
    }
    assert_eq!(scene.dump().await, before);
}

/// Whether a key that may only read may ask for it. What many at once need, each of them is asked.
fn reads(entry: &Entry) -> bool {
    entry.about.scope().is_none_or(|scope| scope.level() == Level::Read)
}

/// A key of that id and secret, complete with its checksum, so that it is looked for.
fn forged(id: &str, secret: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let text = format!("batonk_{id}_{secret}");
    let mut sum = !text.bytes().fold(u32::MAX, |mut sum, byte| {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg());
        }
        sum
    });
    let mut check = String::new();
    for _ in 0..6 {
        check.insert(0, char::from(DIGITS[(sum % 62) as usize]));
        sum /= 62;
    }
    format!("{text}_{check}")
}

async fn a_key_that_reads_changes_nothing(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    let reader = Who { key: "reader", token: None };
    for entry in table() {
        let asked = example(&scene, entry);
        let request = scene.signed(&reader, plain(entry, &asked.arguments, "reader"));
        let answer = scene.world.ask(&request).await;
        let told = format!("{}: {}", title(entry), answer.json());
        if reads(entry) {
            assert_ne!(answer.code(), "forbidden", "{told}");
        } else {
            assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{told}");
        }
    }
    assert_eq!(scene.dump().await, before);
}

async fn what_only_a_person_may_say_no_agent_worker_or_holder_says(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    let holder = holding("held");
    let person_inside = Who { token: Some("held"), ..ADA };
    for entry in table() {
        let for_persons = entry.about.audience == Audience::Person;
        for who in [BEA, WES, holder, person_inside] {
            let answer = ask(&scene, &who, entry).await;
            let told = format!("{} {who:?}", title(entry));
            let expected = if for_persons { (403, "not_for_you") } else { (422, "invalid") };
            assert_eq!((answer.status, answer.code().as_str()), expected, "{told}");
        }
        let answer = ask(&scene, &ADA, entry).await;
        assert_eq!(answer.status, 422, "{}", title(entry));
    }
    assert_eq!(scene.dump().await, before);
}

async fn many_at_once_are_no_way_around_scopes_and_speakers(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    let bulk = operations::find("bulk", "submit").expect("it is in the table");
    let reader = Who { key: "reader", token: None };
    for entry in table().into_iter().filter(|entry| entry.about.changes()) {
        let one = json!({
            "operation": entry.about.name(),
            "arguments": example(&scene, entry).arguments,
        });
        let arguments = json!({ "entries": [one] });
        for who in [reader, BEA, holding("held")] {
            let person = entry.about.audience == Audience::Person;
            if who != reader && !person {
                continue;
            }
            let request = scene.signed(&who, plain(bulk, &arguments, "bulk"));
            let body = scene.world.ask(&request).await.json();
            let code = &body["items"][0]["problem"]["code"];
            let alone = *code == json!("invalid");
            let read = who == reader && reads(entry);
            let refused = [json!("forbidden"), json!("not_for_you")].contains(code);
            assert!(refused || alone || read, "{} {who:?}: {body}", title(entry));
        }
    }
    assert_eq!(scene.dump().await, before);
}

async fn no_key_is_wider_than_the_one_that_made_it(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let create = operations::find("key", "create").expect("it is in the table");
    let (_, maker) = scene.world.make_key("maker", Kind::Person, "key:admin").await;
    let before = scene.dump().await;
    let ask = |scopes: Value, principal: &str| {
        let wish = json!({ "name": "wider", "principal": principal, "scopes": scopes });
        let ask = scene.world.plain(plain(create, &wish, "wider"));
        ask.with("authorization", &format!("Bearer {maker}"))
    };
    for scope in operations::scopes().iter().filter(|scope| scope.to_string() != "key:admin") {
        let answer = scene.world.ask(&ask(json!([scope.to_string()]), "somebody")).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "beyond_key"), "{scope}");
    }
    for preset in ["all", "read", "agent", "worker"] {
        let answer = scene.world.ask(&ask(json!([preset]), "somebody")).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "beyond_key"), "{preset}");
    }
    for typo in ["task:reed", "tasks:read", "task", "task:", ":read", "*", "TASK:READ", "task:*"] {
        let answer = scene.world.ask(&ask(json!([typo]), "somebody")).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "invalid"), "{typo}");
    }
    assert_eq!(scene.dump().await, before);
}
