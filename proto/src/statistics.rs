//! Statistics of sampled tokens.

use crate::v1::TokenStatistics;

impl TokenStatistics {
    /// Whether every list has that many values.
    pub fn has_length(&self, tokens: usize) -> bool {
        let lists = [
            &self.log_probabilities,
            &self.entropies,
            &self.variances,
            &self.surprises,
            &self.less_likely,
            &self.equally_likely,
            &self.beyond_rank_5,
            &self.beyond_rank_50,
            &self.largest_log_probabilities,
            &self.below_hundredth,
            &self.below_floor,
            &self.end_probabilities,
        ];
        let drawn = self.drawn_token_ids.len();
        lists.iter().all(|list| list.len() == tokens) && self.ranks.len() == tokens && (drawn == 0 || drawn == tokens)
    }
}
