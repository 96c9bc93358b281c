//! What pages need besides their text, built in. The name of each holds its digest, so a browser
//! keeps it for ever and still never shows an old one.

use std::io::Write;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// Digits of the digest in a name.
const TELLING_BYTES: usize = 6;

/// A file that pages need.
pub struct Asset {
    /// Its path.
    pub path: String,
    /// What it is.
    pub kind: &'static str,
    /// As it goes over the wire.
    pub bytes: Bytes,
    /// Whether it is compressed.
    pub gzip: bool,
}

/// The files, as they are before they have a path.
const FILES: [(&str, &str, &[u8], bool); 9] = [
    ("base.css", "text/css; charset=utf-8", include_bytes!("../../assets/base.css"), true),
    ("pages.css", "text/css; charset=utf-8", include_bytes!("../../assets/pages.css"), true),
    (
        "idiomorph.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../../assets/idiomorph.min.js"),
        true,
    ),
    ("app.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/app.js"), true),
    ("board.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/board.js"), true),
    ("logs.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/logs.js"), true),
    ("icon.svg", "image/svg+xml", include_bytes!("../../assets/icon.svg"), true),
    // Fonts are compressed already.
    ("inter.woff2", "font/woff2", include_bytes!("../../assets/inter.woff2"), false),
    ("mono.woff2", "font/woff2", include_bytes!("../../assets/jetbrains-mono.woff2"), false),
];

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| FILES.iter().map(made).collect());

/// Where assets are.
pub const PREFIX: &str = "/assets/";

/// The asset of a path.
#[must_use]
pub fn asset(path: &str) -> Option<&'static Asset> {
    // Style sheets name fonts without their digest.
    let plain = |own: &Asset| own.kind == "font/woff2" && path == plain_path(own);
    ASSETS.iter().find(|own| own.path == path || plain(own))
}

fn plain_path(font: &Asset) -> String {
    let name = font.path.rsplit('/').next().unwrap_or_default();
    let (_, name) = name.split_once('-').unwrap_or(("", name));
    format!("{PREFIX}{name}")
}

/// The path under which pages ask for a file.
#[must_use]
pub fn path_of(name: &str) -> &'static str {
    let index =
        FILES.iter().position(|(own, ..)| *own == name).expect("pages ask for what is here");
    &ASSETS[index].path
}

fn made((name, kind, bytes, packs): &(&str, &'static str, &[u8], bool)) -> Asset {
    let digest = Sha256::digest(bytes);
    let digits: String =
        digest.iter().take(TELLING_BYTES).map(|byte| format!("{byte:02x}")).collect();
    Asset {
        path: format!("{PREFIX}{digits}-{name}"),
        kind,
        bytes: if *packs { packed(bytes) } else { Bytes::from(bytes.to_vec()) },
        gzip: *packs,
    }
}

/// Bytes as every browser takes them.
#[must_use]
pub fn packed(bytes: &[u8]) -> Bytes {
    let mut packer = GzEncoder::new(vec![], Compression::default());
    packer.write_all(bytes).expect("memory takes everything");
    packer.finish().expect("memory takes everything").into()
}
