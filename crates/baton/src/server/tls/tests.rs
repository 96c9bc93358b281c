use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Tls;

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().expect("a folder") };
        files.renew();
        files
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A new certificate and its key.
    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
        fs::write(self.at("cert.pem"), made.cert.pem()).expect("it can be written");
        fs::write(self.at("key.pem"), made.signing_key.serialize_pem()).expect("it can be written");
        self.set_mode(0o600);
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.at("key.pem"), Permissions::from_mode(mode)).expect("it is ours");
    }

    fn read(&self) -> Result<Tls, String> {
        read(&self.at("cert.pem"), &self.at("key.pem"))
    }
}

fn read(cert: &Path, key: &Path) -> Result<Tls, String> {
    Tls::read(cert, key).map_err(|error| error.to_string())
}

#[test]
fn what_is_wrong_with_the_files_is_said_with_their_names() {
    let (files, others) = (Files::new(), Files::new());
    let (cert, key) = (files.at("cert.pem"), files.at("key.pem"));
    assert!(files.read().is_ok());
    let check = |cert: &Path, key: &Path, said: &str| {
        let refused = read(cert, key).expect_err("they cannot be used");
        assert!(refused.contains(said), "{refused}");
    };
    check(&files.at("none"), &key, "none cannot be read: No such file");
    check(&cert, &files.at("none"), "none cannot be read: No such file");
    check(&key, &key, "key.pem holds no certificate in PEM form");
    fs::write(files.at("notes"), "no key").expect("it can be written");
    fs::set_permissions(files.at("notes"), Permissions::from_mode(0o600)).expect("it is ours");
    check(&cert, &files.at("notes"), "notes holds no private key in PEM form");
    check(&cert, &others.at("key.pem"), "is not the key of the first certificate in");
}

#[test]
fn a_key_that_everybody_can_read_is_refused_and_one_of_a_group_is_not() {
    let files = Files::new();
    for mode in [0o600, 0o640, 0o400] {
        files.set_mode(mode);
        assert!(files.read().is_ok(), "{mode:o}");
    }
    files.set_mode(0o644);
    let refused = files.read().expect_err("everybody can read it");
    assert!(refused.contains("may be read by everybody (mode 644): chmod 600"), "{refused}");
}

#[test]
fn a_new_certificate_is_taken_and_a_broken_one_changes_nothing() {
    let files = Files::new();
    let tls = files.read().expect("they fit");
    let current = || Arc::as_ptr(&tls.current.read().expect("nobody panicked"));
    let first = current();
    files.renew();
    tls.read_again().expect("they fit");
    let second = current();
    assert_ne!(first, second);
    fs::write(files.at("cert.pem"), "half of a certifi").expect("it can be written");
    assert!(tls.read_again().is_err());
    assert_eq!(current(), second);
}
