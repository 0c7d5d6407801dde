//! Truncation: min-p, a floor relative to the most likely token, then top-k, then top-p.
//!
//! Order and ties are vLLM's: the floor first, then all tokens at least as likely as the k-th, then the smallest set of
//! most likely ones whose probability, renormalized over what is left, reaches p, at least one.

use std::cmp::Ordering;

/// Up to this k, the k most likely tokens are found in one pass with a short list; above, by selection.
const SHORT_LIST: usize = 256;
/// Size at which a range of the nucleus is sorted.
const SORTED_AT_ONCE: usize = 64;

/// Truncation of a request; `top_k` 0, `top_p` 1 and `min_p` 0 mean none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truncation {
    /// Number of most likely tokens that remain, and all as likely as the last of them.
    pub top_k: usize,
    /// Probability that the remaining tokens have together, at least.
    pub top_p: f32,
    /// Least probability, relative to the most likely token's.
    pub min_p: f32,
}

impl Truncation {
    /// A truncation that excludes nothing.
    pub const NONE: Self = Self { top_k: 0, top_p: 1.0, min_p: 0.0 };

    /// Whether any of them can exclude a token of the vocabulary.
    pub(super) fn bind(&self, vocabulary: usize) -> bool {
        (self.top_k > 0 && self.top_k < vocabulary) || self.top_p < 1.0 || self.min_p > 0.0
    }
}

/// More likely first; equals in the order of their ids.
pub(super) fn likelier(row: &[f32], a: u32, b: u32) -> Ordering {
    row[b as usize].total_cmp(&row[a as usize]).then(a.cmp(&b))
}

/// Fills `kept` with the ids that may be drawn. `row` holds logits divided by the temperature, `weights` their
/// exponentials relative to the largest (so that the most likely weighs 1).
pub(super) fn keep(row: &[f32], weights: &[f32], truncation: Truncation, kept: &mut Vec<u32>) {
    kept.clear();
    // Without a floor a weight of 0 still counts for top-k: vLLM masks logits, not underflown probabilities.
    let floor = truncation.min_p;
    let possible = |id: usize| row[id] > f32::NEG_INFINITY && weights[id] >= floor;
    let least = match truncation.top_k {
        k @ 1..=SHORT_LIST if k < row.len() => {
            nth_largest((0..row.len()).filter(|&id| possible(id)).map(|id| row[id]), k)
        }
        _ => f32::NEG_INFINITY,
    };
    kept.extend((0..row.len()).filter(|&id| row[id] >= least && possible(id)).map(|id| id as u32));
    if truncation.top_k > SHORT_LIST && truncation.top_k < kept.len() {
        let (_, &mut nth, _) = kept.select_nth_unstable_by(truncation.top_k - 1, |&a, &b| likelier(row, a, b));
        let least = row[nth as usize];
        kept.retain(|&id| row[id as usize] >= least);
    }
    if truncation.top_p < 1.0 {
        keep_nucleus(row, weights, truncation.top_p, kept);
    }
}

/// The `n`th largest value, or minus infinity if there are fewer.
pub(super) fn nth_largest(values: impl Iterator<Item = f32>, n: usize) -> f32 {
    let mut list: Vec<f32> = Vec::with_capacity(n + 1);
    let mut least = f32::NEG_INFINITY;
    for x in values {
        // Nearly every value of a large vocabulary is rejected here.
        if list.len() == n && x <= least {
            continue;
        }
        list.insert(list.partition_point(|&other| other >= x), x);
        list.truncate(n);
        least = if list.len() == n { list[n - 1] } else { f32::NEG_INFINITY };
    }
    least
}

/// Keeps the smallest set of most likely ids whose weights reach `top_p` of the total. Bisects the range of the last of
/// them, so that even a flat distribution over a large vocabulary takes linear time.
fn keep_nucleus(row: &[f32], weights: &[f32], top_p: f32, kept: &mut Vec<u32>) {
    let weight = |id: u32| f64::from(weights[id as usize]);
    let total: f64 = kept.iter().map(|&id| weight(id)).sum();
    let mut wanted = f64::from(top_p) * total;
    // All tokens below this together weigh less than may be excluded.
    let negligible = (total - wanted) / kept.len() as f64;
    kept.retain(|&id| weight(id) >= negligible);
    let mut from = 0;
    let mut to = kept.len();
    while to - from > SORTED_AT_ONCE {
        let half = (to - from) / 2;
        kept[from..to].select_nth_unstable_by(half, |&a, &b| likelier(row, a, b));
        let sum: f64 = kept[from..from + half].iter().map(|&id| weight(id)).sum();
        if sum >= wanted {
            to = from + half;
        } else {
            wanted -= sum;
            from += half;
        }
    }
    kept[from..to].sort_unstable_by(|&a, &b| likelier(row, a, b));
    let mut before = 0.0;
    let enough = kept[from..to].iter().position(|&id| {
        before += weight(id);
        before >= wanted
    });
    kept.truncate(enough.map_or(to, |last| from + last + 1));
}
