//! Values that no training or sampling gives sense to: NaN and the infinities, in the bytes of a tensor.

use candle_core::DType;

use crate::error::ModelError;

/// The values of a tensor that are not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NonFinite {
    /// How many there are.
    pub(super) count: usize,
    /// Where the first one is, in row order.
    pub(super) first: usize,
    /// The first value that is not finite.
    pub(super) value: f32,
}

impl NonFinite {
    /// Looks through the bytes of little-endian values of F32, BF16 or F16; other types have no such values.
    pub(super) fn in_bytes(bytes: &[u8], dtype: DType) -> Option<Self> {
        let half = |bits: fn(u16) -> f32| move |bytes: &[u8]| bits(u16::from_le_bytes([bytes[0], bytes[1]]));
        // An exponent of ones is that of NaN and the infinities.
        let narrow = |ones: u16| move |bytes: [u8; 2]| u16::from_le_bytes(bytes) & ones != ones;
        let wide = |bytes: [u8; 4]| u32::from_le_bytes(bytes) & 0x7f80_0000 != 0x7f80_0000;
        match dtype {
            DType::F32 => Self::among(bytes, wide, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            DType::BF16 => Self::among(bytes, narrow(0x7f80), half(|bits| half::bf16::from_bits(bits).to_f32())),
            DType::F16 => Self::among(bytes, narrow(0x7c00), half(|bits| half::f16::from_bits(bits).to_f32())),
            _ => None,
        }
    }

    fn among<const N: usize>(
        bytes: &[u8],
        is_finite: impl Fn([u8; N]) -> bool,
        value_of: impl Fn(&[u8]) -> f32,
    ) -> Option<Self> {
        // Nearly always all are: this loop has no branch, so that it is compiled to vector instructions.
        if bytes.as_chunks::<N>().0.iter().fold(true, |all, &bytes| all & is_finite(bytes)) {
            return None;
        }
        let mut found: Option<Self> = None;
        for (at, bytes) in bytes.chunks_exact(N).enumerate() {
            let value = value_of(bytes);
            if !value.is_finite() {
                found.get_or_insert(Self { count: 0, first: at, value }).count += 1;
            }
        }
        found
    }

    /// With those of the values that follow the first `before`.
    pub(super) fn and(earlier: Option<Self>, later: Option<Self>, before: usize) -> Option<Self> {
        match (earlier, later) {
            (Some(earlier), Some(later)) => Some(Self { count: earlier.count + later.count, ..earlier }),
            (None, Some(later)) => Some(Self { first: before + later.first, ..later }),
            (earlier, None) => earlier,
        }
    }

    /// The error for a tensor of that shape.
    pub(super) fn error(self, path: &std::path::Path, tensor: &str, shape: &[usize]) -> ModelError {
        let mut rest = self.first;
        let mut index = vec![0; shape.len()];
        for (place, &length) in index.iter_mut().zip(shape).rev() {
            (*place, rest) = (rest % length.max(1), rest / length.max(1));
        }
        ModelError::NotFinite {
            path: path.to_owned(),
            tensor: tensor.to_owned(),
            count: self.count,
            index,
            value: self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_every_type_with_their_number_and_the_first_index() {
        let values = [1.0, f32::INFINITY, -3.0, f32::NAN, f32::NEG_INFINITY, f32::MAX];
        let f32s: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let found = NonFinite::in_bytes(&f32s, DType::F32).unwrap();
        assert_eq!((found.count, found.first, found.value), (3, 1, f32::INFINITY));
        let halves: Vec<u8> = values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect();
        // The largest f32 is beyond what a half has.
        assert_eq!(NonFinite::in_bytes(&halves, DType::F16).unwrap().count, 4);
        let brains: Vec<u8> = [2.0, -0.0, 1e38].iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect();
        assert_eq!(NonFinite::in_bytes(&brains, DType::BF16), None);
        let text = found.error(std::path::Path::new("w"), "lm_head.weight", &[2, 3]).to_string();
        assert_eq!(
            text,
            "w: tensor `lm_head.weight`: 3 values are not finite, the first is inf at [0, 1], allowed: finite numbers"
        );
    }

    #[test]
    fn pieces_of_a_tensor_add_up() {
        let one = |first| Some(NonFinite { count: 1, first, value: f32::INFINITY });
        let both = NonFinite::and(NonFinite::and(None, one(2), 10), one(0), 20).unwrap();
        assert_eq!((both.count, both.first), (2, 12));
        assert_eq!(NonFinite::and(one(1), None, 5), one(1));
    }
}
