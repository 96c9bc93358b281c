//! A database is spoken to as safely as its address says, or not at all.

use std::path::{Path, PathBuf};

use baton_store::postgres::backup;
use baton_testkit::postgres::{Cluster, Database};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::cast::{local, put, short_project};
use crate::site::{close, done, opened, options, refused, wait};

/// Somebody who signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("chance is to be had");
        let mut about = CertificateParams::new(vec![]).expect("no name is a good one");
        about.distinguished_name.push(DnType::CommonName, "somebody who signs");
        about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = about.self_signed(&key).expect("it signs itself").pem();
        Self { issuer: Issuer::new(about, key), pem }
    }

    /// A certificate for a name, and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("chance is to be had");
        let about = CertificateParams::new(vec![name.to_owned()]).expect("a plain name");
        let signed = about.signed_by(&key, &self.issuer).expect("it is signed");
        (signed.pem(), key.serialize_pem())
    }

    fn file(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, &self.pem).expect("it can be written");
        path
    }
}

/// Opens a store, and tells whether all its connections are encrypted.
fn is_encrypted(database: &Database, url: &str) -> bool {
    let store = opened(url, 1);
    done(&store, put(&local(), short_project()));
    let found = database.say(
        "SELECT bool_and(s.ssl)::text FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
         WHERE a.datname = current_database() AND a.application_name = 'baton'",
    );
    close(store);
    found == ["true"]
}

#[test]
fn a_database_is_spoken_to_as_safely_as_its_address_says() {
    let folder = tempfile::tempdir().expect("there is room");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (certificate, key) = authority.issue("localhost");
    let known = authority.file(folder.path(), "known.pem").display().to_string();
    let other = stranger.file(folder.path(), "other.pem").display().to_string();
    let cluster = Cluster::encrypted(&certificate, &key);
    let database = cluster.database();
    let url = |host: &str, query: &str| cluster.url_by(host, &database, query);

    let full = url("localhost", &format!("sslmode=verify-full&sslrootcert={known}"));
    for safe in [
        full.clone(),
        url("localhost", &format!("sslrootcert={known}")),
        url("127.0.0.1", &format!("sslmode=verify-ca&sslrootcert={known}")),
        url("127.0.0.1", &format!("sslmode=require&sslrootcert={known}")),
        url("127.0.0.1", "sslmode=require"),
    ] {
        assert!(is_encrypted(&database, &safe), "{safe}");
    }
    for plain in [url("127.0.0.1", "sslmode=disable"), url("localhost", "connect_timeout=5")] {
        assert!(!is_encrypted(&database, &plain), "{plain}");
    }

    for (wrong, why) in [
        (url("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={known}")), "another name"),
        (url("localhost", &format!("sslmode=verify-full&sslrootcert={other}")), "is trusted here"),
        (url("localhost", &format!("sslmode=require&sslrootcert={other}")), "is trusted here"),
    ] {
        let said = refused(&wrong, options(1)).to_string();
        assert!(said.contains(why), "{wrong}: {said}");
    }

    // The tools that make copies go the same way.
    let copy = folder.path().join("copy.dump");
    wait(backup::back_up(&full, &copy, None)).expect("it is copied over TLS");
}

#[test]
fn a_certificate_that_a_server_made_for_itself_is_believed_if_it_is_named() {
    let folder = tempfile::tempdir().expect("there is room");
    let own = Authority::new();
    // As most do it first: one certificate that is its own authority, for no name at all.
    let key = own.issuer.key().serialize_pem();
    let file = own.file(folder.path(), "own.pem").display().to_string();
    let cluster = Cluster::encrypted(&own.pem, &key);
    let database = cluster.database();
    let url =
        cluster.url_by("localhost", &database, &format!("sslmode=verify-ca&sslrootcert={file}"));
    assert!(is_encrypted(&database, &url));
    let named = cluster.url_by("localhost", &database, &format!("sslrootcert={file}"));
    let said = refused(&named, options(1)).to_string();
    assert!(said.contains("another name"), "{said}");
}
