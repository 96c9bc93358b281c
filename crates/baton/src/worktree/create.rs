//! Making a worktree: once, and if that is cut short, again from the beginning. Nobody works in it before
//! its record says that it is ready.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use baton_domain::ids::ProjectId;
use serde::{Deserialize, Serialize};

use super::beneath::Root;
use super::house::hold;
use super::include::{exclude_from, include};
use super::record::{Record, clear};
use super::snapshot::Kept;
use super::stats::Stats;
use super::{Depot, Error, Held, House, Included, Key, Oid, Repository, State, Worktree};

/// Characters of what a command said that are recorded: its last words.
const TAIL_CHARS_MAX: usize = 4_000;
/// Commands that are run; a project that needs more has a script.
pub const SETUP_MAX: usize = 32;
/// Bytes of the list of what is ignored that is taken along.
const EXCLUDE_BYTES_MAX: u64 = 64 << 10;

/// What a worktree should be.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    pub key: Key,
    /// The attempt that works there.
    pub attempt: u32,
    pub project: &'a ProjectId,
    pub source: Source<'a>,
    /// The commit that the task begins from; one that goes on from a snapshot keeps the base of that.
    pub base: Oid,
    /// What the base's branch is called, so that an agent can compare with it: `main`.
    pub branch: Option<&'a str>,
    /// The snapshot to begin from, of any attempt on any machine.
    pub from: Option<Oid>,
    /// Name and address under which the agent commits.
    pub author: (&'a str, &'a str),
    /// Commands that are run once, when everything else is there.
    pub setup: &'a [String],
}

/// Where the base comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The project's repository on this machine.
    Repository(&'a Repository),
    /// A bundle that was taken in before.
    Bundles,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    pub command: String,
    /// None if a signal ended it.
    pub code: Option<i32>,
    /// The last that it said.
    pub tail: String,
}

/// Runs a command of the project in the folder: in the sandbox in which its agents run, by whoever has one.
/// The right to the folder is lent to whatever may outlive this process.
pub type Setup<'a> = dyn FnMut(&str, &Path, &mut Held) -> io::Result<Ran> + 'a;

/// A worktree that is ready, and the right to work in it.
#[derive(Debug)]
pub struct Prepared {
    pub worktree: Worktree,
    pub held: Held,
    /// Whether it was made now; what was there was left as it is, and no command was run.
    pub made: bool,
    pub included: Included,
}

/// The steps of making one: between any two the machine may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Based,
    Recorded,
    Foldered,
    Filled,
    Counted,
    Linked,
    Indexed,
    Included,
    SetUp,
    Ready,
}

/// All of them, in order.
pub const STEPS: [Step; 10] = [
    Step::Based,
    Step::Recorded,
    Step::Foldered,
    Step::Filled,
    Step::Counted,
    Step::Linked,
    Step::Indexed,
    Step::Included,
    Step::SetUp,
    Step::Ready,
];

impl House {
    /// The worktree of a plan: the one that is there, or a new one.
    ///
    /// # Errors
    /// If somebody works in it, if it is quarantined, or if it cannot be made. Asking again begins again.
    pub fn prepare(&self, plan: &Plan<'_>, setup: &mut Setup<'_>) -> Result<Prepared, Error> {
        self.prepare_by_steps(plan, setup, &mut |_| {})
    }

    /// The same, telling every step that is done, so that tests can stop between any two.
    ///
    /// # Errors
    /// The same.
    pub fn prepare_by_steps(
        &self,
        plan: &Plan<'_>,
        setup: &mut Setup<'_>,
        done: &mut dyn FnMut(Step),
    ) -> Result<Prepared, Error> {
        if plan.setup.len() > SETUP_MAX {
            return Err(Error::TooManyCommands(plan.setup.len()));
        }
        let folder = self.folder_of(&plan.key);
        self.make_folder(&folder)?;
        let mut held = hold(&folder)?;
        if let Some(record) = Record::read(&folder)? {
            let mut worktree = Worktree { house: self.clone(), folder: folder.clone(), record };
            match worktree.state() {
                State::Ready | State::Over => {
                    // It is the folder that was made, or it is nobody's.
                    worktree.root()?;
                    worktree.let_in(plan.attempt)?;
                    let (made, included) = (false, Included::default());
                    return Ok(Prepared { worktree, held, made, included });
                }
                State::Quarantined { why } => {
                    let why = why.clone();
                    return Err(Error::Quarantined { folder, why });
                }
                State::Making => {}
            }
        }
        let tree = folder.join("tree");
        if Record::read(&folder)?.is_none() && tree.exists() {
            return Err(Error::WorkspaceChanged(tree));
        }
        // Nobody has worked in what is only half made.
        clear(&tree)?;
        let (worktree, included) = self.make(plan, (&folder, &mut held), setup, done)?;
        Ok(Prepared { worktree, held, made: true, included })
    }

    fn make(
        &self,
        plan: &Plan<'_>,
        (folder, held): (&Path, &mut Held),
        setup: &mut Setup<'_>,
        done: &mut dyn FnMut(Step),
    ) -> Result<(Worktree, Included), Error> {
        let depot = self.make_depot(&plan.key.tenant, plan.project, &plan.base)?;
        let record = Record::new(self.deployment(), plan);
        let mut worktree = Worktree { house: self.clone(), folder: folder.to_path_buf(), record };
        base(plan, &depot)?;
        let kept = match &plan.from {
            Some(from) => Kept::read(&depot, from)?,
            None => Kept::base(&plan.base),
        };
        // A task keeps the base that it began from, wherever the project is now.
        if depot.has(kept.began_from())? {
            worktree.record.base = kept.began_from().clone();
        }
        depot.pin(&format!("{}base/{}", worktree.refs(), plan.key.generation), worktree.base())?;
        done(Step::Based);
        worktree.record.write(folder)?;
        done(Step::Recorded);

        let tree = worktree.path();
        fs::create_dir(&tree).map_err(Error::file(&tree))?;
        let root = Root::open(&tree).map_err(Error::file(&tree))?;
        worktree.record.folder = Some(root.identity().map_err(Error::file(&tree))?);
        worktree.record.write(folder)?;
        done(Step::Foldered);

        fill(&depot, &kept.files, &tree, folder)?;
        done(Step::Filled);
        // What was written just now is known: only what somebody changes later must be read.
        Stats::seed(&depot, &kept.files, &root, folder)?;
        done(Step::Counted);
        link(plan, &depot, &kept, &tree)?;
        if let Source::Repository(own) = plan.source {
            ignored(own, folder, &tree)?;
        }
        done(Step::Linked);
        index(&depot, &kept, &tree, folder)?;
        done(Step::Indexed);

        let included = match plan.source {
            Source::Repository(own) => include(own, &depot, &plan.base, folder, &root)?,
            Source::Bundles => Included::default(),
        };
        done(Step::Included);
        set_up(plan, &mut worktree, held, setup)?;
        done(Step::SetUp);
        worktree.record.phase = State::Ready;
        worktree.record.write(folder)?;
        done(Step::Ready);
        Ok((worktree, included))
    }
}

/// Has the base in the depot.
fn base(plan: &Plan<'_>, depot: &Depot) -> Result<(), Error> {
    match plan.source {
        Source::Repository(own) => depot.take_commit(own, &plan.base),
        Source::Bundles if depot.has(&plan.base)? => Ok(()),
        Source::Bundles => Err(Error::NoCommit(plan.base.to_string())),
    }
}

impl Depot {
    /// Has a commit of the project's repository here.
    pub(super) fn take_commit(&self, own: &Repository, commit: &Oid) -> Result<(), Error> {
        if self.has(commit)? {
            return Ok(());
        }
        // The name must be a commit of theirs, not only a text.
        own.resolve(commit.as_str())?;
        let known: Vec<_> = self.refs("refs/baton/")?.into_iter().map(|(_, oid)| oid).collect();
        self.take(&own.objects(), std::slice::from_ref(commit), &known)
    }
}

/// Puts the files of a commit into an empty folder, as they are in the commit, byte by byte.
pub(super) fn fill(depot: &Depot, files: &Oid, tree: &Path, folder: &Path) -> Result<(), Error> {
    let draft = folder.join("draft.index");
    remove(&draft)?;
    let call = depot.call("read-tree").tree(tree).index(&draft).long();
    call.args(["--reset", "-u", files.as_str()]).run()?;
    remove(&draft)
}

/// Makes the folder a repository of its own, which borrows the objects of the depot.
pub(super) fn link(plan: &Plan<'_>, depot: &Depot, kept: &Kept, tree: &Path) -> Result<(), Error> {
    let own = tree.join(".git");
    let written = || -> io::Result<()> {
        for name in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
            fs::create_dir_all(own.join(name))?;
        }
        let objects = depot.objects();
        let mut alternates = File::create(own.join("objects/info/alternates"))?;
        alternates.write_all(std::os::unix::ffi::OsStrExt::as_bytes(objects.as_os_str()))?;
        alternates.write_all(b"\n")?;
        fs::write(own.join("config"), settings(plan))?;
        fs::write(own.join("packed-refs"), kept.packed_refs(plan.branch, &plan.base))?;
        if let Some(log) = kept.stash_log() {
            fs::create_dir_all(own.join("logs/refs"))?;
            fs::write(own.join("logs/refs/stash"), log)?;
        }
        // Without a head it is no repository, so it comes last.
        fs::write(own.join("HEAD"), kept.head_file())
    };
    written().map_err(Error::file(&own))
}

fn settings(plan: &Plan<'_>) -> String {
    let quoted = |text: &str| {
        let plain: String = text.chars().filter(|c| !c.is_control()).collect();
        format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
    };
    let (version, format) = match plan.base.format() {
        "sha1" => (0, String::new()),
        other => (1, format!("[extensions]\n\tobjectFormat = {other}\n")),
    };
    format!(
        "[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tfilemode = true\n\
         \tlogallrefupdates = true\n{format}[user]\n\tname = {}\n\temail = {}\n\
         [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
        quoted(plan.author.0),
        quoted(plan.author.1)
    )
}

/// The agent's index: what is committed, so that what is not shows as a change. What is ignored and was kept
/// all the same had been added, and is added again.
pub(super) fn index(depot: &Depot, kept: &Kept, tree: &Path, folder: &Path) -> Result<(), Error> {
    let own = tree.join(".git/index");
    remove(&own)?;
    let call = depot.call("read-tree").tree(tree).index(&own).long();
    call.args(["--reset", kept.head().as_str()]).run()?;
    let call = depot.call("ls-files").tree(tree).index(&own).long();
    let call = call.args(["-z", "--others", "--ignored", "--exclude-standard"]);
    let exclude = folder.join("exclude");
    let added = call.args(exclude.is_file().then(|| exclude_from(&exclude))).run()?;
    if !added.is_empty() {
        let call = depot.call("update-index").tree(tree).index(&own).long();
        call.args(["--add", "-z", "--stdin"]).reads(added).run()?;
    }
    // It answers by failing that some files differ.
    depot.call("update-index").tree(tree).index(&own).long().args(["-q", "--refresh"]).ends()?;
    Ok(())
}

/// Takes along what the owner of the repository does not want to see in lists.
fn ignored(own: &Repository, folder: &Path, tree: &Path) -> Result<(), Error> {
    let info = own.exclude().parent().map(Path::to_path_buf).unwrap_or_default();
    let read =
        Root::open(&info).and_then(|info| info.read(Path::new("exclude"), EXCLUDE_BYTES_MAX));
    let Ok(list) = read else { return Ok(()) };
    for path in [folder.join("exclude"), tree.join(".git/info/exclude")] {
        fs::write(&path, &list).map_err(Error::file(&path))?;
    }
    Ok(())
}

/// Runs the commands of the project, one after the other, and writes down what became of them.
fn set_up(
    plan: &Plan<'_>,
    worktree: &mut Worktree,
    held: &mut Held,
    setup: &mut Setup<'_>,
) -> Result<(), Error> {
    let tree = worktree.path();
    for command in plan.setup {
        let mut ran = setup(command, &tree, held).map_err(Error::file(&tree))?;
        ran.tail = last(&ran.tail);
        worktree.record.setup.push(ran.clone());
        worktree.record.write(&worktree.folder)?;
        if ran.code != Some(0) {
            return Err(Error::Setup { command: ran.command, code: ran.code, tail: ran.tail });
        }
    }
    Ok(())
}

fn last(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(TAIL_CHARS_MAX);
    text.chars().skip(skip).collect()
}

pub(super) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::File { path: path.to_path_buf(), error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
