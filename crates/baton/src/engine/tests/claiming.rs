use baton_domain::command::{Agent, Command, Proof, Supervisor};
use baton_domain::run::{Death, Mode};
use baton_store::{Aim, Error, Request};

use super::code;
use super::world::{World, tenant, text, wish};
use crate::engine::{Claimed, Target, Tokens, Wish};

fn repeated(holder: &str, key: &str) -> Wish {
    Wish {
        request: Some(Request { key: text(key), fingerprint: [1; 32], asked_in: None }),
        ..wish(holder, None)
    }
}

fn supervised(holder: &str) -> Wish {
    let mut wish = wish(holder, None);
    wish.claimant.mode = Mode::Supervised;
    wish
}

fn both(claimed: &Claimed) -> (String, String) {
    match &claimed.tokens {
        Tokens::Supervised { supervisor, agent } => {
            (supervisor.reveal().into(), agent.reveal().into())
        }
        Tokens::Solo(_) => panic!("a supervised claim has two tokens"),
    }
}

#[tokio::test]
async fn a_solo_claim_has_one_token_for_all_that_it_says() {
    let world = World::new().await;
    let task = world.create("one").await;
    let claimed = world.claim("ann").await.expect("there is one");
    assert_eq!((claimed.attempt.task, claimed.attempt.number), (task, 1));
    assert_eq!(claimed.expires_at, claimed.at + claimed.lease);
    let Tokens::Solo(token) = &claimed.tokens else { panic!("a solo claim has one token") };
    let pass = world.engine.keyring().verify(token.reveal(), &tenant()).expect("it is ours");
    let renew = pass.supervisor(Supervisor::Renew { lease: None }).expect("it is solo");
    world.order(Aim::Task(task, vec![renew])).await.expect("it holds the run");
    world.complete(&claimed).await.expect("it holds the run");
}

#[tokio::test]
async fn a_supervised_claim_has_one_token_for_each_speaker() {
    let world = World::new().await;
    let task = world.create("one").await;
    let claimed = world.engine.claim(supervised("worker")).await.expect("there is one");
    let (supervisor, agent) = both(&claimed);
    let keyring = world.engine.keyring();
    let supervisor = keyring.verify(&supervisor, &tenant()).expect("it is ours");
    let agent = keyring.verify(&agent, &tenant()).expect("it is ours");
    let stopped = Supervisor::Stopped { death: Death::Cgroup, survivor: false };
    agent.supervisor(stopped.clone()).expect_err("an agent cannot prove its own death");
    let begin = agent.agent(Agent::Begin).expect("it may begin");
    world.order(Aim::Task(task, vec![begin])).await.expect("it holds the run");
    let stopped = supervisor.supervisor(stopped).expect("it may prove a death");
    world.order(Aim::Task(task, vec![stopped])).await.expect("it holds the run");
}

#[tokio::test]
async fn a_repeated_claim_gets_the_same_run_and_the_same_tokens() {
    let world = World::new().await;
    world.create("one").await;
    world.create("two").await;
    let first = world.engine.claim(repeated("ann", "k")).await.expect("there is one");
    let again = world.engine.claim(repeated("ann", "k")).await.expect("it is repeated");
    assert!(!first.replayed && again.replayed);
    assert_eq!((first.attempt, &first.tokens), (again.attempt, &again.tokens));
    let other = world.engine.claim(repeated("ann", "l")).await.expect("there is another");
    assert_ne!(first.tokens, other.tokens);
}

#[tokio::test]
async fn a_claim_that_is_repeated_after_its_attempt_is_over_gets_no_tokens() {
    let world = World::new().await;
    world.create("one").await;
    let first = world.engine.claim(repeated("ann", "k")).await.expect("there is one");
    world.clock.advance(first.lease);
    world.sweep_until_amnesty_ends().await;
    let idle = world.engine.claim(repeated("ann", "k")).await.expect_err("nobody holds it");
    assert_eq!(code(&idle), "lease_lost");
    world.claim("bob").await.expect("it is free again");
    let taken = world.engine.claim(repeated("ann", "k")).await.expect_err("bob holds it");
    assert_eq!(code(&taken), "lease_lost");
}

#[tokio::test]
async fn a_chosen_task_is_claimed_now_or_not_at_all() {
    let world = World::new().await;
    let (_, second) = (world.create("one").await, world.create("two").await);
    let of_second = |holder| Wish { target: Target::Task(second), ..wish(holder, None) };
    let claimed = world.engine.claim(of_second("ann")).await.expect("it is free");
    assert_eq!(claimed.attempt.task, second);
    let held = world.engine.claim(of_second("bob")).await.expect_err("ann holds it");
    assert_eq!(code(&held), "held");
}

#[tokio::test]
async fn a_token_of_one_tenant_means_nothing_to_another() {
    let world = World::new().await;
    world.create("one").await;
    let claimed = world.claim("ann").await.expect("there is one");
    let Tokens::Solo(token) = &claimed.tokens else { panic!("a solo claim has one token") };
    let elsewhere = baton_domain::ids::TenantId::new("elsewhere").expect("it is a name");
    world.engine.keyring().verify(token.reveal(), &elsewhere).expect_err("it is foreign");
}

#[tokio::test]
async fn nonces_never_repeat() {
    let world = World::new().await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..50 {
        world.create("one").await;
        let claimed = world.claim("ann").await.expect("there is one");
        let Tokens::Solo(token) = &claimed.tokens else { panic!("a solo claim has one token") };
        let pass = world.engine.keyring().verify(token.reveal(), &tenant()).expect("it is ours");
        let Ok(Command::Agent(proof, _)) = pass.agent(Agent::Begin) else { panic!("it may speak") };
        let Proof::Token { nonce, .. } = proof else { panic!("a token proves by its nonce") };
        assert!(seen.insert(nonce.0));
    }
}

#[tokio::test]
async fn a_store_that_cannot_is_not_a_refusal() {
    let world = World::new().await;
    world.flaws.refuse(1);
    assert!(matches!(world.claim("ann").await, Err(Error::Overloaded)));
}
