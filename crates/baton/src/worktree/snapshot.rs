//! Snapshots: everything that an agent did, as one commit, without a word to the agent's own repository.

use std::collections::BTreeMap;

use super::beneath::Root;
use super::depot::Commit;
use super::refs::{BRANCHES_MAX, Head, STASHES_MAX, Tips, is_branch};
use super::scan::scan;
use super::stats::Stats;
use super::{Depot, Error, LeftOut, Oid, Worktree};

/// Snapshots of an attempt that are kept: at one in a quarter of a minute, the last eight minutes, and the
/// last one for good.
const SNAPSHOTS_MAX: usize = 32;
/// The first line of a snapshot.
const TITLE: &str = "Baton snapshot";

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What it is called.
    pub name: String,
    /// The attempt that it is called after, and which one of it this is.
    pub age: (u32, u32),
    pub commit: Oid,
    /// The files: equal trees are equal files, so this is the fingerprint of the work.
    pub tree: Oid,
    /// The agent's last commit.
    pub head: Oid,
    /// What the task began from.
    pub base: Oid,
    pub left_out: LeftOut,
}

/// Whether there was anything to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is new.
    New(Snapshot),
    /// Nothing has changed since this one.
    Same(Snapshot),
}

impl Taken {
    /// The snapshot that holds what is there now.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        match self {
            Self::New(snapshot) | Self::Same(snapshot) => snapshot,
        }
    }
}

/// What a snapshot keeps besides files, as its text says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// The commit whose files are meant.
    pub(super) files: Oid,
    base: Oid,
    head: Option<Oid>,
    /// The branch that the head is on.
    branch: Option<String>,
    branches: BTreeMap<String, Oid>,
    stash: Vec<Oid>,
}

impl Kept {
    /// A task's beginning.
    pub(super) fn base(base: &Oid) -> Self {
        let (files, head) = (base.clone(), Some(base.clone()));
        let (branches, stash) = (BTreeMap::new(), vec![]);
        Self { files, base: base.clone(), head, branch: None, branches, stash }
    }

    /// Reads a snapshot that is in the depot.
    pub(super) fn read(depot: &Depot, commit: &Oid) -> Result<Self, Error> {
        let found = depot.commit(commit)?;
        Self::parse(commit, &found).ok_or_else(|| Error::NoSnapshot(commit.to_string()))
    }

    fn parse(commit: &Oid, found: &Commit) -> Option<Self> {
        let mut lines = found.says.lines();
        if lines.next() != Some(TITLE) {
            return None;
        }
        let (mut base, mut head, mut branch) = (None, None, None);
        let (mut branches, mut stash) = (BTreeMap::new(), vec![]);
        for line in lines {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("base"), Some(oid), None) => base = oid.parse().ok(),
                (Some("head"), Some(oid), None) => head = oid.parse().ok(),
                (Some("on"), Some(name), None) => branch = Some(name.to_owned()),
                (Some("ref"), Some(name), Some(oid)) => {
                    branches.insert(name.to_owned(), oid.parse().ok()?);
                }
                (Some("stash"), Some(oid), None) => stash.push(oid.parse().ok()?),
                (..) => {}
            }
        }
        branches.retain(|name, _| is_branch(name));
        let branch = branch.filter(|name| is_branch(name));
        // What is named must be behind the commit: its parents are what came with it.
        let mut named = branches.values().chain(&stash).chain(head.as_ref());
        let base: Oid = base?;
        let held = named.all(|oid| found.parents.contains(oid) || *oid == base);
        let files = commit.clone();
        held.then_some(Self { files, base, head, branch, branches, stash })
    }

    fn text(&self) -> String {
        let mut text = format!("{TITLE}\n\nbase {}\n", self.base);
        if let Some(head) = &self.head {
            text.push_str(&format!("head {head}\n"));
        }
        if let Some(branch) = &self.branch {
            text.push_str(&format!("on {branch}\n"));
        }
        for (name, oid) in &self.branches {
            text.push_str(&format!("ref {name} {oid}\n"));
        }
        for oid in &self.stash {
            text.push_str(&format!("stash {oid}\n"));
        }
        text
    }

    /// The commit that the task began from.
    pub(super) fn began_from(&self) -> &Oid {
        &self.base
    }

    /// The commit that changes are told against.
    pub(super) fn head(&self) -> &Oid {
        self.head.as_ref().unwrap_or(&self.base)
    }

    pub(super) fn head_file(&self) -> String {
        match &self.branch {
            Some(branch) => format!("ref: {branch}\n"),
            None => format!("{}\n", self.head()),
        }
    }

    /// All branches in one file, with the one that the task began from.
    pub(super) fn packed_refs(&self, from: Option<&str>, base: &Oid) -> String {
        let mut refs = self.branches.clone();
        let from = from.map(|name| format!("refs/heads/{name}")).filter(|name| is_branch(name));
        if let Some(from) = from {
            refs.entry(from).or_insert_with(|| base.clone());
        }
        refs.extend(self.stash.first().map(|oid| ("refs/stash".to_owned(), oid.clone())));
        let lines: String = refs.iter().map(|(name, oid)| format!("{oid} {name}\n")).collect();
        format!("# pack-refs with: sorted \n{lines}")
    }

    /// The log of the stash, in which its entries are, the oldest first.
    pub(super) fn stash_log(&self) -> Option<String> {
        let mut before = self.base.nothing();
        let mut log = String::new();
        for oid in self.stash.iter().rev() {
            // Git takes an entry of the very first second for a damaged one.
            log.push_str(&format!("{before} {oid} Baton <baton@localhost> 1 +0000\tkept\n"));
            before = oid.to_string();
        }
        (!log.is_empty()).then_some(log)
    }

    /// The commits that it is made over: the head first, then everything else that is named.
    fn parents(&self) -> Vec<&Oid> {
        let mut parents = vec![self.head()];
        for oid in self.branches.values().chain(&self.stash) {
            if !parents.contains(&oid) && *oid != self.base {
                parents.push(oid);
            }
        }
        parents
    }
}

impl Worktree {
    /// Keeps everything that is there now, under the name of an attempt. If that is what the last snapshot
    /// holds, nothing is written.
    ///
    /// # Errors
    /// If the folder is not the one that was made, or cannot be read.
    pub fn snapshot(&self, attempt: u32) -> Result<Taken, Error> {
        self.take(attempt, true)
    }

    /// Which of these are not as they were in the commit that the task began from.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn changed(&self, attempt: u32, paths: &[&str]) -> Result<Vec<String>, Error> {
        let taken = self.take(attempt, true)?;
        let call = self.depot()?.call("diff-tree").args(["-r", "-z", "--name-only"]);
        let call = call.args([self.record.base.as_str(), taken.snapshot().tree.as_str(), "--"]);
        let said = call.args(paths).run()?;
        let names = said.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// The same. Without trust, every file is read again.
    pub(super) fn take(&self, attempt: u32, trust: bool) -> Result<Taken, Error> {
        let _looking = self.look()?;
        let depot = self.depot()?;
        let root = self.root()?;
        let all = self.snapshots()?;
        let (kept, lost) = self.committed(&depot, &root, &all)?;
        let (tree, mut left_out) = self.scanned(&depot, &root, kept.head(), trust)?;
        left_out.commits = lost;
        let commit = committed(&depot, &tree, &kept)?;
        let made = |name: String, age: (u32, u32)| Snapshot {
            name,
            age,
            commit: commit.clone(),
            tree: tree.clone(),
            head: kept.head().clone(),
            base: kept.base.clone(),
            left_out: left_out.clone(),
        };
        let newest = all.iter().max_by_key(|one| (one.attempt, one.number));
        if let Some(newest) = newest.filter(|newest| newest.commit == commit) {
            let age = (newest.attempt, newest.number);
            return Ok(Taken::Same(made(newest.name.clone(), age)));
        }
        let own = all.iter().filter(|one| one.attempt == attempt);
        let number = own.map(|one| one.number).max().unwrap_or(0) + 1;
        let name = format!("{}{attempt}/{number}", self.refs());
        depot.call("update-ref").args([&name, commit.as_str(), &commit.nothing()]).run()?;
        self.thin_out(&depot, &all, attempt)?;
        Ok(Taken::New(made(name, (attempt, number))))
    }

    /// What the agent's repository names, and how many commits of it cannot be had.
    fn committed(&self, depot: &Depot, root: &Root, all: &[Named]) -> Result<(Kept, usize), Error> {
        let mut tips = Tips::read(root);
        let mut known = vec![self.record.base.clone()];
        known.extend(all.iter().map(|one| one.commit.clone()));
        let lost = tips.bring(root, depot, &known, &self.folder)? + tips.more;
        debug_assert!(tips.branches.len() <= BRANCHES_MAX && tips.stash.len() <= STASHES_MAX);
        let head = tips.at().cloned();
        let (branch, unreadable) = match &tips.head {
            Head::Branch(name) => (Some(name.clone()), false),
            Head::Detached(_) => (None, false),
            Head::Unreadable => (None, true),
        };
        let kept = Kept {
            files: self.record.base.clone(),
            base: self.record.base.clone(),
            head,
            branch,
            branches: tips.branches.into_iter().collect(),
            stash: tips.stash,
        };
        Ok((kept, lost + usize::from(unreadable)))
    }

    /// The tree of the files. What was remembered may have been collected: then nothing is remembered.
    fn scanned(
        &self,
        depot: &Depot,
        root: &Root,
        head: &Oid,
        trust: bool,
    ) -> Result<(Oid, LeftOut), Error> {
        match scan(self, depot, root, head, trust) {
            Err(Error::Git { .. }) if trust => {
                Stats::drop_all(&self.folder);
                scan(self, depot, root, head, false)
            }
            done => done,
        }
    }

    /// Forgets the oldest snapshots of an attempt that has many.
    fn thin_out(&self, depot: &Depot, all: &[Named], attempt: u32) -> Result<(), Error> {
        let mut own: Vec<_> = all.iter().filter(|one| one.attempt == attempt).collect();
        own.sort_by_key(|one| one.number);
        let surplus = (own.len() + 1).saturating_sub(SNAPSHOTS_MAX);
        let old: Vec<_> =
            own.iter().take(surplus).map(|one| (one.name.clone(), one.commit.clone())).collect();
        depot.forget(&old)
    }

    /// The snapshots of its task.
    pub(super) fn snapshots(&self) -> Result<Vec<Named>, Error> {
        named(&self.depot()?, &self.refs())
    }
}

/// A snapshot by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) commit: Oid,
    pub(super) attempt: u32,
    pub(super) number: u32,
}

/// The snapshots under the refs of a task.
pub(super) fn named(depot: &Depot, refs: &str) -> Result<Vec<Named>, Error> {
    let read = |(name, commit): (String, Oid)| {
        let (attempt, number) = name.strip_prefix(refs)?.split_once('/')?;
        let (attempt, number) = (attempt.parse().ok()?, number.parse().ok()?);
        Some(Named { name, commit, attempt, number })
    };
    Ok(depot.refs(refs)?.into_iter().filter_map(read).collect())
}

/// The commit of a snapshot. Its time is the time of the commit that it is made over: the same work gives the
/// same commit, whoever keeps it and when.
fn committed(depot: &Depot, tree: &Oid, kept: &Kept) -> Result<Oid, Error> {
    let at = format!("@{} +0000", depot.commit(kept.head())?.at);
    let mut call = depot.call("commit-tree").arg(tree.as_str());
    for parent in kept.parents() {
        call = call.args(["-p", parent.as_str()]);
    }
    for who in ["AUTHOR", "COMMITTER"] {
        call = call
            .env(&format!("GIT_{who}_NAME"), "Baton")
            .env(&format!("GIT_{who}_EMAIL"), "baton@localhost")
            .env(&format!("GIT_{who}_DATE"), &at);
    }
    let said = call.reads(kept.text().into_bytes()).run()?;
    Oid::said(&said).ok_or_else(|| Error::NoCommit(String::from_utf8_lossy(&said).into_owned()))
}
