//! What an agent gets of its surroundings, and what it must not.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use baton_domain::run::Death;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::geteuid;

use crate::stage::{APART, PLAIN, Stage, WAYS, allowed, skipped};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_exactly_the_environment_of_its_spec() {
    for isolation in [APART, PLAIN] {
        if !allowed(isolation) {
            skipped("the environment in a namespace");
            continue;
        }
        let stage = Stage::new();
        let mut spec = stage.spec("idle", isolation);
        spec.argv = vec!["env".into()];
        let expected = spec.env.clone();
        let mut live = stage.launch(spec).await;
        live.proof().await;
        let out = live.out();
        let pairs = out.lines().filter_map(|line| line.split_once('='));
        let found: BTreeMap<_, _> =
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(found, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_inherits_no_descriptor_no_core_dumps_and_no_way_to_more_rights() {
    // As careless as a worker can be.
    let leaked = File::open("/dev/zero").expect("it is there");
    fcntl_setfd(&leaked, FdFlags::empty()).expect("it is ours");
    for isolation in [APART, PLAIN] {
        if !allowed(isolation) {
            skipped("descriptors in a namespace");
            continue;
        }
        let stage = Stage::new();
        let mut spec = stage.spec("idle", isolation);
        spec.limits.files = Some(77);
        let script = "for one in /proc/self/fd/*; do [ -e $one ] && echo fd ${one##*/}; done
            umask; ulimit -c; ulimit -n; grep NoNewPrivs /proc/self/status; echo here";
        spec.argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let mut live = stage.launch(spec).await;
        live.proof().await;
        let expected = "fd 0\nfd 1\nfd 2\n0077\n0\n77\nNoNewPrivs:\t1\nhere\n";
        assert_eq!(live.out(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_in_a_namespace_sees_no_process_but_its_own_and_no_door_of_another_daemon() {
    if !allowed(APART) {
        return skipped("what can be seen from a namespace");
    }
    let secret = format!("canary-{}", std::process::id());
    let mut victim = Command::new("/bin/sleep")
        .arg("1000")
        .env("canary", &secret)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let stage = Stage::new();
    let door = stage.path("docker.sock");
    let _listener = UnixListener::bind(&door).expect("it is new");
    let data = stage.path("data");
    fs::create_dir(&data).expect("it is new");
    fs::write(data.join("pepper"), "a secret of Baton's").expect("it is written");
    let mut spec = stage.spec("idle", APART);
    spec.env.insert("SECRET".into(), secret);
    spec.env.insert("DOOR".into(), door.to_str().expect("a plain name").into());
    spec.env.insert("DATA".into(), data.to_str().expect("a plain name").into());
    spec.env.insert("VICTIM".into(), victim.id().to_string());
    spec.env.insert("ATTEMPT".into(), stage.path("attempt").to_str().expect("a plain name").into());
    spec.hidden = vec![door, data];
    let script = r#"
        for one in /proc/[0-9]*; do grep -qa "canary=$SECRET" $one/environ 2>/dev/null && echo leak; done
        [ -S "$DOOR" ] && echo reaches the door
        [ -e "$DATA/pepper" ] && echo reads the data
        [ -e "$ATTEMPT/control.sock" ] && echo reaches the shim
        umount "$DATA" 2>/dev/null && echo opens the room
        kill -0 $VICTIM 2>/dev/null && echo reaches the victim
        echo here"#;
    spec.argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let mut live = stage.launch(spec).await;
    assert_eq!(live.proof().await.death, Death::PidNamespace);
    let isolation = live.handle.launch().isolation.clone();
    victim.kill().expect("it is ours");
    victim.wait().expect("it is ours");
    if !isolation.own_proc {
        return skipped("mounts of its own in a namespace");
    }
    assert_eq!(live.out(), "here\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hidden_folder_an_agent_sees_its_own_places_and_what_it_may_read() {
    if !allowed(APART) {
        return skipped("what can be seen from a namespace");
    }
    let stage = Stage::new();
    let data = stage.path("data");
    for name in ["run", "home", "work", "other"] {
        fs::create_dir_all(data.join(name)).expect("there is room");
    }
    fs::write(data.join("pepper"), "a secret of Baton's").expect("there is room");
    fs::write(data.join("run/door"), "a door").expect("there is room");
    let mut spec = stage.spec("idle", APART);
    spec.env.insert("DATA".into(), data.to_str().expect("a plain name").into());
    (spec.cwd, spec.home) = (data.join("work"), data.join("home"));
    (spec.hidden, spec.shown) = (vec![data.clone()], vec![data.join("run")]);
    let script = r#"
        ls "$DATA" | tr '\n' ' '
        cat "$DATA/run/door"
        echo changed > "$DATA/run/door" && echo writes what it may read
        echo new > "$DATA/new" && echo writes beside
        umount "$DATA/run" 2>/dev/null && echo opens the room
        echo made > made
        echo too > ../home/too"#;
    spec.argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let mut live = stage.launch(spec).await;
    assert_eq!(live.proof().await.death, Death::PidNamespace);
    if !live.handle.launch().isolation.own_proc {
        return skipped("mounts of its own in a namespace");
    }
    assert_eq!(live.out(), "home run work a door");
    let read = |name: &str| fs::read_to_string(data.join(name)).expect("it is there");
    assert_eq!((read("work/made"), read("home/too")), ("made\n".into(), "too\n".into()));
    assert_eq!(read("run/door"), "a door");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_of_the_same_user_reads_the_memory_or_the_environment_of_a_shim() {
    if geteuid().is_root() {
        skipped("reading a shim as the same user (root may read everything)");
    }
    for (way, isolation) in WAYS {
        if !allowed(isolation) || (geteuid().is_root() && way != "namespace") {
            continue;
        }
        let mut live = Stage::member("idle", isolation).await;
        let shim = live.handle.launch().shim.pid;
        let environ = fs::read(format!("/proc/{shim}/environ")).unwrap_or_default();
        assert_eq!(environ, b"", "{way}: there is nothing in it for anybody");
        if !geteuid().is_root() {
            File::open(format!("/proc/{shim}/mem")).expect_err("its memory is its own");
        }
        assert!(live.stop().await.2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_shim_takes_less_than_a_megabyte_for_itself() {
    if !geteuid().is_root() {
        return skipped("measuring a shim (its memory is its own; root may look)");
    }
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("measuring, by {way}"));
            continue;
        }
        let mut live = Stage::member("idle", isolation).await;
        let launch = live.handle.launch().clone();
        let mut processes = vec![launch.shim.pid];
        if launch.root != launch.agent {
            processes.extend(launch.root.map(|root| root.pid));
        }
        let private: u64 = processes.iter().map(|pid| own_kib(*pid)).sum();
        println!("{way}: {private} KiB private in {} processes of ours per agent", processes.len());
        if !cfg!(debug_assertions) {
            assert!(private <= 1_024, "{way}: {private} KiB");
        }
        assert!(live.stop().await.2);
    }
}

/// What a process has to itself; what it shares with a copy of it is halved, and both are counted.
fn own_kib(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("we may look");
    let own = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    own.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect("Linux says it")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_in_a_namespace_has_a_tmp_of_its_own_and_changes_nothing_that_is_fixed() {
    if !allowed(APART) {
        return skipped("a /tmp of its own");
    }
    let theirs = tempfile::NamedTempFile::new_in("/tmp").expect("there is room");
    let stage = Stage::new();
    let (tmp, checkout) = (stage.path("tmp"), stage.path("checkout"));
    for folder in [&tmp, &checkout] {
        fs::create_dir(folder).expect("it is new");
    }
    fs::write(checkout.join("file"), "as it was\n").expect("it is written");
    let text = |path: &std::path::Path| path.to_str().expect("a plain name").to_owned();
    let mut spec = stage.spec("idle", APART);
    let script = "echo mine > /tmp/mine && echo also > /var/tmp/also
        test -e \"$THEIRS\" && echo sees theirs
        cat \"$CHECKOUT/file\"
        (echo changed >> \"$CHECKOUT/file\") 2> /dev/null && echo changes it
        touch \"$CHECKOUT/new\" 2> /dev/null && echo adds to it
        mv \"$CHECKOUT\" \"$CHECKOUT.old\" 2> /dev/null && echo moves it
        touch here \"$HOME/here\" && echo works
        echo ${TMPDIR-unset}; echo here";
    spec.argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    spec.env.insert("THEIRS".into(), text(theirs.path()));
    spec.env.insert("CHECKOUT".into(), text(&checkout));
    spec.tmp = Some(tmp.clone());
    spec.fixed = vec![checkout.clone()];
    let mut live = stage.launch(spec).await;
    live.proof().await;
    assert_eq!(live.out(), "as it was\nworks\nunset\nhere\n");
    assert_eq!(fs::read_to_string(tmp.join("mine")).expect("it is there"), "mine\n");
    assert_eq!(fs::read_to_string(tmp.join("also")).expect("it is there"), "also\n");
    assert!(!std::path::Path::new("/tmp/mine").exists());
    let launch = live.stage.place.launch().expect("it is read").expect("it is there");
    assert!(launch.isolation.own_tmp && launch.isolation.fixed == [checkout], "{launch:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_namespace_is_told_where_its_tmp_is() {
    let stage = Stage::new();
    let tmp = stage.path("tmp");
    fs::create_dir(&tmp).expect("it is new");
    let mut spec = stage.spec("idle", PLAIN);
    spec.argv = ["/bin/sh", "-c", "echo $TMPDIR"].map(str::to_owned).to_vec();
    spec.tmp = Some(tmp.clone());
    let mut live = stage.launch(spec).await;
    live.proof().await;
    assert_eq!(live.out(), format!("{}\n", tmp.display()));
}
