//! Waiting for a run to change. Time stands still until everybody waits.

use baton_domain::time::Millis;
use serde_json::json;
use tokio::join;

use super::code;
use super::desk::{Desk, ann, bot};

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_as_soon_as_the_run_changes() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    let asked = json!({ "run": "mine", "question": "which colour?" });
    let asked = desk.granted(&bea, "run ask", asked).await;
    let since = json!({ "run": "mine", "since": asked["version"] });
    let ann = ann();
    let (heard, _) = join!(
        desk.granted(&bea, "run wait", since),
        desk.granted(&ann, "run answer", json!({ "run": "T-1", "answer": "green" })),
    );
    assert_eq!(heard["changed"], true);
    assert_eq!(heard["run"]["answer"]["mark"], "delivered");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_how_the_run_is() {
    let desk = Desk::new().await;
    desk.claimed(&bot("bea")).await;
    let waited = desk.granted(&ann(), "run wait", json!({ "run": "T-1", "wait": "1h" })).await;
    assert_eq!((&waited["changed"], &waited["run"]["state"]), (&json!(false), &json!("leased")));
    let old = json!({ "run": "T-1", "since": 0 });
    let waited = desk.granted(&ann(), "run wait", old).await;
    assert_eq!(waited["changed"], true, "who saw an older version need not wait");
}

#[tokio::test(start_paused = true)]
async fn a_claim_waits_as_long_as_it_may_and_says_how_long_that_was() {
    let desk = Desk::new().await;
    for (asked, waited) in [("1h", "1m"), ("2s", "2s")] {
        let refused = desk.refused(&bot("bea"), "run claim", json!({ "wait": asked })).await;
        assert_eq!((code(&refused), &refused["wait"]), ("nothing_claimable", &json!(waited)));
    }
    let refused = desk.refused(&bot("bea"), "run claim", json!({})).await;
    assert_eq!((code(&refused), refused.get("wait")), ("nothing_claimable", None));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_read_is_never_slept_over() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    desk.granted(&bea, "run ask", json!({ "run": "mine", "question": "which colour?" })).await;
    desk.granted(&ann(), "run answer", json!({ "run": "T-1", "answer": "green" })).await;
    let watched = json!({ "run": "T-1", "wait": "1s" });
    let watched = desk.granted(&ann(), "run wait", watched).await;
    assert_eq!(watched["run"]["answer"]["mark"], "sent", "only the holder can read it");
    let heard = desk.granted(&bea, "run wait", json!({ "run": "mine" })).await;
    assert_eq!(
        (&heard["changed"], &heard["run"]["answer"]["mark"]),
        (&json!(true), &json!("delivered"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_solo_holder_that_waits_is_renewed_and_back_in_time() {
    let desk = Desk::new().await;
    desk.world.create("paint the fence").await;
    let claim = json!({ "lease": "10s" });
    let claimed = desk.ask(&bot("bea"), "run claim", claim).await.expect("there is one");
    let bea = bot("bea").showing(&super::secret(&claimed, "claim_token"));
    desk.world.clock.advance(Millis::seconds(9));
    let waited = desk.granted(&bea, "run wait", json!({ "run": "mine", "wait": "50s" })).await;
    let until = crate::shape::When(desk.world.engine.now() + Millis::seconds(10)).to_string();
    assert_eq!(waited["run"]["lease"]["expires_at"], until);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_sent_away_when_the_server_closes() {
    let desk = Desk::new().await;
    desk.claimed(&bot("bea")).await;
    let ann = ann();
    let wait = desk.ask(&ann, "run wait", json!({ "run": "T-1" }));
    let close = async { desk.world.engine.drain() };
    let (waited, ()) = join!(wait, close);
    assert_eq!(waited.expect_err("the server closes").code(), "stopped");
    let refused = desk.refused(&ann, "run wait", json!({ "run": "T-1" })).await;
    assert_eq!(code(&refused), "stopped");
}

#[tokio::test(start_paused = true)]
async fn what_leaves_no_entry_is_told_beside_the_newest_one() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    let newest = desk.granted(&ann(), "task show", json!({ "task": "T-1" })).await;
    let renewed = desk.granted(&bea, "run heartbeat", json!({ "run": "mine" })).await;
    assert_eq!(renewed["as_of"], newest["as_of"], "whoever goes on from there misses nothing old");
}
