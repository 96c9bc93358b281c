//! Figures for whoever watches from outside. The engine owns them; nothing is global.

use std::fmt;

use baton_store::order::Swept;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper ends of the latency buckets in seconds: a commit in memory takes microseconds, one on a
/// busy disk up to seconds.
const SECONDS: [f64; 14] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0,
    5.0,
];

/// Everything that the engine counts.
pub struct Metrics {
    registry: Registry,
    orders: Family<OrderLabels, Counter>,
    latency: Family<AimLabels, Histogram, Latency>,
    sweeps: Family<OutcomeLabels, Counter>,
    seals: Family<OutcomeLabels, Counter>,
    fired: Counter,
    reactions: Counter,
    redactions: Family<SecretLabels, Counter>,
}

/// Who waits, and who was woken by what.
#[derive(Clone, Debug, Default)]
pub struct Wakes {
    /// Claimers that wait now.
    pub waiting: Gauge,
    woken: Family<WakeLabels, Counter>,
}

/// What woke somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A run joined a lane.
    Lane,
    /// Pools have room.
    Pools,
    /// Somebody else could not use it.
    HandedOn,
    /// Nothing did: work was found by looking, so a bell was lost.
    Poll,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OrderLabels {
    aim: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AimLabels {
    aim: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SecretLabels {
    told: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WakeLabels {
    cause: &'static str,
}

#[derive(Clone, Copy)]
struct Latency;

impl MetricConstructor<Histogram> for Latency {
    fn new_metric(&self) -> Histogram {
        Histogram::new(SECONDS)
    }
}

impl Wakes {
    pub(crate) fn woken(&self, cause: Wake) {
        self.counter(cause).inc();
    }

    /// How often that woke somebody.
    #[must_use]
    pub fn count(&self, cause: Wake) -> u64 {
        self.counter(cause).get()
    }

    fn counter(&self, cause: Wake) -> Counter {
        self.woken.get_or_create_owned(&WakeLabels { cause: cause.word() })
    }
}

impl Wake {
    fn word(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Pools => "pools",
            Self::HandedOn => "handed_on",
            Self::Poll => "poll",
        }
    }
}

impl Metrics {
    /// Everything at zero, but for who waits already.
    #[must_use]
    pub fn new(wakes: &Wakes) -> Self {
        let mut registry = Registry::with_prefix("baton");
        let metrics = Self {
            orders: Family::default(),
            latency: Family::new_with_constructor(Latency),
            sweeps: Family::default(),
            seals: Family::default(),
            fired: Counter::default(),
            reactions: Counter::default(),
            redactions: Family::default(),
            registry: Registry::default(),
        };
        registry.register("orders", "Orders by aim and outcome", metrics.orders.clone());
        registry.register("order_seconds", "From order to answer", metrics.latency.clone());
        registry.register("waiters", "Claimers that wait", wakes.waiting.clone());
        registry.register("wakeups", "Claimers woken, by cause", wakes.woken.clone());
        registry.register("sweeps", "Sweeps by outcome", metrics.sweeps.clone());
        registry.register("fired", "Tasks for which time passed", metrics.fired.clone());
        registry.register("reactions", "Reactions carried out", metrics.reactions.clone());
        registry.register("seals", "Seals by outcome", metrics.seals.clone());
        let redactions = metrics.redactions.clone();
        registry.register(
            "redactions",
            "Secrets masked in texts, by how they were told",
            redactions,
        );
        Self { registry, ..metrics }
    }

    /// An order was answered.
    pub(crate) fn ordered(&self, aim: &'static str, outcome: &'static str, micros: u64) {
        self.orders.get_or_create(&OrderLabels { aim, outcome }).inc();
        let micros = u32::try_from(micros).unwrap_or(u32::MAX);
        self.latency.get_or_create(&AimLabels { aim }).observe(f64::from(micros) / 1e6);
    }

    /// A sweep was answered.
    pub(crate) fn swept(&self, outcome: &'static str, swept: Swept) {
        self.sweeps.get_or_create(&OutcomeLabels { outcome }).inc();
        self.fired.inc_by(u64::try_from(swept.due).unwrap_or(u64::MAX));
        self.reactions.inc_by(u64::try_from(swept.reactions).unwrap_or(u64::MAX));
    }

    /// A seal was made, or not.
    pub(crate) fn sealed(&self, outcome: &'static str) {
        self.seals.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Secrets were masked in what somebody asked.
    pub(crate) fn redacted(&self, known: u64, shapes: u64) {
        for (told, count) in [("known", known), ("shape", shapes)] {
            self.redactions.get_or_create(&SecretLabels { told }).inc_by(count);
        }
    }

    /// All figures in the text form that scrapers read.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes what is written to it");
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics(…)")
    }
}
