//! Numbers as bytes, little-endian, and back to the same bits.

use candle_core::{CpuStorage, Storage, Tensor};

use super::RankError;

/// Writer of bytes that ranks exchange.
#[derive(Default)]
pub(crate) struct ByteWriter(Vec<u8>);

impl ByteWriter {
    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.0.push(value.into());
    }

    /// A list with its length.
    pub(crate) fn f32s(&mut self, values: &[f32]) {
        self.u64(values.len() as u64);
        let first = self.0.len();
        self.0.resize(first + 4 * values.len(), 0);
        for (bytes, value) in self.0[first..].chunks_exact_mut(4).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// A text with its length.
    pub(crate) fn text(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// The values of an fp32 tensor.
    pub(crate) fn tensor(&mut self, tensor: &Tensor) -> candle_core::Result<()> {
        with_values(tensor, |values| self.f32s(values))
    }
}

/// CRC-32 of the bytes of an fp32 tensor's values.
pub(crate) fn checksum_of(tensor: &Tensor) -> candle_core::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    with_values(tensor, |values| {
        let mut bytes = [0; 4096];
        for values in values.chunks(bytes.len() / 4) {
            for (bytes, value) in bytes.chunks_exact_mut(4).zip(values) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
            hasher.update(&bytes[..4 * values.len()]);
        }
    })?;
    Ok(hasher.finalize())
}

/// Calls `use_values` with the values of an fp32 tensor, which are copied only where they do not lie in one piece.
fn with_values(tensor: &Tensor, use_values: impl FnOnce(&[f32])) -> candle_core::Result<()> {
    let (storage, layout) = tensor.storage_and_layout();
    if let (Storage::Cpu(CpuStorage::F32(values)), Some((start, end))) = (&*storage, layout.contiguous_offsets()) {
        use_values(&values[start..end]);
        return Ok(());
    }
    drop(storage);
    use_values(&tensor.flatten_all()?.to_vec1()?);
    Ok(())
}

/// Bytes that a rank has sent, being read.
pub(crate) struct ByteReader<'a> {
    rank: usize,
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(rank: usize, bytes: &'a [u8]) -> Self {
        Self { rank, bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], RankError> {
        let (now, later) = self.bytes.split_at_checked(count).ok_or_else(|| RankError::Failed {
            rank: self.rank,
            message: format!("it sent {} bytes where {count} more were expected", self.bytes.len()),
        })?;
        self.bytes = later;
        Ok(now)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, RankError> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    pub(crate) fn usize(&mut self) -> Result<usize, RankError> {
        Ok(usize::try_from(self.u64()?).unwrap_or(usize::MAX))
    }

    pub(crate) fn f64(&mut self) -> Result<f64, RankError> {
        self.u64().map(f64::from_bits)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, RankError> {
        Ok(self.take(1)?[0] != 0)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, RankError> {
        let length = self.usize()?;
        let rank = self.rank;
        let failed = |error| RankError::Failed { rank, message: format!("it sent no text: {error}") };
        std::str::from_utf8(self.take(length)?).map_err(failed)
    }

    pub(crate) fn f32s(&mut self) -> Result<Vec<f32>, RankError> {
        let count = self.usize()?;
        let bytes = self.take(count.saturating_mul(4))?;
        let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes each"));
        Ok(bytes.chunks_exact(4).map(value).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_with_their_bits_also_those_that_are_none() {
        let mut writer = ByteWriter::default();
        let values = [1.5f32, -0.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE / 2.0];
        writer.f64(f64::NEG_INFINITY);
        writer.f32s(&values);
        writer.flag(true);
        let bytes = writer.bytes();
        let mut reader = ByteReader::new(1, &bytes);
        assert_eq!(reader.f64().unwrap(), f64::NEG_INFINITY);
        assert!(reader.f32s().unwrap().iter().zip(values).all(|(found, wanted)| found.to_bits() == wanted.to_bits()));
        assert!(reader.flag().unwrap() && reader.is_empty());
    }

    #[test]
    fn one_bit_of_one_value_changes_the_checksum_and_the_shape_does_not() {
        let values: Vec<f32> = (0..3000).map(|value| value as f32 / 7.0).collect();
        let checksum = |values: &[f32], shape| {
            checksum_of(&Tensor::from_slice(values, shape, &candle_core::Device::Cpu).unwrap()).unwrap()
        };
        let whole = checksum(&values, (3, 1000));
        assert_eq!(whole, checksum(&values, (1000, 3)));
        for changed in [0, 1023, 1024, 2999] {
            let mut values = values.clone();
            values[changed] = f32::from_bits(values[changed].to_bits() ^ 1);
            assert_ne!(whole, checksum(&values, (3, 1000)), "value {changed}");
        }
    }

    #[test]
    fn bytes_that_are_missing_are_an_error_that_names_the_rank_and_allocate_nothing() {
        let mut writer = ByteWriter::default();
        writer.u64(u64::MAX);
        let error = ByteReader::new(3, &writer.bytes()).f32s().unwrap_err().to_string();
        assert!(error.starts_with("rank 3 failed: it sent 0 bytes"), "{error}");
    }
}
