//! Snapshots on their way to another machine, which shares no files with this one.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use baton_domain::ids::{ProjectId, TenantId};

use super::depot::PACK_BYTES_MAX;
use super::names::{refs, refs_of};
use super::{Depot, Error, House, Key, Oid};

/// Bytes of what stands before the pack: a few names, and what the bundle builds on.
const HEAD_BYTES_MAX: u64 = 1 << 20;
/// How a bundle begins, by the hash that its objects are named with.
const SIGNATURES: [(&str, &str); 2] =
    [("sha1", "# v2 git bundle\n"), ("sha256", "# v3 git bundle\n@object-format=sha256\n")];

impl Depot {
    /// Writes a bundle of what a ref names. What the other side has (`known`) is not in it, also where that
    /// is no ancestor: two snapshots of one task share most of their files, and not one is made over the other.
    ///
    /// # Errors
    /// If there is no such ref, or nothing to write.
    pub fn bundle(&self, name: &str, known: &[Oid], to: &Path) -> Result<u64, Error> {
        let found = self.refs(name)?.into_iter().find(|(own, _)| own == name);
        let (_, commit) = found.ok_or_else(|| Error::NoCommit(name.to_owned()))?;
        let folder = to.parent().unwrap_or(Path::new("."));
        let scratch = || tempfile::tempfile_in(folder).map_err(Error::file(to));
        let (objects, mut file) = (scratch()?, File::create(to).map_err(Error::file(to))?);
        let copy = |file: &File| file.try_clone().map_err(Error::file(to));
        let call = self.call("rev-list").args(["--objects", "--objects-edge-aggressive"]).long();
        let call = call.arg(commit.as_str()).arg("--not").args(known.iter().map(Oid::as_str));
        call.writes(copy(&objects)?).run()?;
        let head = head(name, &commit, known);
        (&objects).seek(SeekFrom::Start(0)).map_err(Error::file(to))?;
        file.write_all(head.as_bytes()).map_err(Error::file(to))?;
        let call = self.call("pack-objects").args(["--stdout", "--delta-base-offset", "-q"]).long();
        call.reads_file(objects).writes(copy(&file)?).run()?;
        let written = || -> io::Result<u64> {
            file.sync_all()?;
            Ok(file.metadata()?.len())
        };
        written().map_err(Error::file(to))
    }

    /// How many bytes everything in it has.
    pub(super) fn bytes(&self) -> Result<u64, Error> {
        let said = self.call("count-objects").arg("-v").run()?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let kib = |line: &str| -> Option<u64> {
            let (name, value) = line.split_once(": ")?;
            matches!(name, "size" | "size-pack").then(|| value.parse().ok())?
        };
        Ok(said.lines().filter_map(kib).sum::<u64>().saturating_mul(1_024))
    }
}

fn head(name: &str, commit: &Oid, known: &[Oid]) -> String {
    let format = commit.format();
    let signature = SIGNATURES.iter().find(|(own, _)| *own == format).map_or("", |(_, text)| text);
    let needs: String = known.iter().map(|oid| format!("-{oid} \n")).collect();
    format!("{signature}{needs}{commit} {name}\n\n")
}

impl House {
    /// Takes in the base of a project, which tasks begin from on this machine: bundles that build on each other,
    /// the last of which holds it.
    ///
    /// # Errors
    /// If a bundle is not what it is said to be, or builds on what is not here.
    pub fn take_base(
        &self,
        (tenant, project): (&TenantId, &ProjectId),
        bundles: &[&Path],
        base: &Oid,
    ) -> Result<(), Error> {
        let under = format!("{}bases/", refs(self.deployment()));
        self.receive((tenant, project), bundles, base, &under)
    }

    /// Takes in a snapshot that was made elsewhere, in the same way.
    ///
    /// # Errors
    /// The same.
    pub fn take_snapshot(
        &self,
        key: &Key,
        project: &ProjectId,
        bundles: &[&Path],
        commit: &Oid,
    ) -> Result<(), Error> {
        let under = format!("{}taken/", refs_of(self.deployment(), &key.whose()));
        self.receive((&key.tenant, project), bundles, commit, &under)
    }

    fn receive(
        &self,
        (tenant, project): (&TenantId, &ProjectId),
        bundles: &[&Path],
        commit: &Oid,
        under: &str,
    ) -> Result<(), Error> {
        let depot = self.make_depot(tenant, project, commit)?;
        for bundle in bundles {
            let head = Head::read(bundle)?;
            let holds = head.holds.last().ok_or_else(|| Error::OtherBundle(commit.clone()))?;
            let is_last = bundles.last() == Some(bundle);
            if is_last && holds != commit {
                return Err(Error::OtherBundle(commit.clone()));
            }
            unbundle(&depot, bundle, &head, holds)?;
            // What is named stays, for the next one to build on.
            depot.pin(&format!("{under}{holds}"), holds)?;
        }
        Ok(())
    }
}

/// Takes a bundle in, whatever it holds.
pub(super) fn take_in(depot: &Depot, bundle: &Path) -> Result<(), Error> {
    let head = Head::read(bundle)?;
    let holds = head.holds.last().ok_or_else(|| Error::NoCommit(bundle.display().to_string()))?;
    unbundle(depot, bundle, &head, holds)
}

fn unbundle(depot: &Depot, bundle: &Path, head: &Head, holds: &Oid) -> Result<(), Error> {
    let missing = depot.missing(&head.needs)?;
    if let Some(first) = missing.first() {
        return Err(Error::MissingBase(first.to_string()));
    }
    depot.call("bundle").arg("unbundle").arg(bundle).long().run()?;
    if !depot.has(holds)? {
        return Err(Error::OtherBundle(holds.clone()));
    }
    // A pack can be whole in itself and still miss what it builds on.
    let call = depot.call("rev-list").args(["--objects", "--quiet", holds.as_str()]);
    call.arg("--not").args(head.needs.iter().map(Oid::as_str)).long().run()?;
    Ok(())
}

/// What stands before the pack.
struct Head {
    needs: Vec<Oid>,
    holds: Vec<Oid>,
}

impl Head {
    fn read(bundle: &Path) -> Result<Self, Error> {
        let file = File::open(bundle).map_err(Error::file(bundle))?;
        let bytes = file.metadata().map_err(Error::file(bundle))?.len();
        if bytes > PACK_BYTES_MAX {
            let error = std::io::ErrorKind::FileTooLarge.into();
            return Err(Error::File { path: bundle.to_path_buf(), error });
        }
        let mut head = Self { needs: vec![], holds: vec![] };
        for line in BufReader::new(file.take(HEAD_BYTES_MAX)).split(b'\n') {
            let line = line.map_err(Error::file(bundle))?;
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.is_empty() {
                break;
            }
            let first = |text: &str| text.split(' ').next().and_then(|oid| oid.parse().ok());
            match line.strip_prefix('-') {
                Some(rest) => head.needs.extend(first(rest)),
                None => head.holds.extend(first(&line)),
            }
        }
        Ok(head)
    }
}
