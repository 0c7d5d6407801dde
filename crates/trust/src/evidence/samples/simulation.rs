//! Honest runs of 500 steps, audited: how many are accused.
//!
//! ```text
//! cargo test --release --workspace --lib -- --ignored --nocapture a_hundred_thousand_audited_runs
//! ```
//!
//! An engine draws from what it reports: the learner's policy, or that with the noise of a narrow type. Policies and
//! what the learner says of each of their tokens are drawn once; runs draw answers, token by token until one ends, from
//! them.

use std::thread;

use evenkeel_seeds::{RngCore, rng};
use evenkeel_statistics::evidence::copies;

use super::*;

/// Steps of a run, audited samples of a step, and answers of a group, of which a step has one.
const STEPS: usize = 500;
const SAMPLES: usize = 8;
const ANSWERS: usize = 8;
/// Tokens after which an answer is cut off.
const LONGEST: usize = 24;
/// Policies of each kind of engine.
const POLICIES: usize = 256;
/// The budget of a run.
const ALPHA: f64 = 4e-4;

/// A policy as it is drawn from, with the learner's view of each of its tokens.
struct Drawable {
    /// What engines draw from: cumulated.
    below: Vec<f64>,
    tokens: Vec<AuditedToken>,
    /// For each token the probability of less likely ones, and of equally likely ones.
    ranks: Vec<(f64, f64)>,
}

/// A kind of honest engine.
struct HonestEngine {
    name: &'static str,
    tolerances: Tolerances,
    policies: Vec<Drawable>,
}

impl Drawable {
    fn new(policy: &Policy, reported: &Policy) -> Self {
        let mut sum = 0.0;
        let below = reported.0.iter().map(|p| {
            sum += p;
            sum
        });
        let tokens = (0..reported.0.len()).map(|token| policy.token(token, reported.0[token].max(1e-30).ln(), 0.0));
        let ranks = policy.0.iter().map(|&p| (policy.mass(|_, other| other < p), policy.mass(|_, other| other == p)));
        Self { below: below.collect(), tokens: tokens.collect(), ranks: ranks.collect() }
    }

    fn draw(&self, uniform: f64, tie: f64) -> AuditedToken {
        let sum = self.below[self.below.len() - 1];
        let at = self.below.partition_point(|below| *below <= uniform * sum).min(self.below.len() - 1);
        let (less, equal) = self.ranks[at];
        let mut token = self.tokens[at];
        token.rare[0].0 = less + tie * equal < 0.01;
        token.rare[1].0 = less + tie * equal < 0.05;
        token
    }
}

/// xorshift64*.
struct Quick(u64);

impl Quick {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn kinds() -> Vec<HonestEngine> {
    let mut quick = Quick(77);
    let mut policies = |noise: f64, cut: Option<f64>, spread: f64| -> Vec<Drawable> {
        (0..POLICIES)
            .map(|_| {
                let scale = spread * (1.0 + 3.0 * quick.uniform());
                let mut logits: Vec<f64> = (0..64).map(|_| scale * (quick.uniform() - 0.5)).collect();
                // Answers of a dozen tokens or so.
                logits[63] += 1.0;
                let policy = Policy::of(logits);
                let reported = policy.noisy(noise, &mut || quick.uniform());
                match cut {
                    Some(mass) => Drawable::new(&policy.top_p(mass), &reported.top_p(mass)),
                    None => Drawable::new(&policy, &reported),
                }
            })
            .collect()
    };
    let narrow = CalibratedNoise { is_exact: false, usual_sequence: 0.06 };
    let exact = CalibratedNoise { is_exact: true, usual_sequence: 2e-6 };
    vec![
        HonestEngine {
            name: "f32",
            tolerances: Tolerances::calibrated(0.25, false, exact),
            policies: policies(1e-6, None, 2.0),
        },
        HonestEngine {
            name: "narrow",
            tolerances: Tolerances::calibrated(0.25, false, narrow),
            policies: policies(0.04, None, 2.0),
        },
        HonestEngine {
            name: "narrow, certain",
            tolerances: Tolerances::calibrated(0.25, false, narrow),
            policies: policies(0.04, None, 8.0),
        },
        HonestEngine {
            name: "f32, top-p 0.9",
            tolerances: Tolerances::calibrated(0.25, true, exact),
            policies: policies(0.0, Some(0.9), 2.0),
        },
    ]
}

/// Policies from flat to certain, for short answers of which many are alike, each cumulated and with its
/// log-probabilities.
fn answering() -> Vec<(Vec<f64>, Vec<f64>)> {
    let mut quick = Quick(5);
    let policy = |_| {
        let scale = 2.0 + 16.0 * quick.uniform();
        let policy = Policy::of((0..16).map(|_| scale * (quick.uniform() - 0.5)).collect::<Vec<_>>());
        let mut sum = 0.0;
        let below = policy.0.iter().map(|p| {
            sum += p;
            sum
        });
        (below.collect(), policy.0.iter().map(|p| p.ln()).collect())
    };
    (0..POLICIES).map(policy).collect()
}

/// What the answers of an honest group say about copies.
fn answered(policies: &[(Vec<f64>, Vec<f64>)], quick: &mut Quick) -> Vec<CopyEvidence> {
    let first = (quick.uniform() * (POLICIES - 3) as f64) as usize;
    let mut answer = |_| {
        let draw = |(below, log_p): &(Vec<f64>, Vec<f64>)| {
            let uniform = quick.uniform() * below[below.len() - 1];
            let at = below.partition_point(|below| *below <= uniform).min(below.len() - 1);
            (at as u32, log_p[at])
        };
        policies[first..first + 3].iter().map(draw).collect()
    };
    copies(&(0..ANSWERS).map(&mut answer).collect::<Vec<_>>())
}

/// The highest share of its threshold that a check of a run's engine reached, and which.
fn highest(kind: &HonestEngine, answering: &[(Vec<f64>, Vec<f64>)], seed: u64) -> (f64, SamplerCheck) {
    let mut quick = Quick(rng(seed, Stream::SamplerAudit { step: 0 }).next_u64() | 1);
    let mut checks = EngineChecks::new(kind.tolerances);
    let threshold = 2.0 * SamplerCheck::ALL.len() as f64 / ALPHA;
    let mut highest = (0.0, SamplerCheck::Temperature);
    let mut answer = Vec::with_capacity(LONGEST);
    for _ in 0..STEPS {
        checks.begin_round();
        answered(answering, &mut quick).iter().for_each(|evidence| checks.add_copy(evidence));
        for _ in 0..SAMPLES {
            answer.clear();
            while answer.len() < LONGEST && !answer.last().is_some_and(|token: &AuditedToken| token.is_end) {
                let policy = &kind.policies[(quick.uniform() * POLICIES as f64) as usize];
                answer.push(policy.draw(quick.uniform(), quick.uniform()));
            }
            checks.add_sequence(&answer);
        }
        for check in SamplerCheck::ALL {
            let share = checks.evidence(check) / threshold;
            if share > highest.0 {
                highest = (share, check);
            }
        }
    }
    highest
}

/// For each kind of engine: runs, those that were accused, and the highest share of a threshold.
fn simulate(runs: u64) -> Vec<(&'static str, u64, u64, f64, SamplerCheck)> {
    let kinds = kinds();
    let answering = answering();
    let parts = thread::available_parallelism().map_or(1, usize::from) as u64;
    let of_kind = |kind: &HonestEngine, first: u64, count: u64| {
        let part = |part: u64| (first..first + count).filter(move |run| run % parts == part);
        let found: Vec<(f64, SamplerCheck)> = thread::scope(|scope| {
            let answering = &answering;
            let start = |number| {
                scope.spawn(move || part(number).map(|seed| highest(kind, answering, seed)).collect::<Vec<_>>())
            };
            let started: Vec<_> = (0..parts).map(start).collect();
            started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let accused = found.iter().filter(|(share, _)| *share >= 1.0).count() as u64;
        let most = found.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        (kind.name, count, accused, most.0, most.1)
    };
    let each = runs / kinds.len() as u64;
    kinds.iter().enumerate().map(|(at, kind)| of_kind(kind, at as u64 * each, each)).collect()
}

#[test]
fn of_a_few_hundred_audited_runs_none_is_accused() {
    for (name, runs, accused, highest, check) in simulate(240) {
        assert_eq!(accused, 0, "{name}: {highest:.2} of the threshold ({check:?}) in {runs} runs");
    }
}

#[test]
#[ignore = "twenty minutes on two cores"]
#[allow(clippy::print_stdout, reason = "its numbers are what it is for")]
fn a_hundred_thousand_audited_runs() {
    println!("| engine | runs | accused | nearest to its threshold |\n|---|---|---|---|");
    let mut runs = 0;
    let mut accused = 0;
    for (name, count, found, highest, check) in simulate(100_000) {
        println!("| {name} | {count} | {found} | {highest:.2} ({}) |", check.name());
        runs += count;
        accused += found;
    }
    println!("| all | {runs} | {accused} | allowed: {:.0} |", ALPHA / 2.0 * runs as f64);
    // The first engine of a run has half of the budget.
    assert!(accused as f64 <= ALPHA / 2.0 * runs as f64, "{accused}");
}
