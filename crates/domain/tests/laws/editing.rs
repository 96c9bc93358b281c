//! An edit says what changes, and nothing else.

use baton_domain::command::{Clear, Patch, Person};
use baton_domain::event::Event;
use baton_domain::policy::{Choice, Policy};
use baton_domain::task::Priority;

use crate::cast::{capability, contracted, digest, one_gate, principal, text, world};
use crate::world::World;

fn edit(world: &mut World, patch: Patch) -> Vec<Event> {
    let id = *world.tasks.keys().next().expect("there is a task");
    world.person(id, Person::Edit(Box::new(patch))).expect("a person may").events
}

fn everything() -> Patch {
    Patch {
        title: Some(text("new")),
        body: Some(text("at length")),
        priority: Some(Priority::High),
        labels: Some([].into()),
        assignee: Some(principal("ada")),
        capabilities: Some([capability("gpu")].into()),
        policy: Some(Choice { losses_max: Some(3), ..Choice::default() }),
        contract: Some((one_gate(), digest())),
        clear: [].into(),
    }
}

#[test]
fn an_edit_that_says_what_is_so_already_writes_nothing() {
    let mut world = world();
    world.made(contracted());
    assert_eq!(edit(&mut world, everything()).len(), 1);
    assert_eq!(edit(&mut world, everything()), vec![]);
    let usual = Patch { policy: Some(Choice::default()), ..Patch::default() };
    assert_eq!(edit(&mut world, usual), vec![]);
    let clear = Patch { clear: [Clear::Body, Clear::Assignee].into(), ..Patch::default() };
    assert_eq!(edit(&mut world, clear.clone()).len(), 1);
    assert_eq!(edit(&mut world, clear), vec![]);
}

#[test]
fn an_edit_writes_only_what_is_not_so_already() {
    let mut world = world();
    world.made(contracted());
    edit(&mut world, everything());
    let title = Some(text("newer"));
    let patch = Box::new(Patch { title: title.clone(), ..Patch::default() });
    let told = edit(&mut world, Patch { title, ..everything() });
    assert_eq!(told, vec![Event::Edited { patch }]);
}

#[test]
fn what_is_not_chosen_of_a_policy_stays() {
    let mut world = world();
    let id = world.made(contracted());
    for choice in [
        Choice { losses_max: Some(3), ..Choice::default() },
        Choice { tries_max: Some(7), ..Choice::default() },
    ] {
        edit(&mut world, Patch { policy: Some(choice), ..Patch::default() });
    }
    let chosen = Policy { losses_max: 3, tries_max: 7, ..Policy::default() };
    assert_eq!(world.flow(id).policy, chosen);
}
