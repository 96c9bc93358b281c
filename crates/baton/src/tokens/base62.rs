//! Digits that survive a double click, a shell and a URL: `0-9A-Za-z`, fixed width.

use crate::chance::Chance;
use crate::checksum::crc32;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Digits of a 64-bit word.
pub(super) const WORD_DIGITS: usize = 11;

/// Digits of a 32-bit checksum.
pub(super) const CHECK_DIGITS: usize = 6;

/// Appends `value` in so many digits, the highest first.
pub(super) fn push(text: &mut String, mut value: u64, digits: usize) {
    let start = text.len();
    for _ in 0..digits {
        let digit = usize::try_from(value % 62).expect("a digit is below 62");
        text.insert(start, char::from(DIGITS[digit]));
        value /= 62;
    }
}

/// So many digits of chance, each as likely as any other.
pub(super) fn random(digits: usize, chance: &dyn Chance) -> String {
    let mut text = String::with_capacity(digits);
    let mut bytes = [0; 64];
    while text.len() < digits {
        chance.fill(&mut bytes);
        // Six bits are a digit unless they are 62 or 63: folding those would favour two digits.
        let fair = bytes.iter().filter_map(|byte| DIGITS.get(usize::from(byte & 63)));
        text.extend(fair.take(digits - text.len()).map(|digit| char::from(*digit)));
    }
    text
}

/// Whether all of it is digits.
pub(super) fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Reads a number; none if a character is no digit or the number is too great for 64 bits.
pub(super) fn read(text: &str) -> Option<u64> {
    text.bytes().try_fold(0_u64, |value, byte| {
        let digit = DIGITS.iter().position(|digit| *digit == byte)?;
        value.checked_mul(62)?.checked_add(u64::try_from(digit).ok()?)
    })
}

/// The checksum that lets a scanner tell a token from noise without asking anybody (CRC-32).
pub(super) fn checksum(text: &str) -> u32 {
    crc32(text.as_bytes())
}
