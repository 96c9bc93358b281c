//! CRC-32: tells noise from what was written, and nothing about who wrote it.

const TABLE: [u32; 256] = table();

/// The checksum of some bytes, as in Ethernet and gzip.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        (sum >> 8) ^ TABLE[usize::from(low ^ byte)]
    })
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut place = 0;
    let mut byte: u32 = 0;
    while place < table.len() {
        let mut sum = byte;
        let mut bit = 0;
        while bit < 8 {
            sum = (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg());
            bit += 1;
        }
        table[place] = sum;
        place += 1;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests;
