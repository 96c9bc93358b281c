use std::net::{IpAddr, SocketAddr};

use super::{Place, Range, choose, is_inside};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("it is an address")
}

fn chosen(url: &str, found: &[&str], allowed: &[&str]) -> Result<SocketAddr, String> {
    let place = Place::read(url)?;
    let found: Vec<_> = found.iter().map(|text| SocketAddr::new(ip(text), place.port)).collect();
    let allowed: Vec<Range> =
        allowed.iter().map(|text| text.parse().expect("it is a range")).collect();
    choose(&place, &found, &allowed)
}

#[test]
fn nothing_inside_is_reached_however_it_is_written() {
    for inside in [
        "127.0.0.1",
        "127.255.0.9",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
    ] {
        let refused = chosen("https://hook.example", &[inside], &[]);
        assert!(refused.is_err_and(|why| why.contains("--webhook-allow")), "{inside}");
    }
    for outside in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"] {
        assert!(!is_inside(ip(outside)), "{outside}");
    }
}

#[test]
fn a_name_that_leads_outside_and_inside_is_not_trusted_with_either() {
    assert!(chosen("https://hook.example", &["8.8.8.8", "10.0.0.1"], &[]).is_err());
    let first = chosen("https://hook.example", &["8.8.8.8", "9.9.9.9"], &[]);
    assert_eq!(first.map(|address| address.to_string()), Ok("8.8.8.8:443".into()));
    assert!(chosen("https://hook.example", &[], &[]).is_err());
}

#[test]
fn what_the_operator_allows_is_reached_and_nothing_beside_it() {
    let url = "http://hook.example:9000/in?a=b";
    let reached = chosen(url, &["10.1.2.3"], &["10.1.0.0/16"]);
    assert_eq!(reached.map(|address| address.to_string()), Ok("10.1.2.3:9000".into()));
    assert!(chosen(url, &["10.2.0.1"], &["10.1.0.0/16"]).is_err());
    assert!(chosen(url, &["8.8.8.8"], &["10.1.0.0/16"]).is_err(), "plain only where allowed");
    assert!(chosen("http://[::ffff:127.0.0.1]/", &["::ffff:127.0.0.1"], &["127.0.0.0/8"]).is_ok());
    assert!("10.0.0.0/33".parse::<Range>().is_err() && "ten".parse::<Range>().is_err());
    assert!("::/0".parse::<Range>().is_ok_and(|all| all.holds(ip("::1"))));
}

#[test]
fn a_place_is_a_host_without_a_user() {
    let place = Place::read("https://hook.example/in?a=b#c").expect("it is good");
    assert_eq!((place.port, place.path.as_str(), place.tls), (443, "/in?a=b", true));
    for wrong in ["ftp://a/", "https://user:word@a/", "hook.example", "https://", "file:///etc"] {
        assert!(Place::read(wrong).is_err(), "{wrong}");
    }
}
