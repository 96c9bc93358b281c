//! What is written of a brief, and what of its contract is whose.

use crate::command::{Clear, Patch};
use crate::contract::{Binding, Contract};
use crate::ids::LineId;
use crate::refusal::Refusal;
use crate::task::{Bound, Brief};

impl Brief {
    pub(super) fn edit(&mut self, patch: &Patch) {
        if let Some(title) = &patch.title {
            self.title = title.clone();
        }
        if patch.clear.contains(&Clear::Body) {
            self.body = None;
        }
        if let Some(body) = &patch.body {
            self.body = Some(body.clone());
        }
        if let Some(labels) = &patch.labels {
            self.labels = labels.clone();
        }
        if let Some((contract, _)) = &patch.contract {
            let bound = self.bound.as_ref().map(|bound| &bound.lines);
            self.contract.lines.retain(|line, _| bound.is_some_and(|all| all.contains(line)));
            self.contract.lines.extend(contract.lines.clone());
        }
    }

    pub(super) fn bind(&mut self, binding: &Binding) {
        let mut contract = self.own();
        let is_added = |line: &&LineId| !contract.lines.contains_key(*line);
        let lines = binding.contract.lines.keys().filter(is_added).cloned().collect();
        let (protected, base) = (binding.protected.clone(), binding.base.clone());
        let bound = Bound { lines, protected, base };
        self.bound = (bound != Bound::default()).then_some(bound);
        contract.lines.extend(binding.contract.lines.clone());
        self.contract = contract;
    }

    /// The lines that the task itself asks for.
    #[must_use]
    pub fn own(&self) -> Contract {
        let bound = self.bound.as_ref();
        let is_own = |line: &LineId| !bound.is_some_and(|bound| bound.lines.contains(line));
        let lines = self.contract.lines.iter().filter(|(line, _)| is_own(line));
        Contract { lines: lines.map(|(line, term)| (line.clone(), term.clone())).collect() }
    }

    /// All that is asked for if the task itself asks for this.
    ///
    /// # Errors
    /// If a line takes the name of one of the project's, or if it is too much.
    pub fn with_own(&self, own: &Contract) -> Result<Contract, Refusal> {
        let bound = self.bound.as_ref().map(|bound| &bound.lines);
        let mut all = self.contract.clone();
        all.lines.retain(|line, _| bound.is_some_and(|bound| bound.contains(line)));
        for (line, term) in &own.lines {
            if all.lines.insert(line.clone(), term.clone()).is_some() {
                return Err(taken(line, "the project's contract"));
            }
        }
        all.check()?;
        Ok(all)
    }

    /// All that is asked for if the project asks for this.
    ///
    /// # Errors
    /// If a name means two things, or if it is too much.
    pub fn with_bound(&self, bound: &Contract) -> Result<Contract, Refusal> {
        let mut all = self.own();
        for (line, term) in &bound.lines {
            let before = all.lines.entry(line.clone()).or_insert_with(|| term.clone());
            if before != term {
                return Err(taken(line, "the task's contract"));
            }
        }
        all.check()?;
        Ok(all)
    }
}

fn taken(line: &LineId, whose: &str) -> Refusal {
    let rule = format!("is a line of {whose} already: lines are added, never replaced");
    Refusal::Invalid { field: format!("contract.{line}"), rule }
}
