//! Keys and tenants.

use serde_json::json;

use super::code;
use super::desk::{Desk, ann, bot, owner, secret};

#[tokio::test]
async fn the_secret_of_a_key_is_shown_once_and_never_in_the_answer() {
    let desk = Desk::new().await;
    let wish = || json!({ "name": "laptop", "principal": "bea", "scopes": ["agent"] });
    let made = desk.ask_as(&owner(), "key create", wish(), "k").await.expect("it may");
    let token = secret(&made, "key");
    assert!(!made.body.to_string().contains(&token));
    assert_eq!(made.body["kind"], "agent");
    let dump = desk.dump().await;
    let again = desk.ask_as(&owner(), "key create", wish(), "k").await.expect("it was made");
    assert_eq!(desk.dump().await, dump);
    assert!(again.replayed && again.secrets.is_empty());
    assert_eq!(again.body["id"], made.body["id"]);
    let list = desk.granted(&owner(), "key list", json!({})).await;
    assert_eq!(list["items"][0]["name"], "laptop");
    assert!(!list.to_string().contains(&token));
    let key = &made.body["id"];
    let rotated = desk.ask(&owner(), "key rotate", json!({ "key": key })).await.expect("it may");
    assert_ne!(secret(&rotated, "key"), token);
    desk.granted(&owner(), "key revoke", json!({ "key": key, "reason": "lost" })).await;
    let list = desk.granted(&owner(), "key list", json!({})).await;
    assert_eq!(list["items"][0]["revoked_reason"], "lost");
}

#[tokio::test]
async fn whoever_has_no_say_about_keys_makes_none() {
    let desk = Desk::new().await;
    let wish = json!({ "name": "laptop", "scopes": ["all"] });
    assert_eq!(code(&desk.refused(&bot("bea"), "key create", wish.clone()).await), "not_for_you");
    assert_eq!(code(&desk.refused(&ann(), "key create", wish).await), "beyond_key");
    let typo = json!({ "name": "laptop", "scopes": ["run:wrok"] });
    assert_eq!(code(&desk.refused(&owner(), "key create", typo).await), "invalid");
    let blank = json!({ "key": "000000000000", "reason": " " });
    assert_eq!(code(&desk.refused(&owner(), "key revoke", blank).await), "invalid");
    let missing = json!({ "key": "000000000000", "reason": "lost" });
    assert_eq!(code(&desk.refused(&owner(), "key revoke", missing).await), "not_found");
}

#[tokio::test]
async fn only_the_operator_lets_a_tenant_in() {
    let desk = Desk::new().await;
    let tenant = || json!({ "tenant": "other" });
    let refused = desk.refused(&owner().elsewhere(), "tenant create", tenant()).await;
    assert_eq!(code(&refused), "beyond_key");
    assert_eq!(code(&desk.refused(&ann(), "tenant create", tenant()).await), "beyond_key");
    let made = desk.ask(&owner(), "tenant create", tenant()).await.expect("it may");
    assert_eq!((&made.body["id"], &made.body["owner"]["name"]), (&json!("other"), &json!("owner")));
    secret(&made, "key");
}
