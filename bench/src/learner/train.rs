//! Whole policy steps: forward, backward, clipping, AdamW.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use evenkeel_learner::{Learner, OldLogp, OptimizerSettings, Response, ResponseGroup, TrainingSettings};

use super::{Batch, Measured, THREADS};

pub(crate) fn measure(folder: &Path, batch: &Batch, reps: usize) -> Result<Measured> {
    let mut learner = Learner::open(folder, settings(batch)?)?;
    let mut measured = Measured::default();
    for rep in 0..=reps {
        let groups = groups(batch);
        let began = Instant::now();
        let report = learner.train(groups)?;
        let seconds = began.elapsed().as_secs_f64();
        if rep == 0 {
            // The first one warms up, and says whether both sides did the same work.
            measured.loss = Some(report.updates[0].loss);
            measured.grad_norm = Some(report.updates[0].grad_norm);
        } else {
            measured.seconds.push(seconds);
        }
    }
    Ok(measured)
}

fn settings(batch: &Batch) -> Result<TrainingSettings> {
    let optimizer = OptimizerSettings {
        learning_rate: 1e-4,
        betas: [0.9, 0.95],
        weight_decay: 0.0,
        warmup_updates: 0,
        ..OptimizerSettings::default()
    };
    let (mini_batch_groups, old_logp) = match batch.mini_batch {
        0 => (0, OldLogp::Rollout),
        groups => (groups, OldLogp::Recompute),
    };
    let mut settings = TrainingSettings { optimizer, old_logp, mini_batch_groups, ..TrainingSettings::default() };
    settings.compute.threads = THREADS;
    if let Ok(tokens) = std::env::var("MICRO_BATCH_TOKENS") {
        settings.compute.micro_batch_tokens = tokens.parse()?;
    }
    Ok(settings)
}

fn groups(batch: &Batch) -> Vec<ResponseGroup> {
    let group = |(number, group): (usize, &super::BatchGroup)| {
        let responses = group.responses.iter().map(|response| Response {
            tokens: response.tokens.clone(),
            mask: vec![true; response.tokens.len()],
            rollout_logp: response.logp.clone(),
            raw_reward: response.reward,
            reward: response.reward,
            valid: true,
            ..Response::default()
        });
        ResponseGroup {
            id: number.to_string(),
            prompt: group.prompt.clone(),
            hinted_prompt: None,
            responses: responses.collect(),
        }
    };
    batch.groups.iter().enumerate().map(group).collect()
}
