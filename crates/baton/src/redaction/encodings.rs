//! The encodings in which a secret usually leaks.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::KNOWN_BYTES_MIN;

/// A long secret is looked for in pieces of this size, so that no pattern is longer than the look
/// ahead: the longest encoding makes three bytes of one.
const PIECE_BYTES: usize = 256;

/// Characters of base64 before the first one that is made of the secret alone, by how many bytes
/// stand before it in its group of three.
pub const PARTIAL: [usize; 3] = [0, 2, 3];

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Every pattern by which a secret is looked for. None holds the end of a line.
pub fn all(secret: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut patterns = BTreeSet::new();
    for line in secret.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        pieces(line).for_each(|piece| add(piece, &mut patterns));
    }
    // Encoded as a whole, the ends of its lines are no longer the ends of lines.
    pieces(secret).for_each(|piece| add(piece, &mut patterns));
    patterns.retain(|pattern| !pattern.contains(&b'\n'));
    patterns
}

/// Pieces that are long enough to be looked for; what is left over belongs to the last one.
fn pieces(secret: &[u8]) -> impl Iterator<Item = &[u8]> {
    let cut = secret.len() - secret.len() % PIECE_BYTES;
    let rest = secret.len() - cut;
    // A short rest is found together with what stands before it.
    let tail = match rest {
        0 => &[][..],
        1..KNOWN_BYTES_MIN => &secret[secret.len().saturating_sub(PIECE_BYTES)..],
        _ => &secret[cut..],
    };
    let whole = secret[..cut].chunks(PIECE_BYTES);
    whole.chain([tail]).filter(|piece| piece.len() >= KNOWN_BYTES_MIN)
}

fn add(piece: &[u8], patterns: &mut BTreeSet<Vec<u8>>) {
    patterns.insert(piece.to_vec());
    for offset in 0..PARTIAL.len() {
        let standard = base64(piece, offset);
        let url_safe = standard.iter().map(|byte| match byte {
            b'+' => b'-',
            b'/' => b'_',
            other => *other,
        });
        patterns.insert(url_safe.collect());
        patterns.insert(standard);
    }
    let lower = hex(piece);
    patterns.insert(lower.to_ascii_uppercase());
    patterns.insert(lower);
    for every in [false, true] {
        let upper = percent(piece, every);
        patterns.insert(form(&upper));
        patterns.insert(lower_escapes(&upper));
        patterns.insert(upper);
    }
    if let Ok(text) = std::str::from_utf8(piece) {
        let once = json(text);
        patterns.insert(once.replace('/', "\\/").into_bytes());
        patterns.insert(ascii(&once).into_bytes());
        // A document inside of another one.
        patterns.insert(json(&once).into_bytes());
        patterns.insert(once.into_bytes());
    }
}

/// The characters of base64 that are made of these bytes alone, if so many bytes stand before them
/// in their group of three.
pub fn base64(bytes: &[u8], offset: usize) -> Vec<u8> {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    let full = padded.len() * 8 / 6;
    let digit = |at: usize| {
        let (byte, shift) = (at * 6 / 8, at * 6 % 8);
        let next = padded.get(byte + 1).copied().unwrap_or(0);
        let word = u16::from_be_bytes([padded[byte], next]);
        STANDARD[usize::from((word >> (10 - shift)) & 0x3F)]
    };
    (PARTIAL[offset]..full).map(digit).collect()
}

/// The bytes behind characters of base64, as if this many had been read before in their group.
pub fn unbase64(text: &[u8], offset: usize) -> Vec<u8> {
    let mut bytes = vec![];
    let (mut bits, mut count) = (0_u32, PARTIAL[offset] * 6);
    for byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = (bits << 6) | u32::from(digit);
        count += 6;
        while count >= 8 {
            count -= 8;
            bytes.push(((bits >> count) & 0xFF).try_into().expect("eight bits are a byte"));
            bits &= (1 << count) - 1;
        }
    }
    bytes
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes what is written to it");
    }
    text.into_bytes()
}

/// The bytes behind hex digits, as far as there are any.
pub fn unhex(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.chunks_exact(2).map(|pair| Some(digit(pair[0])? * 16 + digit(pair[1])?));
    pairs.map_while(|byte| byte).collect()
}

fn percent(bytes: &[u8], every: bool) -> Vec<u8> {
    let mut text = vec![];
    for byte in bytes {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
        if plain && !every {
            text.push(*byte);
        } else {
            text.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    text
}

/// As forms of pages write it.
fn form(escaped: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(escaped).replace("%20", "+");
    text.into_bytes()
}

fn lower_escapes(escaped: &[u8]) -> Vec<u8> {
    let mut text = escaped.to_vec();
    let mut left = 0;
    for byte in &mut text {
        if *byte == b'%' {
            left = 2;
        } else if left > 0 {
            left -= 1;
            byte.make_ascii_lowercase();
        }
    }
    text
}

/// As it stands between the quotes.
fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Everything beyond ASCII as an escape.
fn ascii(escaped: &str) -> String {
    escaped.chars().fold(String::new(), |mut text, c| {
        if c.is_ascii() {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(text, "\\u{unit:04x}").expect("a string takes what is written to it");
            }
        }
        text
    })
}
