//! The evidence of the proof of weights, with a model that is trained and engines that compute: one in f32 with other
//! kernels and batches than the learner, and one in bf16. Faults are weights that really are old.
//!
//! ```text
//! cargo test --release --workspace --test stale_weights -- --ignored --nocapture    thousands of honest steps, and the direction of noise
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and prints what it measured")]

mod support;

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use evenkeel_model::kernels::portable::Portable;
use evenkeel_model::{
    Architecture, BoxError, Coefficients, Config, Network, NetworkOptions, Packed, Parameters, Scores, TokenLoss,
    TrainableModel, tensor_groups,
};
use evenkeel_statistics::evidence::{Contrast, Noise, SuspectedToken};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use support::{config, cpu, host, ids, parameters};

/// What the proof of weights scores in a step where engines compute in f32, and in a narrower type.
const EXACT: (usize, usize) = (32, 12);
const NARROW: (usize, usize) = (64, 64);
/// Evidence at which one of a dozen suspicions about a run's first engine is a fault, and at which half staleness is
/// refuted.
const FAULT: f64 = 12.0 * 2.0 / 4e-4;
const REFUTED: f64 = 1e3;

type Text = Vec<Vec<u32>>;
type LogProbabilities = Vec<Vec<f32>>;

/// Untied, with biases: every group that there is.
fn shape() -> Config {
    config(Architecture::QWEN2)
}

fn text(seed: u64, (sequences, tokens): (usize, usize)) -> Text {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..sequences).map(|_| ids(&shape(), &mut random, tokens + 1)).collect()
}

/// Log-probabilities of all tokens but the first, in batches of that many sequences.
fn score(network: &dyn TrainableModel, text: &[Vec<u32>], together: usize) -> LogProbabilities {
    let batches = text.chunks(together).map(|sequences| {
        let mut batch = Packed::default();
        sequences.iter().for_each(|ids| batch.push(&shape(), ids, 1..ids.len()).unwrap());
        batch
    });
    let scores = network.score(&batches.collect::<Vec<_>>(), 1.0).unwrap();
    let all: Vec<f32> = scores.into_iter().flat_map(|scores| scores.logp).collect();
    all.chunks(text[0].len() - 1).map(<[f32]>::to_vec).collect()
}

fn by_learner(weights: &Parameters, text: &Text) -> LogProbabilities {
    score(&cpu(&shape(), weights, NetworkOptions::default()), text, 8)
}

/// An engine: kernels of its own, which compute in that type.
fn by_engine(weights: &Parameters, compute: DType, text: &[Vec<u32>], together: usize) -> LogProbabilities {
    let kernels = Portable::new(Device::Cpu, compute).unwrap();
    let network = Network::new(shape(), weights.deep_copy().unwrap(), kernels, NetworkOptions::default()).unwrap();
    score(&network, text, together)
}

/// Advantages of whole sequences, as in training by rewards.
struct Advantages;

impl TokenLoss for Advantages {
    fn coefficients(&self, _: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let mut logp = vec![0.0; scores.logp.len()];
        for sequence in 0..batch.sequences() {
            let sign = if sequence % 2 == 0 { 1.0 } else { -1.0 };
            batch.scored(sequence).for_each(|at| logp[at] = sign);
        }
        Ok(Coefficients { entropy: vec![0.0; logp.len()], logp })
    }
}

fn mapped(all: &[&Parameters], of: impl Fn(&[f32]) -> f32) -> Parameters {
    let tensors = all[0].specs().iter().enumerate().map(|(at, spec)| {
        let columns: Vec<Vec<f32>> = all.iter().map(|parameters| host(&parameters.values()[at])).collect();
        let values = (0..columns[0].len()).map(|row| of(&columns.iter().map(|column| column[row]).collect::<Vec<_>>()));
        Tensor::from_vec(values.collect::<Vec<_>>(), spec.shape.as_slice(), &Device::Cpu).unwrap()
    });
    Parameters::new(&shape(), tensors.collect(), &Device::Cpu).unwrap()
}

/// The weights after one step: every weight moves by the learning rate, as in the first steps of Adam.
fn trained(weights: &Parameters, seed: u64, learning_rate: f32) -> Parameters {
    let mut network = cpu(&shape(), weights, NetworkOptions::default());
    let mut batch = Packed::default();
    text(1_000_000 + seed, EXACT).iter().for_each(|ids| batch.push(&shape(), ids, 4..ids.len()).unwrap());
    network.accumulate(&[batch], 1.0, &Advantages).unwrap();
    let gradients = Parameters::new(&shape(), network.take_gradients().unwrap(), &Device::Cpu).unwrap();
    mapped(&[weights, &gradients], |values| values[0] - learning_rate * values[1].signum())
}

fn rounded(weights: &Parameters, to: DType) -> Parameters {
    let values = weights.values().iter().map(|value| value.to_dtype(to).unwrap()).collect();
    Parameters::new(&shape(), values, &Device::Cpu).unwrap()
}

/// `current` with one group of `old`.
fn mixed(current: &Parameters, old: &Parameters, group: &str) -> Parameters {
    let groups = tensor_groups(&Parameters::described(&shape()).unwrap());
    let group = groups.iter().find(|known| known.name == group).unwrap();
    let mut values: Vec<Tensor> = current.values().to_vec();
    group.parameters.iter().for_each(|&id| values[id] = old.values()[id].clone());
    Parameters::new(&shape(), values, &Device::Cpu).unwrap()
}

/// The published weights of a run, the newest last.
struct Run {
    publish: DType,
    learning_rate: f32,
    masters: Parameters,
    published: Vec<Parameters>,
    steps: u64,
}

impl Run {
    fn new(publish: DType, learning_rate: f32) -> Self {
        // As most checkpoints are: values of the published type.
        let masters = rounded(&parameters(&shape(), 3), publish);
        Self { publish, learning_rate, published: vec![masters.deep_copy().unwrap()], masters, steps: 0 }
    }

    fn step(&mut self) {
        self.steps += 1;
        self.masters = trained(&self.masters, self.steps, self.learning_rate);
        self.published.push(rounded(&self.masters, self.publish));
    }

    /// Only the first and the last two are tested again.
    fn forget(&mut self) {
        if self.published.len() > 3 {
            self.published.remove(1);
        }
    }

    fn now(&self) -> &Parameters {
        self.published.last().unwrap()
    }

    fn before(&self) -> &Parameters {
        &self.published[self.published.len() - 2]
    }

    fn suspected(&self) -> BTreeMap<String, Parameters> {
        let anchor = &self.published[0];
        let groups = tensor_groups(&Parameters::described(&shape()).unwrap()).into_iter().map(|group| {
            let weights = mixed(self.now(), anchor, &group.name);
            (group.name, weights)
        });
        let whole = ("unchanged".to_owned(), anchor.deep_copy().unwrap());
        let behind = (self.published.len() > 2).then(|| ("behind".to_owned(), self.before().deep_copy().unwrap()));
        groups.chain([whole]).chain(behind).collect()
    }
}

/// What is known of one engine.
struct Evidence {
    compute: DType,
    size: (usize, usize),
    noise: Noise,
    contrasts: BTreeMap<String, Contrast>,
}

impl Evidence {
    /// Calibrated with the weights that a run begins with, in several batches.
    fn new(run: &Run, compute: DType) -> Self {
        let size = if compute == DType::F32 { EXACT } else { NARROW };
        let text = text(7, size);
        let mut noise = Noise::default();
        let learner = by_learner(run.now(), &text);
        for together in [1, 5, size.0] {
            let engine = by_engine(run.now(), compute, &text, together);
            for (learner, engine) in learner.iter().zip(&engine) {
                let gaps = learner.iter().zip(engine).map(|(l, e)| (f64::from(*l), f64::from(*e) - f64::from(*l)));
                noise.add(gaps);
            }
        }
        Self { compute, size, noise, contrasts: BTreeMap::new() }
    }

    /// A proof after a step, of an engine that has `weights`.
    fn prove(&mut self, run: &Run, weights: &Parameters) {
        let text = text(100 + run.steps, self.size);
        let learner = by_learner(run.now(), &text);
        let engine = by_engine(weights, self.compute, &text, 5);
        let (tolerated, skipped) = if self.noise.overall() < 1e-4 { (0.02, 0) } else { (0.1, 3) };
        for (name, suspected) in run.suspected() {
            let suspected = by_learner(&suspected, &text);
            let contrast = self.contrasts.entry(name).or_default();
            contrast.begin_round();
            for ((learner, engine), suspected) in learner.iter().zip(&engine).zip(&suspected) {
                let tokens = learner.iter().zip(engine).zip(suspected).skip(skipped);
                let tokens = tokens.map(|((learner, engine), suspected)| SuspectedToken {
                    gap: f64::from(*engine) - f64::from(*learner),
                    predicted: f64::from(*suspected) - f64::from(*learner),
                    weight: self.noise.weight(f64::from(*learner)),
                });
                contrast.add(&tokens.collect::<Vec<_>>(), tolerated);
            }
        }
    }

    fn strongest(&self) -> f64 {
        self.contrasts.values().map(Contrast::stale).fold(1.0, f64::max)
    }

    fn accuses(&self, name: &str) -> bool {
        self.contrasts.get(name).is_some_and(|contrast| contrast.stale() >= FAULT)
    }

    fn refutes(&self, name: &str) -> bool {
        self.contrasts.get(name).is_some_and(|contrast| contrast.fresh() >= REFUTED)
    }
}

/// The step by which an engine that has the weights `lie` of a run is accused of what is suspected, of at most `most`.
fn found(run: &mut Run, compute: DType, suspected: &str, most: u64, lie: impl Fn(&Run) -> Parameters) -> Option<u64> {
    let mut evidence = Evidence::new(run, compute);
    (1..=most).find(|_| {
        run.step();
        evidence.prove(run, &lie(run));
        evidence.accuses(suspected)
    })
}

#[test]
fn an_engine_in_f32_with_the_right_weights_is_proven_in_three_steps_at_1e_6() {
    let mut run = Run::new(DType::F32, 1e-6);
    let mut evidence = Evidence::new(&run, DType::F32);
    let noise = evidence.noise.overall();
    assert!(noise > 1e-8 && noise < 1e-5, "kernels of its own: {noise:e}");
    for _ in 0..3 {
        run.step();
        evidence.prove(&run, run.now());
        assert!(evidence.strongest() < 100.0, "{}", evidence.strongest());
    }
    for name in run.suspected().keys() {
        assert!(evidence.refutes(name), "{name}: {:?}", evidence.contrasts[name].share());
    }
}

#[test]
fn in_f32_every_group_of_old_tensors_is_found_within_three_steps_at_1e_6() {
    for group in tensor_groups(&Parameters::described(&shape()).unwrap()) {
        let mut run = Run::new(DType::F32, 1e-6);
        let steps = found(&mut run, DType::F32, &group.name, 3, |run| mixed(run.now(), &run.published[0], &group.name));
        assert!(steps.is_some(), "{}", group.name);
    }
}

#[test]
fn in_f32_nothing_loaded_a_part_of_each_change_and_one_version_behind_are_found_within_three_steps_at_1e_6() {
    let run = || Run::new(DType::F32, 1e-6);
    let steps = found(&mut run(), DType::F32, "unchanged", 3, |run| run.published[0].deep_copy().unwrap());
    assert!(steps.is_some());
    let steps = found(&mut run(), DType::F32, "unchanged", 3, |run| {
        mapped(&[&run.published[0], run.now()], |values| 0.2 * values[0] + 0.8 * values[1])
    });
    assert!(steps.is_some());
    // In the first step there is no version but the anchor before.
    let steps = found(&mut run(), DType::F32, "behind", 3, |run| run.before().deep_copy().unwrap());
    assert!(steps.is_some());
}

#[test]
fn an_engine_in_bf16_is_not_accused_of_what_its_type_cannot_hold() {
    for learning_rate in [1e-6, 1e-5, 1e-3] {
        let mut run = Run::new(DType::BF16, learning_rate);
        let mut evidence = Evidence::new(&run, DType::BF16);
        assert!(evidence.noise.overall() > 1e-4, "{}", evidence.noise.overall());
        for step in 0..8 {
            run.step();
            evidence.prove(&run, run.now());
            assert!(evidence.strongest() < FAULT, "{learning_rate}, step {step}: {}", evidence.strongest());
        }
    }
}

#[test]
fn in_bf16_nothing_loaded_is_found_where_the_rounded_weights_move_and_undecided_where_they_do_not() {
    let stuck = |run: &Run| run.published[0].deep_copy().unwrap();
    let steps = found(&mut Run::new(DType::BF16, 1e-3), DType::BF16, "unchanged", 8, stuck);
    assert!(steps.is_some());
    // Half a unit of most weights is a hundred times more than the sum of these steps.
    let mut run = Run::new(DType::BF16, 1e-7);
    let mut evidence = Evidence::new(&run, DType::BF16);
    for _ in 0..6 {
        run.step();
        evidence.prove(&run, &stuck(&run));
    }
    assert!(!evidence.accuses("unchanged") && !evidence.refutes("unchanged"), "{}", evidence.strongest());
}

#[test]
#[ignore = "a thousand steps of each engine take some minutes"]
fn thousands_of_honest_steps_accuse_nobody() {
    for (publish, compute, learning_rate) in [
        (DType::F32, DType::F32, 1e-6),
        (DType::BF16, DType::BF16, 1e-6),
        (DType::BF16, DType::BF16, 1e-5),
        (DType::BF16, DType::BF16, 1e-4),
    ] {
        let mut run = Run::new(publish, learning_rate);
        let mut evidence = Evidence::new(&run, compute);
        let mut highest = 1.0_f64;
        for _ in 0..1_000 {
            run.step();
            evidence.prove(&run, run.now());
            highest = highest.max(evidence.strongest());
            run.forget();
        }
        let tokens = evidence.contrasts["unchanged"].tokens();
        let noise = evidence.noise.overall();
        println!(
            "{compute:?} at {learning_rate:e}: noise {noise:.2e} nats, {tokens} tokens, highest evidence {highest:.1}"
        );
        for (name, contrast) in &evidence.contrasts {
            let (share, error) = contrast.share().unwrap_or_default();
            println!("  {name}: share {share:.4} ± {error:.4}, half stale refuted: {}", contrast.fresh() >= REFUTED);
        }
        assert!(highest < FAULT, "{highest}");
    }
}

#[test]
#[ignore = "it takes a minute or more"]
fn noise_of_bf16_has_less_of_a_direction_than_is_tolerated() {
    println!(
        "| learning rate | suspicion | movement over noise | correlation, first half | second half |\n\
        |---|---|---|---|---|"
    );
    for learning_rate in [1e-6, 1e-5, 1e-4] {
        let mut run = Run::new(DType::BF16, learning_rate);
        let mut found: BTreeMap<String, [Direction; 2]> = BTreeMap::new();
        for step in 0..120 {
            run.step();
            run.forget();
            if step % 3 > 0 {
                continue;
            }
            let text = text(100 + run.steps, NARROW);
            let learner = by_learner(run.now(), &text);
            let engine = by_engine(run.now(), DType::BF16, &text, 5);
            for (name, suspected) in run.suspected() {
                let suspected = by_learner(&suspected, &text);
                let direction = &mut found.entry(name).or_default()[step / 60];
                let tokens = learner.iter().flatten().zip(engine.iter().flatten()).zip(suspected.iter().flatten());
                for ((&learner, &engine), &suspected) in tokens {
                    direction.add(f64::from(engine) - f64::from(learner), f64::from(suspected) - f64::from(learner));
                }
            }
        }
        for (name, [first, second]) in found {
            let size = (second.predictions / second.gaps).sqrt();
            let [first, second] = [first, second].map(|half| half.correlation());
            println!("| {learning_rate:e} | {name} | {size:.4} | {first:+.3} | {second:+.3} |");
            assert!(first.max(second) < 0.15, "{name}");
        }
    }
}

/// Sums over tokens from which a correlation and a slope follow.
#[derive(Clone, Copy, Default)]
struct Direction {
    gaps: f64,
    predictions: f64,
    products: f64,
}

impl Direction {
    fn add(&mut self, gap: f64, predicted: f64) {
        self.gaps += gap * gap;
        self.predictions += predicted * predicted;
        self.products += gap * predicted;
    }

    fn correlation(self) -> f64 {
        self.products / (self.gaps * self.predictions).sqrt().max(f64::MIN_POSITIVE)
    }
}
