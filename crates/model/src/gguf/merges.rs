//! The merges that a SentencePiece vocabulary implies, where a file lists none.

use std::collections::HashMap;

/// Every way to cut a token into two tokens, the best token first, as transformers orders them.
pub(super) fn implied<'a>(tokens: &[&'a str], scores: &[f32]) -> Vec<[&'a str; 2]> {
    let ids: HashMap<&str, usize> = tokens.iter().enumerate().map(|(id, token)| (*token, id)).collect();
    let mut merges = Vec::new();
    for (token, &score) in tokens.iter().zip(scores) {
        let cuts = token.char_indices().skip(1).map(|(at, _)| token.split_at(at));
        let mut pairs: Vec<_> =
            cuts.filter_map(|(left, right)| Some((*ids.get(left)?, *ids.get(right)?, left, right))).collect();
        pairs.sort_unstable_by_key(|&(left, right, ..)| (left, right));
        merges.extend(pairs.into_iter().map(|(_, _, left, right)| (score, left, right)));
    }
    // The longer left part first among equals; otherwise the order stays.
    let length = |text: &str| text.chars().count();
    merges.sort_by(|(a, left, right), (b, other_left, other_right)| {
        let parts = (length(other_left), length(other_right)).cmp(&(length(left), length(right)));
        b.total_cmp(a).then(parts)
    });
    merges.into_iter().map(|(_, left, right)| [left, right]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_tokens_are_merged_first_and_longer_beginnings_among_equals() {
        let tokens = ["a", "b", "c", "ab", "bc", "abc"];
        let scores = [0.0, 0.0, 0.0, -1.0, -2.0, -3.0];
        let found = implied(&tokens, &scores);
        assert_eq!(found, [["a", "b"], ["b", "c"], ["ab", "c"], ["a", "bc"]]);
    }
}
