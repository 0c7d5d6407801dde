//! The tokenizer of a model folder, and the one of characters that fresh models have.

use std::path::Path;

use evenkeel_model::fresh::{FreshModel, FreshShape, write_fresh_model};
use evenkeel_orchestrator::Tokenizer;

fn fresh_model(folder: &Path) {
    let shape = FreshShape { hidden_size: 32, layers: 1, heads: 1, ..FreshShape::default() };
    write_fresh_model(folder, &FreshModel { shape, seed: 0 }).unwrap();
}

#[test]
fn the_end_of_a_turn_in_the_chat_template_is_one_that_engines_must_be_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    fresh_model(&folder);
    assert_eq!(Tokenizer::load(&folder).unwrap().end_of_turn(), None, "there is no template");
    for (end, expected) in [("<pad>", Some(0)), ("<eos>", None), (".", None)] {
        let template = format!("{{% for m in messages %}}{{{{ m.content }}}}{end}{{% endfor %}}");
        std::fs::write(folder.join("chat_template.jinja"), template).unwrap();
        let tokenizer = Tokenizer::load(&folder).unwrap();
        assert_eq!((tokenizer.end_id(), tokenizer.end_of_turn()), (Some(1), expected), "{end}");
    }
}

#[test]
fn every_character_is_one_token_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    fresh_model(&folder);
    let tokenizer = Tokenizer::load(&folder).unwrap();
    let all: String = ['\n', ' '].into_iter().chain('!'..='~').collect();
    let ids = tokenizer.encode(&all).unwrap();
    assert_eq!(ids, (2..98).collect::<Vec<u32>>());
    assert_eq!(tokenizer.decode(&ids).unwrap(), all);
    assert_eq!(tokenizer.decode(&[4, 1]).unwrap(), "!", "the end is no text");
    assert_eq!(tokenizer.encode("aé  b").unwrap().len(), 5, "what is unknown is one token, too");
    assert_eq!((tokenizer.end_id(), tokenizer.vocabulary_size()), (Some(1), 99));
}
