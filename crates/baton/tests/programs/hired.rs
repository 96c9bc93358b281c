//! Real agent programs under a real worker: what people and providers do to them, and what becomes of the run.

use std::thread;

use baton_testkit::model::Turn;

use crate::firm::{Firm, HIRED, Hired, completes};

/// What `wait` exits with for a task that waits for a person.
const NEEDS_PERSON: i32 = 11;
/// When limits end that say so: far enough away to be told from a guess.
const RESETS_AT: u64 = 4_000_000_000;
/// Writes one line, so that whoever does it twice is seen.
const MAKE: &str = "echo made >> made.txt";

fn text() -> Turn {
    Turn::Text("It is done.".to_owned())
}

/// Everything that was started is gone, and proved to be.
fn is_over(firm: &Firm, told: &str) {
    for (outcome, death) in firm.attempts() {
        assert_ne!(death, "none", "{told}: {outcome}\n{}", firm.told());
    }
    assert!(firm.is_deserted(), "{told}: somebody is left\n{}", firm.told());
}

fn outcomes(firm: &Firm) -> Vec<String> {
    firm.attempts().into_iter().map(|(outcome, _)| outcome).collect()
}

fn works(hired: Hired) {
    let mut firm = Firm::new(hired, "all", |_| vec![hired.runs(MAKE), completes(), text()]);
    firm.work(&["--once"]);
    assert_eq!(firm.waits(), 0, "{}", firm.told());
    firm.worker_ends();
    assert_eq!(firm.made(), "made\n", "{}", firm.told());
    assert_eq!(outcomes(&firm), ["completed"], "{}", firm.told());
    is_over(&firm, "a turn");
}

/// Where a program can ask, a person is asked; where it cannot, it may not.
fn asks(hired: Hired) {
    let mut firm = Firm::new(hired, "ask", |_| vec![hired.runs(MAKE), completes(), text()]);
    firm.work(&["--once"]);
    if hired.asks {
        assert_eq!(firm.waits(), NEEDS_PERSON, "{}", firm.told());
        let inbox = firm.types(&["inbox"]).to_string();
        assert!(inbox.contains("permission"), "{inbox}");
        assert_eq!(firm.made(), "", "it did not wait");
        firm.types(&["answer", "R-1.1", "Yes"]);
    }
    firm.worker_ends();
    let made = if hired.asks { "made\n" } else { "" };
    assert_eq!(firm.made(), made, "{}", firm.told());
    is_over(&firm, "a permission");
}

/// It is killed in the middle, and the next attempt knows what was said before.
fn goes_on(hired: Hired) {
    let mut firm = Firm::new(hired, "all", |bell| {
        let once = format!("[ -e again ] || {{ touch again; echo . > {bell}; sleep 600; }}");
        vec![hired.runs(MAKE), hired.runs(&once), completes(), text()]
    });
    firm.work(&[]);
    firm.rings();
    firm.kill_program();
    assert_eq!(firm.waits(), 0, "{}", firm.told());
    assert_eq!(firm.made(), "made\n", "it began anew: {}", firm.told());
    assert_eq!(outcomes(&firm).len(), 2, "{}", firm.told());
}

fn is_cancelled(hired: Hired) {
    let mut firm = Firm::new(hired, "all", |bell| {
        vec![hired.runs(&format!("echo . > {bell}; sleep 600")), text()]
    });
    firm.work(&["--once"]);
    firm.rings();
    firm.types(&["cancel", "T-1", "Not needed any more"]);
    firm.worker_ends();
    assert_eq!(outcomes(&firm), ["cancelled"], "{}", firm.told());
    is_over(&firm, "a cancel");
}

/// The account rests, and the attempt is nobody's fault. A program that asks again without a word for longer than
/// anybody waits for its first one is not known to be limited.
fn is_limited(hired: Hired, resets_at: Option<u64>) {
    let mut firm = Firm::new(hired, "all", |_| vec![Turn::Shut { code: 429, resets_at }]);
    firm.work(&["--once"]);
    firm.worker_ends();
    is_over(&firm, "a limit");
    if !hired.tells_limits {
        assert_eq!(outcomes(&firm), ["timed_out"], "{}", firm.told());
        return;
    }
    assert_eq!(outcomes(&firm), ["released"], "{}", firm.told());
    let pools = firm.types(&["pool", "list"]).to_string();
    assert!(pools.contains("its provider limits it"), "{pools}\n{}", firm.told());
    if resets_at.is_some() {
        assert!(pools.contains("2096-10-02"), "{pools}\n{}", firm.told());
    }
}

fn is_refused(hired: Hired) {
    let shut = || vec![Turn::Shut { code: 500, resets_at: None }];
    let mut firm = Firm::new(hired, "all", |_| shut());
    firm.work(&["--once"]);
    firm.worker_ends();
    let outcomes = outcomes(&firm);
    assert!(!outcomes.contains(&"completed".to_owned()), "{outcomes:?} {}", firm.told());
    is_over(&firm, "a provider that fails");
    println!("{} when its provider fails: {outcomes:?}", hired.word);
}

/// Every program in turn; one that fails says why, and the others are tried all the same.
fn with_each(story: &str, chosen: impl Fn(&Hired) -> bool, tell: fn(Hired)) {
    let mut failed = vec![];
    for hired in HIRED.into_iter().filter(chosen) {
        let went = thread::spawn(move || tell(hired)).join();
        println!("{story}: {} {}", hired.word, if went.is_ok() { "ok" } else { "FAILED" });
        failed.extend(went.is_err().then_some(hired.word));
    }
    assert_eq!(failed, [] as [&str; 0], "{story}");
}

fn all(_: &Hired) -> bool {
    true
}

#[test]
fn smoke_every_program_works_for_a_worker_and_completes_its_run() {
    with_each("a turn with tools", all, works);
}

#[test]
fn whoever_can_ask_waits_for_a_person_and_whoever_cannot_may_not() {
    with_each("a permission", all, asks);
}

#[test]
fn a_killed_program_goes_on_with_its_conversation_in_the_next_attempt() {
    with_each("a crash, and the same conversation", all, goes_on);
}

#[test]
fn a_cancelled_program_leaves_no_process() {
    with_each("a cancel", all, is_cancelled);
}

#[test]
fn a_limit_without_a_reset_burns_no_attempt_and_rests_the_account() {
    with_each("429 without a reset", all, |hired| is_limited(hired, None));
}

#[test]
fn a_limit_with_a_reset_rests_the_account_until_then() {
    let knows = |hired: &Hired| hired.knows_resets;
    with_each("429 with a reset", knows, |hired| is_limited(hired, Some(RESETS_AT)));
}

#[test]
fn a_provider_that_fails_ends_the_attempt_and_completes_nothing() {
    with_each("500", all, is_refused);
}
