use baton_domain::key::KeyId;
use baton_domain::time::Millis;

use super::{Denied, KeyWish, Server, id, token, wish};
use crate::chance::SeededChance;
use crate::tokens::KeyToken;
use crate::tokens::key::DIGESTS;

/// What a refusal costs: digests, and looks into the store.
async fn cost(server: &Server, shown: &str) -> (u64, usize) {
    let before = (DIGESTS.get(), server.world.flaws.key_reads());
    let refused = server.identity.authenticate(shown).await;
    assert!(matches!(refused, Err(Denied::Unauthenticated)), "one answer for all");
    (DIGESTS.get() - before.0, server.world.flaws.key_reads() - before.1)
}

#[tokio::test]
async fn every_refusal_costs_one_digest_and_one_look_into_the_store() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    let chance = SeededChance::new(9);
    let other = |id: &KeyId| KeyToken::mint(id, &chance).reveal().to_owned();
    let unknown = other(&KeyId::new("Nobodyhasit0").expect("it is well-formed"));
    let good = server.key("bea", &["all"]).await;
    let wrong = other(&id(&good));
    let revoked = server.key("cid", &["all"]).await;
    server.revoke(&owner, &revoked).await.expect("the operator may");
    let brief = KeyWish { lifetime: Some(Millis(10)), ..wish("dan", &["all"]) };
    let expired = token(&server.make(&owner, brief).await.expect("the operator may"));
    let turned = server.key("eve", &["key:admin"]).await;
    let eve = server.who(&turned).await;
    let at_once = Some(Millis(0));
    server.identity.rotate(&eve, super::how(), &id(&turned), at_once).await.expect("her own");
    server.world.clock.advance(Millis(10));
    let shown = [
        ("an id that nobody has", &unknown),
        ("a wrong secret", &wrong),
        ("a revoked key", &revoked),
        ("a revoked key with a wrong secret", &other(&id(&revoked))),
        ("an expired key", &expired),
        ("an expired key with a wrong secret", &other(&id(&expired))),
        ("an exchanged secret", &turned),
    ];
    // The first time, remembered from then on, and just after its owner was let in.
    for round in 0..3 {
        for (what, shown) in shown {
            assert_eq!(cost(&server, shown).await, (1, 1), "{what}, round {round}");
        }
        assert!(server.is_known(&good).await);
    }
}

#[tokio::test]
async fn a_good_key_is_looked_up_once_and_then_remembered() {
    let server = Server::new().await;
    let good = server.key("bea", &["all"]).await;
    let before = server.world.flaws.key_reads();
    for _ in 0..5 {
        server.who(&good).await;
    }
    assert_eq!(server.world.flaws.key_reads() - before, 1);
}
