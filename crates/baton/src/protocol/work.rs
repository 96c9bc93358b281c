//! Work that was kept, as it is told, kept in history, and handed on.

use baton_domain::ids::Digest;
use baton_domain::text::Text;

use crate::shape::record;

/// Bundles that one snapshot may be made of: then the next one is made over its base alone.
pub const BUNDLES_MAX: usize = 8;
/// Bundles that one base may be made of: then the next one holds everything.
pub const BASE_BUNDLES_MAX: usize = 4;

/// The name under which the digest of a log is kept with a checkpoint.
pub const LOG_KEPT_AS: &str = "baton-log";

record! {
    /// A snapshot of the work on a task, and the blobs that it can be made from on any machine.
    pub struct Work {
        /// The attempt that did it, by its number.
        attempt: u32,
        /// Which of its snapshots this is, counted up.
        number: u32,
        /// The commit that holds everything.
        snapshot: Text<64>,
        /// The commit that the task began from.
        base: Text<64>,
        /// Git bundles that hold the snapshot over its base, to be taken in in this order.
        #[at_most(BUNDLES_MAX)]
        bundles: Vec<Digest>,
        /// Git bundles that hold the base, in this order; none if it is too large, and has to be there already.
        #[at_most(BASE_BUNDLES_MAX)]
        base_bundles: Vec<Digest>,
    }
}

impl Work {
    /// The name under which it is kept with a checkpoint. Names that begin like it are the workers' own.
    pub const KEPT_AS: &str = "baton-work";

    /// Which of two is newer: attempts follow each other, and so do the snapshots of one.
    #[must_use]
    pub fn age(&self) -> (u32, u32) {
        (self.attempt, self.number)
    }

    /// In one line, as it is kept.
    #[must_use]
    pub fn line(&self) -> String {
        let listed = |digests: &[Digest]| -> String {
            digests.iter().map(|digest| format!(" {}", digest.as_str())).collect()
        };
        let Self { attempt, number, snapshot, base, bundles, base_bundles } = self;
        let (bundles, bases) = (listed(bundles), listed(base_bundles));
        format!("{attempt} {number} {snapshot} {base}{bundles} over{bases}")
    }

    /// Reads it back; none if it is no such line.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let (head, bases) = line.split_once(" over")?;
        let mut words = head.split(' ');
        let (attempt, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let snapshot = Text::new("snapshot", words.next()?).ok()?;
        let base = Text::new("base", words.next()?).ok()?;
        let bundles: Vec<_> = words.map(Digest::new).collect::<Result<_, _>>().ok()?;
        let bases = bases.split(' ').filter(|word| !word.is_empty()).map(Digest::new);
        let base_bundles: Vec<_> = bases.collect::<Result<_, _>>().ok()?;
        let fits = bundles.len() <= BUNDLES_MAX && base_bundles.len() <= BASE_BUNDLES_MAX;
        fits.then_some(Self { attempt, number, snapshot, base, bundles, base_bundles })
    }
}
