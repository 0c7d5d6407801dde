//! `evenkeel-bench sides RUN MODEL TEMPERATURE`: how noisy the gradient of a group is under `sides` with each length
//! exponent, and how far its mean is from that of `sequence-sum`. RUN is a run at this temperature that kept its tokens
//! and whose weights never moved from those in the folder MODEL: its groups are samples of one policy.
//! `bench/sides/run.py` makes one.
//!
//! Prints one JSON line: for each exponent the trace of the gradient's covariance over the squared norm of its mean,
//! and the cosine, each with a jackknife interval over groups ([`estimate`]).

mod estimate;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use estimate::{Estimate, Products, cosine, noise};
use evenkeel_learner::{
    Aggregation, Constants, Learner, RecordedRun, ResponseGroup, SentSamples, SideDial, TrainingSettings,
};
use evenkeel_run::RunRecord;
use serde::Serialize;

/// The exponents of the page.
const EXPONENTS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// Most numbers that are kept of a gradient. One with more becomes a [`sketch`].
const KEPT: usize = 1 << 22;

/// What the page shows.
#[derive(Serialize)]
struct Measured {
    prompts: usize,
    groups_per_prompt: usize,
    samples_per_group: usize,
    /// Groups with an advantage other than 0.
    groups_with_signal: usize,
    exponents: Vec<OfExponent>,
}

#[derive(Serialize)]
struct OfExponent {
    length_exponent: f64,
    /// Trace of the covariance of a group's gradient over the squared norm of its mean.
    noise: Estimate,
    /// That of this exponent over that of exponent 1, on the same groups.
    noise_to_balanced: Estimate,
    /// Cosine of the mean to the mean under `sequence-sum`.
    cosine: Estimate,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [run, model, temperature] = arguments else { bail!("usage: evenkeel-bench sides RUN MODEL TEMPERATURE") };
    let temperature: f32 = temperature.parse().context("TEMPERATURE is a number above 0")?;
    let measured = measure(Path::new(run), Path::new(model), temperature)?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

fn measure(run: &Path, model: &Path, temperature: f32) -> Result<Measured> {
    let by_prompt = groups(run, model)?;
    let mut learner = Learner::open(model, TrainingSettings { temperature, ..TrainingSettings::default() })?;
    let first = by_prompt.values().next().context("the run has no groups")?;
    let (groups_per_prompt, samples_per_group) = (first.len(), first[0].responses.len());
    ensure!(
        by_prompt.values().all(|groups| groups.len() == groups_per_prompt),
        "prompts have different numbers of groups"
    );
    ensure!(groups_per_prompt > 2, "each prompt needs 3 groups or more, and has {groups_per_prompt}");
    let mut of_rules = vec![Vec::new(); rules().len()];
    let mut groups_with_signal = 0;
    for groups in by_prompt.values() {
        let mut gradients: Vec<Vec<Vec<f32>>> = vec![Vec::new(); rules().len()];
        for group in groups {
            let found = gradients_of(&mut learner, group)?;
            groups_with_signal += usize::from(found.iter().flatten().any(|value| *value != 0.0));
            gradients.iter_mut().zip(found).for_each(|(all, gradient)| all.push(gradient));
        }
        let reference = &gradients[EXPONENTS.len()];
        for (of_rule, gradients) in of_rules.iter_mut().zip(&gradients) {
            of_rule.push(Products::of(gradients, reference));
        }
    }
    let balanced = &of_rules[EXPONENTS.len() - 1];
    let exponents = EXPONENTS.iter().zip(&of_rules).map(|(&length_exponent, products)| OfExponent {
        length_exponent,
        noise: Estimate::of(products, noise),
        noise_to_balanced: Estimate::of_pair(products, balanced, |one, other| Some(noise(one)? / noise(other)?)),
        cosine: Estimate::of(products, cosine),
    });
    let exponents = exponents.collect();
    Ok(Measured { prompts: by_prompt.len(), groups_per_prompt, samples_per_group, groups_with_signal, exponents })
}

/// `sides` with each exponent, then the reference. Lengths divide out of both quantities, so that of `sequence-sum` is
/// any.
fn rules() -> Vec<(Aggregation, Constants)> {
    let constants = |sides| Constants { max_tokens: 1, vl_norm_alpha: 0.0, sides };
    let dial = |&length_exponent: &f64| Some(SideDial { length_exponent, ratio: 1.0 });
    let mut rules: Vec<_> = EXPONENTS.iter().map(|e| (Aggregation::Sides, constants(dial(e)))).collect();
    rules.push((Aggregation::SequenceSum, constants(None)));
    rules
}

/// The groups of all steps by the tokens of their prompt.
fn groups(run: &Path, model: &Path) -> Result<BTreeMap<Vec<u32>, Vec<ResponseGroup>>> {
    let record = RunRecord::read(run)?;
    let steps: Vec<u64> = record.steps.iter().map(|line| line.step).collect();
    let rewards = SentSamples { min_tokens: 0, mask_truncated: false, weight: Box::new(|_| 1.0) };
    let run = RecordedRun::open(record, model, rewards)?;
    let mut by_prompt: BTreeMap<Vec<u32>, Vec<ResponseGroup>> = BTreeMap::new();
    for step in steps {
        for mut group in run.step(step)?.groups {
            group.responses.iter_mut().for_each(|response| response.comparisons.clear());
            by_prompt.entry(group.prompt.clone()).or_default().push(group);
        }
    }
    Ok(by_prompt)
}

/// The gradient of one group under each rule, all parameters in one list.
fn gradients_of(learner: &mut Learner, group: &ResponseGroup) -> Result<Vec<Vec<f32>>> {
    let mut of_rules = vec![vec![0.0; learner.parameters().count().min(KEPT)]; rules().len()];
    let mut step = learner.step_of(1).with_probe()?;
    step.add(group.clone())?;
    step.gradients_by_weight(&rules(), |gradient, weights| {
        let mut values = Vec::new();
        for tensor in gradient {
            values.extend(tensor.flatten_all()?.to_vec1::<f32>()?);
        }
        // The sketch of a sum is the sum of sketches.
        let values = if values.len() > KEPT { sketch(&values, KEPT) } else { values };
        for (sum, &weight) in of_rules.iter_mut().zip(weights) {
            sum.iter_mut().zip(&values).for_each(|(sum, value)| *sum += weight as f32 * value);
        }
        Ok(())
    })?;
    Ok(of_rules)
}

/// A count sketch: each value is added, with a sign, to one of `sums` numbers; both follow from its index. The inner
/// product of two sketches is that of the values, but for about the product of both norms over the root of `sums`.
fn sketch(values: &[f32], sums: usize) -> Vec<f32> {
    let mut sketch = vec![0.0; sums];
    for (index, value) in (1_u64..).zip(values) {
        // The finalizer of SplitMix64.
        let mut hash = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        sketch[(hash >> 1) as usize % sums] += if hash & 1 == 0 { *value } else { -value };
    }
    sketch
}

#[cfg(test)]
mod tests {
    use super::sketch;

    #[test]
    fn sketches_keep_inner_products_of_far_longer_lists() {
        let (length, sums) = (200_000, 1 << 14);
        let value = |index: usize, shift: usize| ((index * index % 10_007 + shift * index) as f32).sin();
        let lists = [0, 1, 5].map(|shift| (0..length).map(|index| value(index, shift) + 0.25).collect::<Vec<f32>>());
        let product = |one: &[f32], other: &[f32]| -> f64 {
            one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
        };
        let sketches = lists.each_ref().map(|list| sketch(list, sums));
        for one in 0..lists.len() {
            for other in 0..lists.len() {
                let norms = (product(&lists[one], &lists[one]) * product(&lists[other], &lists[other])).sqrt();
                let error = product(&sketches[one], &sketches[other]) - product(&lists[one], &lists[other]);
                assert!(error.abs() < 5.0 * norms / (sums as f64).sqrt(), "{one} and {other}: {error} of {norms}");
            }
        }
    }
}
