//! TFRecords: a length, its checksum, the data, their checksum.

/// Bytes before the data: the length and its checksum.
const HEAD: usize = 12;
/// Bytes after it: the checksum.
const TAIL: usize = 4;
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// A record with these data.
pub(super) fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut bytes = Vec::with_capacity(HEAD + data.len() + TAIL);
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&masked_crc(&length).to_le_bytes());
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(&masked_crc(data).to_le_bytes());
    bytes
}

/// The data of the first record, and the bytes after it. `None` unless a whole and undamaged record begins here.
pub(super) fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*crc) != masked_crc(length) {
        return None;
    }
    let (data, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*crc) == masked_crc(data)).then_some((data, rest))
}

/// CRC-32C, rotated and moved as TensorFlow does, since a checksum of data with checksums is weak.
fn masked_crc(data: &[u8]) -> u32 {
    let crc = !data.iter().fold(!0, |crc: u32, &byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)]);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_castagnolis() {
        // RFC 3720, appendix B.4: 32 bytes of zeros, and the check value of the catalogue of CRCs.
        let plain = |data: &[u8]| masked_crc(data).wrapping_sub(0xa282_ead8).rotate_left(15);
        assert_eq!((plain(&[0; 32]), plain(b"123456789")), (0x8a91_36aa, 0xe306_9283));
    }

    #[test]
    fn a_record_is_read_back_and_damage_is_noticed() {
        let bytes = [record(b"first"), record(b"")].concat();
        let (data, rest) = split(&bytes).unwrap();
        assert_eq!((data, split(rest)), (&b"first"[..], Some((&b""[..], &b""[..]))));
        for at in 0..record(b"first").len() {
            let mut damaged = record(b"first");
            damaged[at] ^= 1;
            assert_eq!(split(&damaged), None, "byte {at}");
            assert_eq!(split(&record(b"first")[..at]), None, "cut at {at}");
        }
    }
}
