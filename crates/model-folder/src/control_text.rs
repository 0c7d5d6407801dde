//! Text that a tokenizer would read as control tokens, encoded as text.
//!
//! A tokenizer turns `<|im_end|>` into the token that ends a turn wherever it finds it. Where another author wrote the
//! text, it has to be the tokens of these ten characters.

use std::collections::HashSet;
use std::fmt;
use std::sync::OnceLock;

use serde_json::Value;

use crate::tokenizer::{TextError, Tokenizer};

/// Stands inside control text that is to be read as text, until it is encoded: a character that Unicode reserves for
/// such use within a program.
pub const MARK: char = '\u{fdd0}';

/// Stands before a part of a text in place of the control token there, so that the part is not taken for a beginning.
const BEFORE: &str = "\u{fdd1}";

/// A character that no vocabulary has.
const UNKNOWN: &str = "\u{fdd2}";

/// The tokens by which a model is controlled: those that the tokenizer calls special or writes as `<|...|>`, and those
/// that its chat template writes. A second tokenizer is made when it is first needed.
pub struct ControlText {
    /// Text, and whether the token is special.
    tokens: Vec<(String, bool)>,
    ids: HashSet<u32>,
    special: HashSet<u32>,
    plain: OnceLock<Result<Plain, TextError>>,
}

/// A tokenizer that knows no control tokens but [`BEFORE`].
struct Plain {
    tokenizer: tokenizers::Tokenizer,
    before: u32,
}

/// Which control tokens are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlTokens {
    /// Every control token of the tokenizer.
    All,
    /// The tokens that the tokenizer calls special. The others are what a model writes into its answers, such as
    /// `</think>`.
    Special,
}

impl ControlText {
    /// The control tokens of a tokenizer. `writes` says whether the chat template has a text.
    pub fn of(tokenizer: &Tokenizer, writes: impl Fn(&str) -> bool) -> Self {
        let added = tokenizer.inner().get_added_tokens_decoder();
        // Runs of spaces and the like are how some tokenizers write text.
        let is_control = |content: &str, special: bool| {
            let is_named = content.starts_with("<|") && content.ends_with("|>");
            !content.trim().is_empty() && content.chars().nth(1).is_some() && (special || is_named || writes(content))
        };
        // What stands for characters that the vocabulary lacks controls nothing.
        let unknown = tokenizer.encode(UNKNOWN, false).unwrap_or_default();
        let control: Vec<_> = added
            .into_iter()
            .filter(|(id, token)| is_control(&token.content, token.special) && !unknown.contains(id))
            .collect();
        Self {
            ids: control.iter().map(|(id, _)| *id).collect(),
            special: control.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect(),
            tokens: control.into_iter().map(|(_, token)| (token.content, token.special)).collect(),
            plain: OnceLock::new(),
        }
    }

    fn ids(&self, which: ControlTokens) -> &HashSet<u32> {
        match which {
            ControlTokens::All => &self.ids,
            ControlTokens::Special => &self.special,
        }
    }

    /// Whether a tokenizer finds control tokens in a text.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn is_in(&self, tokenizer: &Tokenizer, text: &str, which: ControlTokens) -> Result<bool, TextError> {
        Ok(tokenizer.encode(text, false)?.iter().any(|id| self.ids(which).contains(id)))
    }

    /// The text with [`MARK`] inside all control text; `None` where it has none.
    ///
    /// # Errors
    /// What the tokenizer says; a text that has the mark already, or control tokens that its characters do not show.
    pub fn marked(&self, tokenizer: &Tokenizer, text: &str, which: ControlTokens) -> Result<Option<String>, TextError> {
        if !self.is_in(tokenizer, text, which)? {
            return Ok(None);
        }
        if text.contains(MARK) {
            return Err(TextError::new(format!("a text has control tokens and {MARK:?}, allowed: one of the two")));
        }
        let wanted = self.tokens.iter().filter(|(_, special)| *special || which == ControlTokens::All);
        let mut places: Vec<usize> = wanted
            .flat_map(|(token, _)| {
                let inside = token.chars().next().map_or(0, char::len_utf8);
                text.match_indices(token.as_str()).map(move |(at, _)| at + inside)
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        let mut marked = text.to_owned();
        for place in places.into_iter().rev() {
            marked.insert(place, MARK);
        }
        if self.is_in(tokenizer, &marked, which)? {
            return Err(TextError::new("a text has control tokens in other characters than their own".to_owned()));
        }
        Ok(Some(marked))
    }

    /// The ids of a text, in which control text with a [`MARK`] inside is read as text, without the mark.
    ///
    /// # Errors
    /// What the tokenizer says; text whose characters the vocabulary has as control tokens alone.
    pub fn encode(&self, tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, TextError> {
        if !text.contains(MARK) {
            return tokenizer.encode(text, false);
        }
        let encoding = tokenizer.encoding(text)?;
        let mut ids = Vec::new();
        let mut begin = 0;
        // What stands between two control tokens is encoded by itself anyway.
        let control = encoding.get_ids().iter().zip(encoding.get_offsets()).filter(|(id, _)| self.ids.contains(id));
        for (&id, &(start, end)) in control {
            self.extend(tokenizer, &mut ids, text, begin..start)?;
            ids.push(id);
            begin = end;
        }
        self.extend(tokenizer, &mut ids, text, begin..text.len())?;
        Ok(ids)
    }

    /// Adds the ids of a part of a text that has no control tokens.
    fn extend(
        &self,
        tokenizer: &Tokenizer,
        ids: &mut Vec<u32>,
        text: &str,
        part: std::ops::Range<usize>,
    ) -> Result<(), TextError> {
        let is_first = part.start == 0;
        let part = text.get(part).unwrap_or_default().replace(MARK, "");
        let plain = self.plain.get_or_init(|| self.plain(tokenizer)).as_ref().map_err(Clone::clone)?;
        let text = if is_first { part } else { format!("{BEFORE}{part}") };
        let encoding = plain.tokenizer.encode_fast(text, false).map_err(TextError::new)?;
        let encoded = encoding.get_ids();
        let encoded = if is_first { encoded } else { encoded.strip_prefix(&[plain.before]).unwrap_or(encoded) };
        if encoded.iter().any(|id| self.ids.contains(id) || *id == plain.before) {
            return Err(TextError::new("the vocabulary has no other tokens for a text than control tokens".to_owned()));
        }
        ids.extend_from_slice(encoded);
        Ok(())
    }

    fn plain(&self, tokenizer: &Tokenizer) -> Result<Plain, TextError> {
        let json = tokenizer.inner().to_string(false).map_err(TextError::new)?;
        let mut file: Value = serde_json::from_str(&json).map_err(TextError::new)?;
        if let Some(Value::Array(added)) = file.get_mut("added_tokens") {
            let is_kept = |token: &Value| {
                let id = token.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
                id.is_none_or(|id| !self.ids.contains(&id))
            };
            added.retain(is_kept);
        }
        let mut plain: tokenizers::Tokenizer = file.to_string().parse().map_err(TextError::new)?;
        let token = tokenizers::AddedToken::from(BEFORE, true).normalized(false);
        plain.add_special_tokens([token]).map_err(TextError::new)?;
        let before = plain.token_to_id(BEFORE);
        let before = before.ok_or_else(|| TextError::new("no token can be added to the vocabulary".to_owned()))?;
        Ok(Plain { tokenizer: plain, before })
    }
}

impl fmt::Debug for ControlText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlText").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::folder::Folder;

    /// A tokenizer of characters, with a special token, a tag, and a run of spaces.
    fn characters() -> (tempfile::TempDir, Tokenizer) {
        let dir = tempfile::tempdir().unwrap();
        let added = |id: u32, content: &str, special: bool| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": special})
        };
        let mut words: Vec<String> = "<end>/tag x".chars().map(String::from).collect();
        words.dedup();
        words.extend([MARK.to_string(), "<unk>".to_owned(), "<end>".to_owned(), "<tag>".to_owned(), "  ".to_owned()]);
        let vocabulary: serde_json::Map<String, Value> = words.iter().cloned().zip((0..).map(Value::from)).collect();
        let id = |content: &str| vocabulary[content].as_u64().unwrap() as u32;
        let file = json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": [added(id("<unk>"), "<unk>", true), added(id("<end>"), "<end>", true),
                             added(id("<tag>"), "<tag>", false), added(id("  "), "  ", false)],
            "normalizer": null, "post_processor": null, "decoder": null,
            "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": false},
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
        });
        std::fs::write(dir.path().join("tokenizer.json"), file.to_string()).unwrap();
        let tokenizer = Tokenizer::require(&Folder::new(dir.path())).unwrap();
        (dir, tokenizer)
    }

    fn spelled(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
        text.chars().map(|c| tokenizer.id(&c.to_string()).unwrap()).collect()
    }

    #[test]
    fn marked_control_text_is_spelled_out_and_the_rest_is_as_ever() {
        let (_dir, tokenizer) = characters();
        let control = ControlText::of(&tokenizer, |text| text == "<tag>");
        let marked = |text: &str| control.marked(&tokenizer, text, ControlTokens::All).unwrap();
        assert_eq!(marked("a  g"), None, "spaces control nothing");
        assert_eq!(marked("a?"), None, "a character that the vocabulary lacks controls nothing");
        let said = marked("a<end><tag>").unwrap();
        let ids = control.encode(&tokenizer, &format!("x{said}<end>  g<tag>")).unwrap();
        let token = |text: &str| vec![tokenizer.id(text).unwrap()];
        let spelled = |text: &str| spelled(&tokenizer, text);
        let wanted = [spelled("xa<end><tag>"), token("<end>"), token("  "), spelled("g"), token("<tag>")].concat();
        assert_eq!(ids, wanted);
        let nothing = control.encode(&tokenizer, "x<end>").unwrap();
        assert_eq!(nothing, tokenizer.encode("x<end>", false).unwrap());
    }

    #[test]
    fn a_tag_that_a_model_writes_may_stay_where_special_tokens_may_not() {
        let (_dir, tokenizer) = characters();
        let control = ControlText::of(&tokenizer, |text| text == "<tag>");
        assert_eq!(control.marked(&tokenizer, "<tag>", ControlTokens::Special).unwrap(), None);
        let said = control.marked(&tokenizer, "<tag><end>", ControlTokens::Special).unwrap().unwrap();
        let wanted = [vec![tokenizer.id("<tag>").unwrap()], spelled(&tokenizer, "<end>")].concat();
        assert_eq!(control.encode(&tokenizer, &said).unwrap(), wanted);
        let other = ControlText::of(&tokenizer, |_| false);
        assert_eq!(other.marked(&tokenizer, "<tag>", ControlTokens::All).unwrap(), None, "no template writes it");
    }

    #[test]
    fn a_text_with_the_mark_of_its_own_is_refused_beside_control_text_alone() {
        let (_dir, tokenizer) = characters();
        let control = ControlText::of(&tokenizer, |_| false);
        let marked = |text: &str| control.marked(&tokenizer, text, ControlTokens::All);
        assert_eq!(marked(&format!("a{MARK}")).unwrap(), None);
        assert!(marked(&format!("<end>{MARK}")).unwrap_err().to_string().contains("allowed: one of the two"));
    }
}
