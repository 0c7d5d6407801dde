//! Digests of tensors as an engine holds them: values rounded to its type, whole or a part of the rows or columns.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use evenkeel_errors::FieldError;
use evenkeel_host::DigestWriter;
use half::{bf16, f16};

use crate::error::{FileProblem, FolderError};
use crate::weights::StoredTensor;

/// Bytes that are read at once, at least one row.
const BLOCK_BYTES: u64 = 1 << 20;

/// A type of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatType {
    F32,
    /// 16 bits, IEEE 754.
    F16,
    /// 16 bits with the exponents of F32.
    Bf16,
}

impl FloatType {
    /// The type of a name as in safetensors (`BF16`) or PyTorch (`bfloat16`). `None` for any other type.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "F32" | "float32" => Some(Self::F32),
            "F16" | "float16" => Some(Self::F16),
            "BF16" | "bfloat16" => Some(Self::Bf16),
            _ => None,
        }
    }

    /// Bytes of a value.
    pub fn bytes(self) -> u64 {
        if self == Self::F32 { 4 } else { 2 }
    }

    fn read(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Self::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Self::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
            (Self::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
            // The caller cuts the bytes into values of this type.
            _ => f32::NAN,
        }
    }

    /// Appends a value, rounded to the nearest (ties to even). A zero has no sign: the sums of an engine may lose it.
    fn write(self, value: f32, to: &mut Vec<u8>) {
        match self {
            Self::F32 => to.extend((value + 0.0).to_le_bytes()),
            Self::F16 => {
                let bits = f16::from_f32(value).to_bits();
                to.extend(if bits == 0x8000 { 0 } else { bits }.to_le_bytes());
            }
            Self::Bf16 => {
                let bits = bf16::from_f32(value).to_bits();
                to.extend(if bits == 0x8000 { 0 } else { bits }.to_le_bytes());
            }
        }
    }
}

/// A part of a tensor: of a matrix some rows and columns, of a vector some values; of anything else the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPart {
    /// Index at which the part begins in each dimension.
    pub start: Vec<u64>,
    /// Size in each dimension.
    pub shape: Vec<u64>,
}

impl TensorPart {
    /// All of a tensor.
    pub fn whole(tensor: &StoredTensor) -> Self {
        Self { start: vec![0; tensor.shape.len()], shape: tensor.shape.clone() }
    }

    /// Number of values; `None` if there are too many to count.
    pub fn values(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size))
    }

    fn is_within(&self, shape: &[u64]) -> bool {
        self.start.len() == shape.len()
            && self.shape.len() == shape.len()
            && (shape.len() <= 2 || self.shape == shape)
            && self
                .start
                .iter()
                .zip(&self.shape)
                .zip(shape)
                .all(|((&start, &size), &length)| start.checked_add(size).is_some_and(|end| end <= length))
    }
}

/// The SHA-256 (64 hex digits) of a part's values in a type, row by row, little-endian, each rounded to the nearest
/// (ties to even), zeros without a sign.
///
/// # Errors
/// A part that is not within the tensor, a tensor of a type other than F32, F16 and BF16, a file that cannot be read.
pub fn tensor_digest(tensor: &StoredTensor, part: &TensorPart, to: FloatType) -> Result<String, FolderError> {
    let refuse = |error: FieldError| FolderError::of(&tensor.path, error);
    let from = FloatType::named(&tensor.dtype)
        .ok_or_else(|| refuse(FieldError::new("type", &tensor.dtype, "F32, F16 or BF16")))?;
    let filled = TensorPart::whole(tensor).values().and_then(|values| values.checked_mul(from.bytes()));
    if filled != Some(tensor.bytes) {
        return Err(refuse(FieldError::new("bytes", tensor.bytes, format!("those of a tensor of {:?}", tensor.shape))));
    }
    if !part.is_within(&tensor.shape) {
        let found = format!("{:?} of {:?}", part.start, part.shape);
        return Err(refuse(FieldError::new("part", found, format!("a part of a tensor of {:?}", tensor.shape))));
    }
    digest(tensor, part, from, to).map_err(|error| FolderError::of(&tensor.path, FileProblem::Io(error)))
}

fn digest(tensor: &StoredTensor, part: &TensorPart, from: FloatType, to: FloatType) -> io::Result<String> {
    // Anything but a matrix is a column.
    let ([first_row, first], [rows, columns], width) = match (part.start.as_slice(), part.shape.as_slice()) {
        ([row, column], [rows, columns]) => ([*row, *column], [*rows, *columns], tensor.shape[1]),
        ([start], _) => ([*start, 0], [part.shape[0], 1], 1),
        _ => ([0, 0], [part.values().unwrap_or_default(), 1], 1),
    };
    let mut out = DigestWriter::new(io::sink());
    if rows > 0 && columns > 0 {
        let row_bytes = width * from.bytes();
        let mut file = File::open(&tensor.path)?;
        file.seek(SeekFrom::Start(tensor.offset + first_row * row_bytes))?;
        let block = (BLOCK_BYTES / row_bytes).clamp(1, rows);
        let mut bytes = vec![0; (block * row_bytes) as usize];
        let mut values = Vec::new();
        let columns = (first * from.bytes()) as usize..((first + columns) * from.bytes()) as usize;
        for at in (0..rows).step_by(block as usize) {
            let read = &mut bytes[..(block.min(rows - at) * row_bytes) as usize];
            file.read_exact(read)?;
            values.clear();
            for row in read.chunks_exact(row_bytes as usize) {
                let row = row[columns.clone()].chunks_exact(from.bytes() as usize);
                row.for_each(|value| to.write(from.read(value), &mut values));
            }
            out.write_all(&values)?;
        }
    }
    Ok(out.finish().1.sha256)
}

#[cfg(test)]
mod tests {
    use evenkeel_host::FileDigest;

    use super::*;

    fn stored(dir: &std::path::Path, dtype: &str, shape: &[u64], bytes: &[u8]) -> StoredTensor {
        let path = dir.join(format!("{dtype}.bin"));
        std::fs::write(&path, [b"before", bytes].concat()).unwrap();
        StoredTensor { path, dtype: dtype.into(), shape: shape.to_vec(), offset: 6, bytes: bytes.len() as u64 }
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn digest_of(bytes: &[u8]) -> String {
        FileDigest::of_bytes(bytes).sha256
    }

    #[test]
    fn values_are_rounded_to_the_nearest_even_in_the_engines_type() {
        let dir = tempfile::tempdir().unwrap();
        // Half-way between two bf16 values, to either side; a zero with a sign, and one that rounding makes.
        let values = [257.0 / 256.0f32, 259.0 / 256.0, -0.0, -1e-45, 3.1];
        let tensor = stored(dir.path(), "F32", &[5], &f32s(&values));
        let whole = TensorPart::whole(&tensor);
        let bits: [u16; 5] = [0x3f80, 0x3f82, 0, 0, 0x4046];
        let expected = digest_of(&bits.iter().flat_map(|bits| bits.to_le_bytes()).collect::<Vec<_>>());
        assert_eq!(tensor_digest(&tensor, &whole, FloatType::Bf16).unwrap(), expected);
        let same = digest_of(&f32s(&[values[0], values[1], 0.0, values[3], values[4]]));
        assert_eq!(tensor_digest(&tensor, &whole, FloatType::F32).unwrap(), same);
        let narrow: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let narrow = stored(dir.path(), "BF16", &[5], &narrow);
        assert_eq!(tensor_digest(&narrow, &whole, FloatType::Bf16).unwrap(), expected);
    }

    #[test]
    fn a_part_is_its_rows_and_columns() {
        let dir = tempfile::tempdir().unwrap();
        let values: Vec<f32> = (0..600_000).map(|i| i as f32).collect();
        let tensor = stored(dir.path(), "F32", &[2000, 300], &f32s(&values));
        let part = TensorPart { start: vec![500, 100], shape: vec![1200, 50] };
        let expected: Vec<f32> = (500..1700).flat_map(|row| (100..150).map(move |c| (row * 300 + c) as f32)).collect();
        assert_eq!(tensor_digest(&tensor, &part, FloatType::F32).unwrap(), digest_of(&f32s(&expected)));
        let vector = StoredTensor { shape: vec![600_000], ..tensor };
        let part = TensorPart { start: vec![599_998], shape: vec![2] };
        let digest = tensor_digest(&vector, &part, FloatType::F32).unwrap();
        assert_eq!(digest, digest_of(&f32s(&[599_998.0, 599_999.0])));
    }

    #[test]
    fn what_is_not_within_the_tensor_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tensor = stored(dir.path(), "F32", &[2, 2], &f32s(&[1.0; 4]));
        for (start, shape) in
            [(vec![0, 1], vec![2, 2]), (vec![u64::MAX, 0], vec![2, 2]), (vec![0], vec![4]), (vec![], vec![])]
        {
            let error = tensor_digest(&tensor, &TensorPart { start, shape }, FloatType::F32).unwrap_err().to_string();
            assert!(error.contains("a part of a tensor of [2, 2]"), "{error}");
        }
        let whole = TensorPart::whole(&tensor);
        let integers = StoredTensor { dtype: "I64".into(), ..tensor.clone() };
        let error = tensor_digest(&integers, &whole, FloatType::F32).unwrap_err().to_string();
        assert!(error.ends_with("type is I64, allowed: F32, F16 or BF16"), "{error}");
        let short = StoredTensor { bytes: 12, ..tensor };
        assert!(tensor_digest(&short, &whole, FloatType::F32).unwrap_err().to_string().contains("bytes is 12"));
    }
}
