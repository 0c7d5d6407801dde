//! Bytes that say a sequence of numbers, texts and floats in exactly one way.

use evenkeel_host::FileHasher;

/// The digest of a sequence of values.
#[derive(Default)]
pub(super) struct Canonical(FileHasher);

impl Canonical {
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
        self
    }

    /// A value that is not finite counts as absent: JSON has none.
    pub(super) fn float(&mut self, value: Option<f64>) -> &mut Self {
        let value = value.filter(|value| value.is_finite());
        self.0.update(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            self.0.update(&value.to_bits().to_le_bytes());
        }
        self
    }

    /// Token ids, after how many they are.
    pub(super) fn ids(&mut self, ids: &[u32]) -> &mut Self {
        self.number(ids.len() as u64);
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        self.0.update(&bytes);
        self
    }

    /// Log-probabilities, after how many they are. As with floats, a value that is not finite counts as absent.
    pub(super) fn log_probabilities(&mut self, values: &[Option<f32>]) -> &mut Self {
        self.number(values.len() as u64);
        let mut bytes = Vec::with_capacity(values.len() * 5);
        for value in values {
            let value = value.filter(|value| value.is_finite());
            bytes.push(u8::from(value.is_some()));
            bytes.extend(value.unwrap_or_default().to_bits().to_le_bytes());
        }
        self.0.update(&bytes);
        self
    }

    /// `sha256:` and 64 hex digits.
    pub(super) fn finish(self) -> String {
        self.0.finish().to_string()
    }
}
