//! From the words of a wish to scopes. The list of operations says which scopes there are; a word
//! that it does not know is refused by name, so that a typing error never grants or withholds
//! anything unseen.

use std::collections::BTreeSet;

use baton_domain::Refusal;
use baton_domain::scope::{Level, Scope};

/// Nouns whose reading is for people: who has keys, and who did what.
const CONFIDENTIAL: &[&str] = &["key", "audit"];

/// A name for many scopes. It is expanded when a key is made: a later scope does not join it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Look at everything, and change nothing.
    Read,
    /// What an agent needs: look at everything but keys and audit, claim and act as the attempt, file
    /// tasks, hand in blobs. It cannot force, set up, or make keys.
    Agent,
    /// What a worker needs: what an agent may but filing tasks, and whatever else is called work.
    Worker,
    /// Everything.
    All,
}

impl Preset {
    fn of(word: &str) -> Option<Self> {
        match word {
            "read" => Some(Self::Read),
            "agent" => Some(Self::Agent),
            "worker" => Some(Self::Worker),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    fn holds(self, scope: &Scope) -> bool {
        let (noun, level) = (scope.noun(), scope.level());
        let looks = level == Level::Read && !CONFIDENTIAL.contains(&noun);
        let hands_in = (noun, level) == ("blob", Level::Write);
        match self {
            Self::Read => level == Level::Read,
            Self::Agent => {
                let own = [("run", Level::Work), ("task", Level::Write)];
                looks || hands_in || own.contains(&(noun, level))
            }
            Self::Worker => looks || hands_in || level == Level::Work,
            Self::All => true,
        }
    }

    /// The scopes that it stands for.
    #[must_use]
    pub fn expand(self, known: &[Scope]) -> BTreeSet<Scope> {
        known.iter().filter(|scope| self.holds(scope)).cloned().collect()
    }
}

/// The scopes that the words of a wish stand for: presets, or scopes by name.
pub fn grant(words: &[String], known: &[Scope]) -> Result<BTreeSet<Scope>, Refusal> {
    let mut granted = BTreeSet::new();
    for word in words {
        if let Some(preset) = Preset::of(word) {
            granted.extend(preset.expand(known));
            continue;
        }
        let invalid = |rule| Refusal::Invalid { field: "scopes".into(), rule };
        let scope: Scope = word.parse().map_err(|_| {
            invalid("must be read, agent, worker or all, or look like run:work".to_owned())
        })?;
        if !known.contains(&scope) {
            return Err(invalid(format!("must not name `{scope}`, which does not exist")));
        }
        granted.insert(scope);
    }
    Ok(granted)
}
