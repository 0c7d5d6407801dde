//! Are the longest answers drawn again? An engine with a deadline of its own, or one that restarts a slow request, does
//! that to a share of its answers.
//!
//! If the longest eighth of all answers is drawn a second time, an answer among that eighth is left an eighth as often
//! as it was drawn, and any other nine eighths as often. Where an answer has so far the same tokens as earlier ones,
//! the mean of these ratios over the earlier ones with each next token says how much more often that token would come
//! than its probability says.

use std::collections::BTreeMap;

/// Supposed share of answers that are drawn again.
const AGAIN: f64 = 0.125;
/// For how many answers of the mean ratio a mean counts before any was seen: few answers say little.
const PRIOR: f64 = 2.0;
/// A ratio that is nearer to the mean, and a probability that is nearer to 0 or 1, tells nothing.
const NEARLY: f64 = 1e-9;

/// What an answer says about the longest being drawn again.
pub(super) struct Redrawn {
    /// What a bet on it makes of the answer. For answers that are drawn independently from one distribution, the mean
    /// is 1, also where the reported probabilities have noise around the true ones: the factor is linear in them.
    /// Answers with a common prefix share its noise, which adds the noise's variance to the mean of their product.
    pub(super) factor: f64,
    /// How many tokens were expected after which answers are among the longest, and how many came.
    pub(super) longest: (f64, f64),
}

/// An earlier answer, and how often it would be returned for each time that it is drawn.
struct Drawn<'a> {
    tokens: &'a [(u32, f64)],
    ratio: f64,
}

/// Earlier answers that go on with one token: the sum of their ratios, how many they are, and its probability.
#[derive(Clone, Copy)]
struct Next {
    ratios: f64,
    count: f64,
    probability: f64,
}

/// What an answer says about the longest eighth being drawn again, by what the earlier ones tell.
pub(super) fn redrawn(earlier: &[Vec<(u32, f64)>], answer: &[(u32, f64)]) -> Redrawn {
    let mut together = with_ratios(earlier);
    let mut before = 1.0;
    let mut found = Redrawn { factor: 1.0, longest: (0.0, 0.0) };
    for (at, (token, _)) in answer.iter().enumerate() {
        together.retain(|other| other.tokens.len() > at);
        if together.is_empty() {
            break;
        }
        let next = next_tokens(&together, at);
        let sum = |of: fn(&Next) -> f64| next.values().map(of).sum::<f64>();
        let mean = shrunk(sum(|next| next.ratios), together.len() as f64, before);
        let ratio = |next: &Next| shrunk(next.ratios, next.count, mean);
        // Tokens that no earlier answer goes on with have the mean.
        let unseen = (1.0 - sum(|next| next.probability)).max(0.0);
        let normal = unseen * mean + next.values().map(|next| next.probability * ratio(next)).sum::<f64>();
        let leads_to_long = |next: &&Next| ratio(next) < normal - NEARLY;
        let chance = next.values().filter(leads_to_long).map(|next| next.probability).sum::<f64>();
        if (NEARLY..=1.0 - NEARLY).contains(&chance) {
            found.longest.0 += chance;
            found.longest.1 += f64::from(u8::from(next.get(token).as_ref().is_some_and(leads_to_long)));
        }
        before = next.get(token).map_or(mean, ratio);
        // No mean is above the largest ratio, so that the factor stays above 0.
        found.factor *= 1.0 + (before - normal) / (1.0 + AGAIN);
        together.retain(|other| other.tokens[at].0 == *token);
    }
    found
}

/// A mean of so many ratios, which begins at what is supposed before any is seen.
fn shrunk(sum: f64, count: f64, supposed: f64) -> f64 {
    (sum + PRIOR * supposed) / (count + PRIOR)
}

/// The answers with their ratios: of equally long ones at the border, that share is taken for the longest that fills it up.
fn with_ratios(answers: &[Vec<(u32, f64)>]) -> Vec<Drawn<'_>> {
    let longest = AGAIN * answers.len() as f64;
    let count = |of: &dyn Fn(usize) -> bool| answers.iter().filter(|other| of(other.len())).count() as f64;
    let part_drawn_again = |tokens: &Vec<(u32, f64)>| {
        let longer = count(&|length| length > tokens.len());
        let equal = count(&|length| length == tokens.len());
        ((longest - longer) / equal).clamp(0.0, 1.0)
    };
    answers.iter().map(|tokens| Drawn { tokens, ratio: 1.0 + AGAIN - part_drawn_again(tokens) }).collect()
}

fn next_tokens(answers: &[Drawn<'_>], at: usize) -> BTreeMap<u32, Next> {
    let mut found: BTreeMap<u32, Next> = BTreeMap::new();
    for Drawn { tokens, ratio } in answers {
        let (token, log_p) = tokens[at];
        let next = found.entry(token).or_insert(Next { ratios: 0.0, count: 0.0, probability: libm::exp(log_p) });
        next.ratios += ratio;
        next.count += 1.0;
    }
    found
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, Uniforms};

    use super::*;

    type Answer = Vec<(u32, f64)>;

    /// Answers that either end at once, or after five more tokens.
    fn drawn(uniforms: &mut (impl FnMut() -> f64 + ?Sized)) -> Answer {
        let log_p = libm::log(0.5);
        if uniforms() < 0.5 { vec![(0, log_p)] } else { [vec![(1, log_p)], vec![(2, 0.0); 5]].concat() }
    }

    /// The product of all factors of that many groups of sixteen, the highest on the way, and how often tokens of long
    /// answers were expected and came.
    fn after(groups: usize, change: impl Fn(&mut Vec<Answer>, &mut dyn FnMut() -> f64)) -> (f64, f64, f64, f64) {
        let mut random = Uniforms::new(3, Stream::SignFlips);
        let mut at = 0;
        let mut uniforms = || {
            at += 1;
            random.at(at)
        };
        let (mut capital, mut highest, mut expected, mut came) = (1.0_f64, 1.0_f64, 0.0, 0.0);
        for _ in 0..groups {
            let mut answers: Vec<Answer> = (0..16).map(|_| drawn(&mut uniforms)).collect();
            change(&mut answers, &mut uniforms);
            for found in (0..16).map(|at| redrawn(&answers[..at], &answers[at])) {
                capital *= found.factor;
                expected += found.longest.0;
                came += found.longest.1;
            }
            highest = highest.max(capital);
        }
        (capital, highest, expected, came)
    }

    #[test]
    fn the_two_longest_of_sixteen_drawn_again_are_found_and_draws_that_are_left_alone_are_not() {
        let (again, _, expected, came) = after(400, |answers, uniforms| {
            // All long answers are equally long: any two of them.
            let first = (16.0 * uniforms()) as usize;
            let long = (0..16).map(|at| (first + at) % 16).filter(|at| answers[*at].len() > 1).take(2);
            let long: Vec<usize> = long.collect();
            long.into_iter().for_each(|at| answers[at] = drawn(uniforms));
        });
        assert!(again > 1e6, "{again}");
        // One in eight is drawn again, so that of long ones seven of sixteen are left.
        assert!(came < 0.94 * expected, "{came} of {expected}");
        let (_, honest, expected, came) = after(400, |_, _| {});
        assert!(honest < 100.0, "{honest}");
        assert!((came / expected - 1.0).abs() < 0.06, "{came} of {expected}");
    }

    #[test]
    fn of_equally_long_answers_at_the_border_each_is_the_longest_eighth_in_part() {
        let of_length = |length: usize| vec![(0, 0.0); length];
        let answers: Vec<Answer> = [1, 1, 1, 1, 7, 7, 7, 7].map(of_length).to_vec();
        let ratios: Vec<f64> = with_ratios(&answers).iter().map(|one| one.ratio).collect();
        assert_eq!(ratios[..4], [1.125; 4]);
        assert_eq!(ratios[4..], [0.875; 4]);
        let mean = ratios.iter().sum::<f64>() / 8.0;
        assert!((mean - 1.0).abs() < 1e-12, "as many answers are returned as are drawn: {mean}");
    }
}
