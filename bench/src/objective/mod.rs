//! Times the objective of a whole step on one core: 2,048 responses of 8,192 tokens, the weights of every aggregation
//! rule and loss and gradient of the policy term, f32 in and out, against a limit of 300 ms and against the same
//! formulas written plainly.
//!
//! Run it with `cargo run --release -p evenkeel-bench -- objective`. It exits with status 1 above the limit.
mod naive;
mod step;

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use evenkeel_objective::{
    Aggregation, MiniBatchCounts, PolicyTerm, Settings, advantages, group_weights, response_loss, trainable_tokens,
};
use step::{GROUP, RESPONSES, TOKENS, UpdateStep};

const LIMIT: Duration = Duration::from_millis(300);
const RUNS: usize = 7;

pub(crate) fn run() -> Result<ExitCode, Box<dyn Error>> {
    let step = UpdateStep::generate();
    let mut grad = vec![0.0_f32; RESPONSES * TOKENS];
    let mut plain_grad = grad.clone();
    let settings = Settings { max_tokens: TOKENS, ..Settings::default() };

    let ours = fastest(|| objective(&settings, &step, &mut grad))?;
    let plain = fastest(|| Ok(naive::objective(&settings, &step, &mut plain_grad)))?;
    let ours_ms = milliseconds(ours.0);
    let plain_ms = milliseconds(plain.0);
    let kept = ours.0 < LIMIT;
    println!(
        "{RESPONSES} responses of {TOKENS} tokens, all {} weights and the gradient of ppo, f32, one core: {ours_ms:.1} \
         ms (limit {:.0} ms: {}); written plainly {plain_ms:.1} ms, {:.2} times as long",
        Aggregation::ALL.len(),
        milliseconds(LIMIT),
        if kept { "kept" } else { "NOT KEPT" },
        plain_ms / ours_ms,
    );
    let furthest = grad.iter().zip(&plain_grad).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("loss {:.9}, plainly {:.9}; gradients differ by at most {furthest:e}", ours.1, plain.1);

    for &policy in PolicyTerm::ALL {
        let settings = Settings { policy, ..settings.clone() };
        let (time, _) = fastest(|| objective(&settings, &step, &mut grad))?;
        println!("  {policy:<10} {:.1} ms", milliseconds(time));
    }
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The fastest of several runs and its loss: interference only ever makes a run slower.
fn fastest(mut run: impl FnMut() -> Result<f64, Box<dyn Error>>) -> Result<(Duration, f64), Box<dyn Error>> {
    let mut best = (Duration::MAX, f64::NAN);
    for _ in 0..RUNS {
        let start = Instant::now();
        let loss = black_box(run()?);
        let time = start.elapsed();
        if time < best.0 {
            best = (time, loss);
        }
    }
    Ok(best)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A step as the learner computes it: groups become weights, responses become gradients.
fn objective(settings: &Settings, step: &UpdateStep, grad: &mut [f32]) -> Result<f64, Box<dyn Error>> {
    let mut a = [0.0; GROUP];
    let mut trainable = [0; GROUP];
    let mut weights = vec![[[0.0; GROUP]; Aggregation::ALL.len()]; RESPONSES / GROUP];
    let mut all_advantages = vec![[0.0; GROUP]; RESPONSES / GROUP];
    let mut counts = MiniBatchCounts::default();
    for (g, group) in weights.iter_mut().enumerate() {
        let rewards = &step.rewards[g * GROUP..][..GROUP];
        advantages(settings.advantage, rewards, &[true; GROUP], &mut a)?;
        for (i, trainable) in trainable.iter_mut().enumerate() {
            *trainable = trainable_tokens(step.tokens(g * GROUP + i).mask);
        }
        let mut added = None;
        for (&aggregation, out) in Aggregation::ALL.iter().zip(group.iter_mut()) {
            added = Some(group_weights(aggregation, &a, &trainable, settings.constants(), out)?);
        }
        added.into_iter().for_each(|group| counts.add(group));
        all_advantages[g] = a;
    }
    black_box(&weights);

    let rule = Aggregation::ALL.iter().position(|&a| a == settings.aggregation).unwrap_or_default();
    let scale = counts.normalizer(settings.aggregation);
    let mut loss = 0.0;
    for (r, grad) in grad.chunks_exact_mut(TOKENS).enumerate() {
        let g = r / GROUP;
        let i = r % GROUP;
        let weight = weights[g][rule][i] * scale;
        loss += response_loss(settings, all_advantages[g][i], weight, &step.tokens(r), grad)?.loss;
    }
    Ok(loss)
}
