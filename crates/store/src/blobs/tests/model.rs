//! Random histories, compared step by step with a map in memory.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::Config;

use super::super::{Blobs, Collect, Collected, Digest, Put, Quota, Settings, Urgency, Usage};
use super::{Bench, SETTINGS, at, code, collect, order, read};

const TENANTS: [&str; 2] = ["one", "two"];
const CONTENTS: [&[u8]; 6] = [b"", b"a", b"bb", b"ccccc", b"dddddddd", b"eeeeeeeeeeeee"];
const SETTINGS_SMALL: Settings = Settings {
    tenant_quota: Quota { blobs_max: 4, bytes_max: 20 },
    total_quota: Quota { blobs_max: 6, bytes_max: 30 },
    ..SETTINGS
};

#[derive(Clone, Debug)]
enum Step {
    Put { tenant: usize, content: usize, announced: bool },
    Refresh { tenant: usize, content: usize },
    Damage { tenant: usize, content: usize },
    Collect { tenant: usize, live: [bool; 6], older_than: u64, budget: u32 },
    Wait { seconds: u64 },
    Disk { full: bool },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tenant = 0..TENANTS.len();
    let content = 0..CONTENTS.len();
    let both = (tenant.clone(), content);
    let step = prop_oneof![
        8 => (both.clone(), any::<bool>())
            .prop_map(|((tenant, content), announced)| Step::Put { tenant, content, announced }),
        2 => both.clone().prop_map(|(tenant, content)| Step::Refresh { tenant, content }),
        1 => both.prop_map(|(tenant, content)| Step::Damage { tenant, content }),
        3 => (tenant, any::<[bool; 6]>(), 0..40_u64, 1..4_u32).prop_map(
            |(tenant, live, older_than, budget)| Step::Collect { tenant, live, older_than, budget }
        ),
        3 => (0..20_u64).prop_map(|seconds| Step::Wait { seconds }),
        1 => any::<bool>().prop_map(|full| Step::Disk { full }),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..40)
}

#[derive(Clone, Copy)]
struct Kept {
    refreshed_at: u64,
    damaged: bool,
}

struct World {
    bench: Bench,
    model: HashMap<(usize, usize), Kept>,
    now: u64,
    full: bool,
}

impl World {
    fn usage(&self, tenants: &[usize]) -> Usage {
        let kept = self.model.keys().filter(|(tenant, _)| tenants.contains(tenant));
        kept.fold(Usage::default(), |sum, (_, content)| sum.plus(Usage::blob(size(*content))))
    }

    /// What the limits say to a copy of this content.
    fn room(&self, tenant: usize, content: usize) -> &'static str {
        let exceeds = |usage: Usage, quota: Quota| {
            let wanted = usage.plus(Usage::blob(size(content)));
            wanted.blobs > quota.blobs_max || wanted.bytes > quota.bytes_max
        };
        if self.full {
            "disk_full"
        } else if exceeds(self.usage(&[tenant]), SETTINGS_SMALL.tenant_quota)
            || exceeds(self.usage(&[0, 1]), SETTINGS_SMALL.total_quota)
        {
            "quota_exceeded"
        } else {
            "ok"
        }
    }

    fn put(&mut self, tenant: usize, content: usize, announced: bool) {
        let bytes = CONTENTS[content];
        let expected = announced.then(|| Digest::of(bytes));
        let put = Put { expected, urgency: Urgency::Ordinary, ..order(self.now) };
        let answer = self.bench.blobs().put(TENANTS[tenant], &mut &bytes[..], &put);
        let known = self.model.get(&(tenant, content)).copied();
        let room = self.room(tenant, content);
        let whole = known.is_some_and(|kept| !kept.damaged);
        if whole || room == "ok" {
            assert_eq!(answer.expect("stored").new, known.is_none());
            self.model.insert((tenant, content), Kept { refreshed_at: self.now, damaged: false });
        } else {
            assert_eq!(code(answer), room);
        }
    }

    fn collect(&mut self, tenant: usize, live: [bool; 6], older_than: u64, budget: u32) {
        let budget = NonZeroU32::new(budget).expect("not zero");
        let rules = Collect { budget, ..collect(older_than, self.now) };
        let is_live = |digest: &Digest| {
            (0..CONTENTS.len())
                .any(|content| live[content] && Digest::of(CONTENTS[content]) == *digest)
        };
        let mut sum = Collected { more: true, ..Collected::default() };
        // Even with the smallest budget, as many calls as there are blobs are enough.
        for _ in 0..CONTENTS.len() {
            let some = self.bench.blobs().collect(TENANTS[tenant], &is_live, &rules);
            let some = some.expect("collected");
            assert!(some.kept + some.removed <= u64::from(budget.get()));
            sum.kept += some.kept;
            sum.removed += some.removed;
            sum.freed_bytes += some.freed_bytes;
            sum.more = some.more;
            if !sum.more {
                break;
            }
        }
        assert!(!sum.more);
        let before = self.usage(&[tenant]);
        let now = self.now;
        self.model.retain(|(owner, content), kept| {
            *owner != tenant || live[*content] || now - kept.refreshed_at < older_than
        });
        let after = self.usage(&[tenant]);
        assert_eq!(sum.kept, after.blobs);
        assert_eq!(sum.removed, before.blobs - after.blobs);
        assert_eq!(sum.freed_bytes, before.bytes - after.bytes);
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Put { tenant, content, announced } => self.put(tenant, content, announced),
            Step::Refresh { tenant, content } => {
                let digest = Digest::of(CONTENTS[content]);
                let answer = self.bench.blobs().refresh(TENANTS[tenant], &digest, at(self.now));
                match self.model.get_mut(&(tenant, content)) {
                    Some(kept) => {
                        kept.refreshed_at = self.now;
                        assert_eq!(answer.expect("there").refreshed_at, at(self.now));
                    }
                    None => assert_eq!(code(answer), "not_found"),
                }
            }
            Step::Damage { tenant, content } => {
                if let Some(kept) = self.model.get_mut(&(tenant, content))
                    && !CONTENTS[content].is_empty()
                    && !kept.damaged
                {
                    kept.damaged = true;
                    self.bench.flip_a_byte(TENANTS[tenant], &Digest::of(CONTENTS[content]));
                }
            }
            Step::Collect { tenant, live, older_than, budget } => {
                self.collect(tenant, live, older_than, budget);
            }
            Step::Wait { seconds } => self.now += seconds,
            Step::Disk { full } => {
                self.full = full;
                let free_bytes = if full { 0 } else { u64::MAX };
                self.bench.free_bytes.store(free_bytes, Ordering::SeqCst);
            }
            Step::Reopen => {
                self.bench.reopen();
                assert_eq!(self.bench.opened.usage, self.usage(&[0, 1]));
                assert_eq!(self.bench.opened.leftovers_removed, 0);
            }
        }
    }

    fn compare(&self) {
        let blobs = self.bench.blobs();
        for (tenant, name) in TENANTS.into_iter().enumerate() {
            assert_eq!(blobs.usage(name).expect("known"), self.usage(&[tenant]));
            for (content, bytes) in CONTENTS.into_iter().enumerate() {
                let digest = Digest::of(bytes);
                let stat = blobs.stat(name, &digest);
                let got = blobs.get_verified(name, &digest);
                match self.model.get(&(tenant, content)) {
                    None => assert_eq!((code(stat), code(got)), ("not_found", "not_found")),
                    Some(kept) => {
                        let stat = stat.expect("there");
                        assert_eq!(
                            (stat.size, stat.refreshed_at),
                            (size(content), at(kept.refreshed_at))
                        );
                        if kept.damaged {
                            assert_eq!(code(got), "corrupt");
                        } else {
                            assert_eq!(read(got.expect("whole")).expect("read"), bytes);
                        }
                    }
                }
            }
        }
    }
}

fn size(content: usize) -> u64 {
    u64::try_from(CONTENTS[content].len()).expect("small")
}

proptest! {
    #![proptest_config(Config { cases: 64, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_random_history_matches_the_model(steps in steps()) {
        let bench = Bench::new(SETTINGS_SMALL);
        let mut world = World { bench, model: HashMap::new(), now: 1_000, full: false };
        for step in steps {
            world.apply(step);
            world.compare();
        }
    }
}
