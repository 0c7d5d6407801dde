//! Which samples of a step are audited: a choice by the run's seed, made before any of them exists.

use std::collections::BTreeSet;

use evenkeel_seeds::{Stream, Uniforms};

/// Samples of a step by the number of their prompt and their own.
pub(crate) type ChosenSamples = BTreeSet<(u64, u32)>;

/// `count` samples of `prompts` prompts from `first` on with `samples` each, or all of them where there are fewer. The
/// second result says how many numbers of the step's stream that took.
pub(crate) fn choose(seed: u64, step: u64, first: u64, prompts: u64, samples: u32, count: u32) -> (ChosenSamples, u64) {
    let all = prompts.saturating_mul(samples.into());
    let count = u64::from(count).min(all);
    let mut uniforms = Uniforms::new(seed, stream(step));
    // Floyd's: each of the last `count` places draws one among those up to it, or takes itself where that one is taken.
    let mut places = BTreeSet::new();
    for (draw, last) in (all - count..all).enumerate() {
        let place = (uniforms.at(draw as u64) * (last + 1) as f64) as u64;
        if !places.insert(place.min(last)) {
            places.insert(last);
        }
    }
    let samples = u64::from(samples.max(1));
    let chosen = places.into_iter().map(|place| (first + place / samples, (place % samples) as u32)).collect();
    (chosen, count)
}

/// The random stream of a step's audit, which counts steps from 0.
pub(crate) fn stream(step: u64) -> Stream {
    Stream::SamplerAudit { step: step.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_follows_from_seed_and_step_alone() {
        assert_eq!(choose(1, 2, 30, 4, 8, 6), choose(1, 2, 30, 4, 8, 6));
        assert_ne!(choose(1, 2, 30, 4, 8, 6), choose(1, 3, 30, 4, 8, 6));
        assert_ne!(choose(1, 2, 30, 4, 8, 6), choose(2, 2, 30, 4, 8, 6));
    }

    #[test]
    fn so_many_different_samples_of_these_prompts_are_taken() {
        for step in 1..201 {
            let (chosen, used) = choose(7, step, 100, 5, 3, 9);
            assert_eq!((chosen.len(), used), (9, 9));
            assert!(chosen.iter().all(|(prompt, sample)| (100..105).contains(prompt) && *sample < 3));
        }
        assert_eq!(choose(7, 0, 100, 1, 3, 9).0.len(), 3, "all where there are fewer");
    }

    #[test]
    fn every_sample_is_as_likely_as_any_other() {
        let mut counts = [0_u32; 16];
        for step in 1..4_001 {
            for (prompt, sample) in choose(3, step, 0, 4, 4, 4).0 {
                counts[prompt as usize * 4 + sample as usize] += 1;
            }
        }
        // 1000 expected, with a standard deviation of 27.
        assert!(counts.iter().all(|count| (880..1120).contains(count)), "{counts:?}");
    }
}
