use super::crc32;

#[test]
fn it_is_the_crc_that_everybody_knows() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926, "the check value of CRC-32");
    assert_eq!(crc32(b""), 0);
}
