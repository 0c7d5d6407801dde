use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::sampling::SamplingParams;
use evenkeel_model::sampling::Truncation;

/// Letters, an end, and the bytes of two characters in pieces, in the byte-level alphabet of GPT-2 ("é" is 0xC3 0xA9,
/// written "Ã" and "©"; "€" is 0xE2 0x82 0xAC, written "â", "Ĥ" and "¬").
fn bytes() -> Arc<Tokenizer> {
    let tokens = ["<end>", "a", "b", "ab", "Ġc", "Ã", "©", "â", "Ĥ", "¬"];
    let vocabulary: serde_json::Map<_, _> =
        tokens.iter().enumerate().map(|(id, token)| ((*token).to_owned(), json!(id))).collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 0, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocabulary, "merges": ["a b"]},
    });
    load(&json)
}

/// Pieces with a marked beginning, whose decoder looks at neighbours.
fn marked() -> Arc<Tokenizer> {
    let vocabulary = json!({"<end>": 0, "▁the": 1, "▁cat": 2, "s": 3, "▁": 4});
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocabulary, "merges": []},
    });
    load(&json)
}

fn load(json: &Value) -> Arc<Tokenizer> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tokenizer.json"), json.to_string()).unwrap();
    let inner = evenkeel_model_folder::Tokenizer::require(&evenkeel_model_folder::Folder::new(dir.path())).unwrap();
    Arc::new(Tokenizer::new(inner, 16))
}

fn sampling(stop: &[&str], include_stop_str_in_output: bool, min_tokens: usize) -> SamplingParams {
    SamplingParams {
        temperature: 0.0,
        truncation: Truncation::NONE,
        logprobs: None,
        prompt_logprobs: false,
        min_tokens,
        never_early: Vec::new(),
        max_tokens: 100,
        eos_token_id: None,
        stop_token_ids: Vec::new(),
        stop: stop.iter().map(|&stop| stop.to_owned()).collect(),
        include_stop_str_in_output,
        skip_special_tokens: true,
    }
}

/// The text taken after each token, and the stop text with the number of tokens up to it.
fn take(
    tokenizer: &Arc<Tokenizer>,
    prompt: &[u32],
    ids: &[u32],
    sampling: &SamplingParams,
) -> (Vec<String>, Option<(String, usize)>) {
    let mut transcript = Transcript::new(tokenizer.clone(), prompt, sampling);
    let mut taken = Vec::new();
    for (at, &id) in ids.iter().enumerate() {
        let stopped = transcript.push(id, false);
        let ended = stopped.is_some() || at + 1 == ids.len();
        taken.push(transcript.take_text(ended).to_owned());
        if let Some(Stopped(stop)) = stopped {
            return (taken, Some((stop, at + 1)));
        }
    }
    (taken, None)
}

#[test]
fn parts_of_a_character_wait_for_the_rest() {
    let none = sampling(&[], false, 0);
    let (taken, _) = take(&bytes(), &[1], &[1, 5, 6, 0, 7, 8, 9, 4], &none);
    assert_eq!(taken, ["a", "", "é", "", "", "", "€", " c"]);
    // Bytes that never become a character are not taken; an invalid beginning is, once something follows it.
    assert_eq!(take(&bytes(), &[1], &[1, 7, 8], &none).0.concat(), "a");
    assert_eq!(take(&bytes(), &[1], &[7, 2], &none).0.concat(), "\u{fffd}b");
}

#[test]
fn special_tokens_leave_text_only_where_that_is_asked() {
    assert_eq!(take(&bytes(), &[1], &[1, 0, 2], &sampling(&[], false, 0)).0.concat(), "ab");
    let shown = SamplingParams { skip_special_tokens: false, ..sampling(&[], false, 0) };
    assert_eq!(take(&bytes(), &[1], &[1, 0, 2], &shown).0.concat(), "a<end>b");
}

#[test]
fn a_decoder_that_looks_at_neighbours_gets_the_prompt() {
    let none = sampling(&[], false, 0);
    // At the very beginning of a text the marked space is dropped, after a prompt it is not.
    assert_eq!(take(&marked(), &[1], &[2, 3, 1], &none).0, [" cat", "s", " the"]);
}

#[test]
fn a_stop_text_is_removed_and_never_taken() {
    let (taken, stopped) = take(&bytes(), &[1], &[1, 2, 3, 1, 4], &sampling(&["ba"], false, 0));
    assert_eq!((taken.concat().as_str(), stopped), ("a", Some(("ba".to_owned(), 3))));
    // One character is held back as long as it may begin the stop text.
    let (taken, stopped) = take(&bytes(), &[1], &[1, 1, 1], &sampling(&["ab"], false, 0));
    assert_eq!((taken, stopped), (vec![String::new(), "a".into(), "aa".into()], None));
}

#[test]
fn a_stop_text_may_be_kept_with_nothing_behind_it() {
    let (taken, stopped) = take(&bytes(), &[1], &[1, 3, 3], &sampling(&["aa"], true, 0));
    assert_eq!((taken.concat().as_str(), stopped), ("aa", Some(("aa".to_owned(), 2))));
}

#[test]
fn the_stop_text_that_is_complete_first_wins() {
    let (_, stopped) = take(&bytes(), &[1], &[3], &sampling(&["ab", "a"], false, 0));
    assert_eq!(stopped, Some(("a".to_owned(), 1)));
    let (_, stopped) = take(&bytes(), &[1], &[3], &sampling(&["b", "ab"], false, 0));
    assert_eq!(stopped, Some(("b".to_owned(), 1)));
}

#[test]
fn nothing_stops_before_min_tokens() {
    let (_, stopped) = take(&bytes(), &[1], &[1, 2, 1, 2, 1, 2], &sampling(&["ab"], false, 3));
    assert_eq!(stopped, Some(("ab".to_owned(), 4)));
}

#[test]
fn a_list_of_logprobs_shows_whole_characters() {
    let tokenizer = bytes();
    assert_eq!(tokenizer.shown(3, &[]), "ab");
    assert_eq!(tokenizer.shown(7, &[1]), "");
    assert_eq!(tokenizer.shown(8, &[1, 7]), "");
    assert_eq!(tokenizer.shown(9, &[1, 7, 8]), "€");
    assert_eq!(tokenizer.shown(15, &[]), "", "an id that no token has");
}
