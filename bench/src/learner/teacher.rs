//! An update with a teacher's term beside one without, on the same batch and in turns: CPU time, which other programs do
//! not change.

use std::path::Path;

use anyhow::Result;
use evenkeel_learner::{DistillationSettings, Learner, OldLogp};
use serde::Serialize;

use super::lora::{groups, median, settings, timed};

/// Seconds of CPU time, one for each repetition.
#[derive(Default, Serialize)]
pub(crate) struct Updates {
    tokens: usize,
    plain: Vec<f64>,
    taught: Vec<f64>,
    /// What the teacher adds to an update as a part of it, by the medians.
    ratio: f64,
}

/// `model` teaches itself: a teacher of the student's size.
pub(crate) fn measure(model: &Path, reps: usize, tokens: usize) -> Result<Updates> {
    let open = |distillation| -> Result<Learner> {
        let mut settings = settings(None);
        settings.old_logp = OldLogp::Recompute;
        settings.distillation = distillation;
        Ok(Learner::open(model, settings)?)
    };
    let mut plain = open(None)?;
    let teacher = DistillationSettings { teacher: model.to_owned(), reward_weight: 1.0, ..Default::default() };
    let mut taught = open(Some(teacher))?;
    let groups = groups(plain.config().vocab_size, tokens);
    let responses = groups.iter().flat_map(|group| &group.responses);
    let mut found = Updates { tokens: responses.map(|response| response.tokens.len()).sum(), ..Updates::default() };
    for rep in 0..=reps {
        for (learner, times) in [(&mut plain, &mut found.plain), (&mut taught, &mut found.taught)] {
            let seconds = timed(1, || learner.train(groups.clone()).map(drop).map_err(Into::into))?;
            // The first one warms up.
            if rep > 0 {
                times.push(seconds);
            }
        }
    }
    let [plain, taught] = [&found.plain, &found.taught].map(|all| median(all));
    found.ratio = (taught - plain) / plain;
    Ok(found)
}
