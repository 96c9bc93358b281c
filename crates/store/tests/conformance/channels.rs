//! Channels: what is kept of them, and that nobody carries one on twice.

use baton_domain::Refusal;
use baton_domain::channel::{Channel, ChannelCommand, ChannelEvent, Way};
use baton_domain::ids::{ChannelName, Nonce};
use baton_domain::limits::CHANNELS_MAX;
use baton_domain::project::RecordEvent;
use baton_domain::time::Millis;
use baton_domain::view::Need;
use baton_store::read::Happened;
use baton_store::{Aim, ChannelRow, Committed};

use crate::words::{principal, text};
use crate::world::World;

/// Who carry on one channel at once.
const AT_ONCE: usize = 8;

fn name(word: &str) -> ChannelName {
    ChannelName::new(word).expect("it is a name")
}

fn channel(word: &str) -> Channel {
    Channel {
        name: name(word),
        way: Way::Webhook { url: text("https://example.com/hook") },
        needs: [Need::Question, Need::Failure].into(),
        done: true,
        delay: Millis::seconds(30),
        quiet: None,
        added_by: principal("ann"),
        nonce: Nonce(u128::MAX),
    }
}

impl World {
    async fn channel_order(&self, command: ChannelCommand) -> Result<Committed, Refusal> {
        self.ask(Aim::Channel(command)).await
    }

    async fn add_channel(&self, word: &str) -> Result<Committed, Refusal> {
        let (channel, progress) = (Box::new(channel(word)), "begun".to_owned());
        self.channel_order(ChannelCommand::Add { channel, progress }).await
    }

    async fn note(&self, word: &str, seen: u64, progress: &str) -> Result<Committed, Refusal> {
        let (channel, progress) = (name(word), progress.to_owned());
        self.channel_order(ChannelCommand::Note { channel, seen, progress }).await
    }

    async fn channels(&self) -> Vec<ChannelRow> {
        self.store().channels(Some(&self.tenant)).await.expect("reading works")
    }
}

pub async fn a_channel_reads_as_it_was_added(world: &World) {
    let committed = world.add_channel("phone").await.expect("nothing is wrong with it");
    let rows = world.channels().await;
    assert_eq!((rows.len(), &rows[0].tenant), (1, &world.tenant));
    assert_eq!(rows[0].kept.channel, channel("phone"));
    assert_eq!(rows[0].kept.progress, "begun");
    let told = world.entries_after(1).await;
    assert_eq!(Some(told[0].position), committed.position);
    let event = RecordEvent::Channel(ChannelEvent::ChannelAdded { channel: name("phone") });
    assert_eq!(told[0].happened, Happened::ToRecord(vec![event]));
    world.reopen();
    assert_eq!(world.channels().await, rows, "it is there again after a restart");
    let again = world.add_channel("phone").await;
    assert_eq!(again.err(), Some(Refusal::NameTaken { name: "phone".into() }));
}

pub async fn of_many_who_carry_on_a_channel_one_does(world: &World) {
    world.add_channel("phone").await.expect("nothing is wrong with it");
    let entries = world.entries().await.len();
    let seen = world.channels().await[0].kept.version;
    let racing: Vec<_> = (0..AT_ONCE)
        .map(|number| {
            let world = world.clone();
            tokio::spawn(async move { world.note("phone", seen, &number.to_string()).await })
        })
        .collect();
    let mut winners = vec![];
    for (number, racer) in racing.into_iter().enumerate() {
        match racer.await.expect("no note panics") {
            Ok(committed) => {
                assert_eq!(committed.position, None, "how far it is leaves no entry");
                winners.push(number);
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::VersionChanged { version: seen + 1 });
            }
        }
    }
    assert_eq!(winners.len(), 1);
    let now = world.channels().await.remove(0).kept;
    assert_eq!((now.version, now.progress), (seen + 1, winners[0].to_string()));
    assert_eq!(world.entries().await.len(), entries);
}

pub async fn a_channel_that_is_added_again_is_another(world: &World) {
    world.add_channel("phone").await.expect("nothing is wrong with it");
    let seen = world.channels().await[0].kept.version;
    world.channel_order(ChannelCommand::Remove(name("phone"))).await.expect("it is there");
    assert_eq!(world.channels().await, []);
    assert_eq!(world.note("phone", seen, "late").await.err(), Some(Refusal::NotFound));
    let twice = world.channel_order(ChannelCommand::Remove(name("phone"))).await;
    assert_eq!(twice.err(), Some(Refusal::NotFound));
    world.wait(Millis::seconds(1)).await;
    world.add_channel("phone").await.expect("the name is free");
    let version = world.channels().await[0].kept.version;
    assert_eq!(
        world.note("phone", seen, "late").await.err(),
        Some(Refusal::VersionChanged { version }),
        "whoever still carries on the one before has seen less"
    );
}

pub async fn a_channel_is_its_tenants_own(world: &World) {
    let other = world.stranger("acme");
    assert_eq!(other.note("phone", 1, "").await.err(), Some(Refusal::NotFound));
    other.add_channel("phone").await.expect("nothing is wrong with it");
    assert_eq!(world.channels().await, []);
    world.add_channel("desk").await.expect("nothing is wrong with it");
    let all = world.store().channels(None).await.expect("reading works");
    let all: Vec<_> =
        all.iter().map(|row| (row.tenant.as_str(), row.kept.channel.name.as_str())).collect();
    assert_eq!(all, [("acme", "phone"), ("local", "desk")]);
}

pub async fn there_are_only_so_many_channels(world: &World) {
    for number in 0..CHANNELS_MAX {
        world.add_channel(&format!("c{number}")).await.expect("there is room");
    }
    let refused = world.add_channel("more").await.err();
    assert_eq!(refused, Some(Refusal::full("channels", CHANNELS_MAX)));
}
