//! The client of workers: files in, files out, over cuts.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton::chance::SeededChance;
use baton::client::{Address, Client, Handed, Origin, Trust, digest_of};
use baton::server::{Limits, socket};
use baton::surroundings::Hidden;
use baton_store::blobs::{BYTES_MAX, Digest, Quota, Settings};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};

use super::{Yard, content, written};
use crate::serving::folder;

fn client(address: Address, key: Option<&str>) -> Client {
    Client {
        address,
        trust: Trust::Machine,
        key: key.map(Hidden::new),
        claim_token: None,
        origin: Origin::Worker,
        chance: Arc::new(SeededChance::new(3)),
    }
}

fn of(yard: &Yard) -> Client {
    let (host, port) = (yard.world.address.ip().to_string(), yard.world.address.port());
    client(Address::Tcp { host, port, tls: false }, Some(&yard.world.key))
}

/// What a stranger in the middle does with the first connection.
#[derive(Clone, Copy)]
enum Mischief {
    /// Cuts it after so much of what the caller says.
    CutsRequest(usize),
    /// Cuts it after so much of what the server says.
    CutsAnswer(usize),
    /// Changes one byte of the answer after so many.
    Changes(usize),
}

/// Somebody between a client and a server, who is honest from the second connection on.
fn between(server: &Path, mischief: Mischief) -> (TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().join("between");
    let listener = UnixListener::bind(&path).expect("a new socket");
    let server = server.to_owned();
    tokio::spawn(async move {
        let mut first = Some(mischief);
        while let Ok((mut caller, _)) = listener.accept().await {
            let mut beyond = UnixStream::connect(&server).await.expect("it listens");
            match first.take() {
                None => drop(copy_bidirectional(&mut caller, &mut beyond).await),
                // The next one does not wait for what becomes of this one.
                Some(mischief) => drop(tokio::spawn(disturb(caller, beyond, mischief))),
            }
        }
    });
    (folder, path)
}

async fn disturb(
    mut caller: UnixStream,
    mut beyond: UnixStream,
    mischief: Mischief,
) -> std::io::Result<()> {
    let (mut hears, mut says) = caller.split();
    let (mut answers, mut asked) = beyond.split();
    let mut count = 0;
    let mut buffer = vec![0; 16 << 10];
    match mischief {
        Mischief::CutsRequest(most) => {
            while count < most {
                let read = hears.read(&mut buffer).await?;
                asked.write_all(&buffer[..read]).await?;
                count += read;
            }
            Ok(())
        }
        Mischief::CutsAnswer(most) | Mischief::Changes(most) => {
            let read = hears.read(&mut buffer).await?;
            asked.write_all(&buffer[..read]).await?;
            loop {
                let read = answers.read(&mut buffer).await?;
                let within = (count..count + read).contains(&most);
                if within && matches!(mischief, Mischief::CutsAnswer(_)) || read == 0 {
                    return Ok(());
                }
                if within {
                    buffer[most - count] ^= 1;
                }
                says.write_all(&buffer[..read]).await?;
                count += read;
            }
        }
    }
}

#[tokio::test]
async fn a_file_that_one_worker_hands_in_another_one_fetches() {
    let (yard, here, there) = (Yard::new().await, folder(), folder());
    for size in [0, 1, 3 << 20] {
        let bytes = content(size);
        let file = written(here.path(), "bundle", &bytes);
        let (digest, counted) = digest_of(&file).expect("it reads");
        assert_eq!((digest, counted), (Digest::of(&bytes), u64::try_from(size).expect("small")));
        let handed = of(&yard).put_blob(&file, &digest).await.expect("it is taken in");
        assert_eq!(handed, Handed { size: counted, new: true });
        let again = of(&yard).put_blob(&file, &digest).await.expect("it is taken in");
        assert!(!again.new);
        let into = there.path().join("bundle");
        assert_eq!(of(&yard).get_blob(&digest, &into).await.expect("it is there"), counted);
        assert_eq!(fs::read(&into).expect("it reads"), bytes);
        assert_eq!(fs::metadata(&into).expect("it is there").mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(there.path()).expect("it reads").count(), 1, "nothing else is left");
}

#[tokio::test]
async fn a_connection_that_is_cut_on_the_way_is_no_end() {
    let (yard, folder) = (Yard::new().await, folder());
    let bytes = content(2 << 20);
    let file = written(folder.path(), "bundle", &bytes);
    let (digest, _) = digest_of(&file).expect("it reads");
    let (into, socket) = (folder.path().join("fetched"), yard.place.path().join("run/baton.sock"));
    let (listener, _bound) = socket::bind(&socket).expect("the folder is ours");
    tokio::spawn(Arc::clone(&yard.world.server).accept_unix(listener));
    let (_folder, through) = between(&socket, Mischief::CutsRequest(1 << 20));
    client(Address::Socket(through), None)
        .put_blob(&file, &digest)
        .await
        .expect("the second try succeeds");
    for mischief in [Mischief::CutsAnswer(1 << 20), Mischief::Changes(1 << 20)] {
        let (_folder, through) = between(&socket, mischief);
        let got = client(Address::Socket(through), None).get_blob(&digest, &into).await;
        got.expect("the second try succeeds");
        assert_eq!(fs::read(&into).expect("it reads"), bytes);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("it reads").count(), 2, "no half is left");
    crate::more::until(|| yard.arriving() == 0).await;
}

#[tokio::test]
async fn what_is_refused_is_refused_at_once_and_leaves_what_was_there() {
    let quota = Quota { blobs_max: 10, bytes_max: 1 << 20 };
    let settings = Settings { tenant_quota: quota, ..Settings::default() };
    let (yard, folder) = (Yard::with(Limits::default(), settings).await, folder());
    let into = written(folder.path(), "fetched", b"from before");
    let missing = of(&yard).get_blob(&Digest::of(b"nobody's"), &into).await;
    assert_eq!(missing.expect_err("there is none").code(), "not_found");
    assert_eq!(fs::read(&into).expect("it reads"), b"from before");
    let file = written(folder.path(), "bundle", &content(2 << 20));
    let (digest, _) = digest_of(&file).expect("it reads");
    let refused = of(&yard).put_blob(&file, &Digest::of(b"another")).await;
    assert_eq!(refused.expect_err("they are others").code(), "limit_reached");
    let full = of(&yard).put_blob(&file, &digest).await;
    assert_eq!(full.expect_err("there is no room").code(), "limit_reached");
    let small = written(folder.path(), "small", b"small");
    let wrong = of(&yard).put_blob(&small, &Digest::of(b"large")).await;
    assert_eq!(wrong.expect_err("they are others").code(), "invalid");
    let huge = fs::File::create(folder.path().join("huge")).expect("there is room");
    huge.set_len(BYTES_MAX + 1).expect("it has holes");
    let huge = of(&yard).put_blob(&folder.path().join("huge"), &digest).await;
    assert_eq!(huge.expect_err("it is too large").code(), "too_large");
    let nowhere = of(&yard).put_blob(&folder.path().join("nowhere"), &digest).await;
    assert_eq!(nowhere.expect_err("there is no file").code(), "internal");
    assert_eq!(yard.arriving(), 0);
}
