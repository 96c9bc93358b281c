//! Snapshots on their way to another machine, which shares no files with this one.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use baton_domain::ids::{ProjectId, TenantId};

use super::depot::PACK_BYTES_MAX;
use super::names::{refs, refs_of};
use super::{Depot, Error, House, Key, Oid};

/// Bytes of what stands before the pack: a few names, and what the bundle builds on.
const HEAD_BYTES_MAX: u64 = 1 << 20;

impl Depot {
    /// Writes a bundle of what a ref names. What the other side has (`known`) is not in it.
    ///
    /// # Errors
    /// If there is no such ref, or nothing to write.
    pub fn bundle(&self, name: &str, known: &[Oid], to: &Path) -> Result<u64, Error> {
        let call = self.call("bundle").args(["create", "--quiet"]).arg(to).arg(name).arg("--not");
        call.args(known.iter().map(Oid::as_str)).long().run()?;
        Ok(to.metadata().map_err(Error::file(to))?.len())
    }
}

impl House {
    /// Takes in the base of a project, which tasks begin from on this machine.
    ///
    /// # Errors
    /// If the bundle is not what it is said to be.
    pub fn take_base(
        &self,
        tenant: &TenantId,
        project: &ProjectId,
        bundle: &Path,
        base: &Oid,
    ) -> Result<(), Error> {
        let name = format!("{}bases/{base}", refs(self.deployment()));
        self.receive(tenant, project, bundle, base, &name)
    }

    /// Takes in a snapshot that was made elsewhere, for the generation that begins from it.
    ///
    /// # Errors
    /// If the bundle is not what it is said to be, or builds on what is not here.
    pub fn take_snapshot(
        &self,
        key: &Key,
        project: &ProjectId,
        bundle: &Path,
        commit: &Oid,
    ) -> Result<(), Error> {
        let name = format!("{}taken/{}", refs_of(self.deployment(), &key.whose()), key.generation);
        self.receive(&key.tenant, project, bundle, commit, &name)
    }

    fn receive(
        &self,
        tenant: &TenantId,
        project: &ProjectId,
        bundle: &Path,
        commit: &Oid,
        name: &str,
    ) -> Result<(), Error> {
        let depot = self.make_depot(tenant, project, commit)?;
        let head = Head::read(bundle)?;
        if !head.holds.contains(commit) {
            return Err(Error::OtherBundle(commit.clone()));
        }
        let missing = depot.missing(&head.needs)?;
        if let Some(first) = missing.first() {
            return Err(Error::MissingBase(first.to_string()));
        }
        depot.call("bundle").arg("unbundle").arg(bundle).long().run()?;
        if !depot.has(commit)? {
            return Err(Error::OtherBundle(commit.clone()));
        }
        // A pack can be whole in itself and still miss what it builds on.
        let call = depot.call("rev-list").args(["--objects", "--quiet", commit.as_str(), "--not"]);
        call.args(head.needs.iter().map(Oid::as_str)).long().run()?;
        depot.pin(name, commit)
    }
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
