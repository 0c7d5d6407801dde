//! The tokenizer of a model folder, and the one of characters that fresh models have.

use evenkeel_model::fresh::{FreshModel, FreshShape, write_fresh_model};
use evenkeel_orchestrator::Tokenizer;

#[test]
fn every_character_is_one_token_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    let shape = FreshShape { hidden_size: 32, layers: 1, heads: 1, ..FreshShape::default() };
    write_fresh_model(&folder, &FreshModel { shape, seed: 0 }).unwrap();
    let tokenizer = Tokenizer::load(&folder).unwrap();
    let all: String = ['\n', ' '].into_iter().chain('!'..='~').collect();
    let ids = tokenizer.encode(&all).unwrap();
    assert_eq!(ids, (2..98).collect::<Vec<u32>>());
    assert_eq!(tokenizer.decode(&ids).unwrap(), all);
    assert_eq!(tokenizer.decode(&[4, 1]).unwrap(), "!", "the end is no text");
    assert_eq!(tokenizer.encode("aé  b").unwrap().len(), 5, "what is unknown is one token, too");
    assert_eq!((tokenizer.end_id(), tokenizer.vocabulary_size()), (Some(1), 99));
}
