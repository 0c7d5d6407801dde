//! How much longer a tokenizer may make a text: its file is another person's, and each of its steps may replace a
//! character by a page.

use serde_json::Value;

use crate::error::FileProblem;

/// Bytes that one byte may become, at most, before a text is split into tokens. Compatibility decomposition alone may
/// make twelve of one.
const MAX_FACTOR: u64 = 512;
/// Bytes that a text may become.
pub(crate) const MAX_TEXT: u64 = 1 << 28;
/// Longest token, in bytes: several times the longest run of blanks in a published vocabulary.
const MAX_TOKEN: usize = 4096;

/// Bound on the length of a text: a factor for each of its bytes, and a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Growth {
    factor: u64,
    more: u64,
}

impl Growth {
    const NONE: Self = Self { factor: 1, more: 0 };

    /// Reads the growth of texts from a tokenizer's file.
    ///
    /// # Errors
    /// Steps that make more of a text than may be, or a token that is too long.
    pub(crate) fn of_file(file: &Value) -> Result<Self, FileProblem> {
        for part in ["normalizer", "pre_tokenizer", "decoder"] {
            let growth = Self::of_step(&file[part]);
            if growth.factor > MAX_FACTOR || growth.more > MAX_TOKEN as u64 {
                let Self { factor, more } = growth;
                let message = format!(
                    "its {part} makes up to {factor} bytes of one, and {more} more, allowed: at most {MAX_FACTOR} and \
                    {MAX_TOKEN}"
                );
                return Err(FileProblem::Refused(message));
            }
        }
        let added = file["added_tokens"].as_array().into_iter().flatten();
        let added = added.filter_map(|token| token["content"].as_str());
        let vocabulary = file["model"]["vocab"].as_object().into_iter().flatten().map(|(token, _)| token.as_str());
        let pieces = file["model"]["vocab"].as_array().into_iter().flatten().filter_map(|piece| piece[0].as_str());
        if let Some(token) = added.chain(vocabulary).chain(pieces).find(|token| token.len() > MAX_TOKEN) {
            let message = format!("has a token of {} bytes, allowed: at most {MAX_TOKEN}", token.len());
            return Err(FileProblem::Refused(message));
        }
        Ok(Self::of_step(&file["normalizer"]).then(Self::of_step(&file["pre_tokenizer"])))
    }

    /// The bound for a text of that many bytes.
    pub(crate) fn of(self, bytes: usize) -> u64 {
        (bytes as u64).saturating_mul(self.factor).saturating_add(self.more)
    }

    fn then(self, next: Self) -> Self {
        Self {
            factor: self.factor.saturating_mul(next.factor),
            more: self.more.saturating_mul(next.factor).saturating_add(next.more),
        }
    }

    fn of_step(step: &Value) -> Self {
        let length = |field: &str| step[field].as_str().map_or(0, str::len) as u64;
        let steps = ["normalizers", "pretokenizers", "decoders"];
        match step["type"].as_str().unwrap_or_default() {
            "Sequence" => {
                let steps = steps.iter().filter_map(|name| step[name].as_array()).flatten();
                steps.map(Self::of_step).fold(Self::NONE, Self::then)
            }
            "Replace" => {
                // An expression may match nothing at every byte, and once more at the end.
                let (matched, content) = match step["pattern"]["String"].as_str() {
                    Some(pattern) => (pattern.len().max(1) as u64, length("content")),
                    None => (1, length("content") + 1),
                };
                Self { factor: content.div_ceil(matched).max(1), more: content }
            }
            "Prepend" => Self { factor: 1, more: length("prepend") },
            "Metaspace" => Self { factor: length("replacement").max(4), more: length("replacement").max(4) },
            "NFD" | "NFKD" | "NFKC" | "NFC" | "Nmt" | "Precompiled" => Self { factor: 12, more: 0 },
            "BertNormalizer" | "Lowercase" | "ByteLevel" => Self { factor: 4, more: 4 },
            "WordPiece" | "BPEDecoder" | "CTC" => Self { factor: 4, more: 4 },
            _ => Self::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normalized(step: Value) -> Result<Growth, String> {
        Growth::of_file(&json!({"normalizer": step})).map_err(|error| error.to_string())
    }

    #[test]
    fn steps_of_published_tokenizers_are_allowed_and_their_growth_is_known() {
        let llama = json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]});
        assert_eq!(normalized(llama).unwrap().of(100), 100 * 3 + 3 * 3 + 3);
        assert_eq!(normalized(Value::Null).unwrap().of(100), 100);
        let sentencepiece = json!({"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": ""},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            {"type": "NFKC"},
        ]});
        assert!(normalized(sentencepiece).is_ok());
    }

    #[test]
    fn steps_that_make_a_page_of_a_character_are_refused() {
        let page = "x".repeat(1000);
        let doubling = json!({"type": "Replace", "pattern": {"String": "x"}, "content": "xx"});
        for step in [
            json!({"type": "Replace", "pattern": {"String": "x"}, "content": page}),
            json!({"type": "Replace", "pattern": {"Regex": ""}, "content": page}),
            json!({"type": "Sequence", "normalizers": vec![doubling; 30]}),
            json!({"type": "Sequence", "normalizers": vec![json!({"type": "Prepend", "prepend": page}); 30]}),
        ] {
            let error = normalized(step).unwrap_err();
            assert!(error.contains("its normalizer makes up to"), "{error}");
        }
        let decoder = json!({"decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": page}});
        assert!(Growth::of_file(&decoder).unwrap_err().to_string().contains("its decoder makes"));
        let long = "y".repeat(MAX_TOKEN + 1);
        for file in [
            json!({"added_tokens": [{"content": long}]}),
            json!({"model": {"vocab": {&long: 1}}}),
            json!({"model": {"vocab": [[&long, -1.0]]}}),
        ] {
            assert!(Growth::of_file(&file).unwrap_err().to_string().contains("has a token of 4097 bytes"));
        }
    }
}
