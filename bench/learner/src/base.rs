//! An update of adapters beside a base in bf16 and beside the same in fp32: CPU time, and the memory that the base takes.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use evenkeel_learner::{BaseType, Learner, LoraSettings};
use serde::Serialize;

use crate::lora::{groups, median, settings, timed};

/// Beside a base of one type.
#[derive(Serialize)]
struct Beside {
    /// Seconds of CPU time of an update, one for each repetition.
    update: Vec<f64>,
    /// Mebibytes by which this process grew when the model was opened.
    opened: u64,
    /// The most that it had.
    peak: u64,
}

/// Both, after the same updates, which have the same bits.
#[derive(Serialize)]
pub(crate) struct Bases {
    tokens: usize,
    f32: Beside,
    bf16: Beside,
    /// bf16 / f32, of the medians of an update's time.
    ratio: f64,
}

pub(crate) fn measure(model: &Path, reps: usize, tokens: usize) -> Result<Bases> {
    // One after the other: in one process both would share what the first has read. The smaller one first, since a peak does not go down.
    let (bf16, narrow) = beside(model, BaseType::Bf16, reps, tokens)?;
    let (f32, wide) = beside(model, BaseType::F32, reps, tokens)?;
    ensure!(narrow == wide, "the adapters differ");
    let ratio = median(&bf16.update) / median(&f32.update);
    Ok(Bases { tokens, f32, bf16, ratio })
}

/// With the adapters after it.
fn beside(model: &Path, base_type: BaseType, reps: usize, tokens: usize) -> Result<(Beside, Vec<Vec<f32>>)> {
    let before = mebibytes("VmRSS:")?;
    let mut learner = Learner::open(model, settings(Some(LoraSettings { base_type, ..LoraSettings::default() })))?;
    let opened = mebibytes("VmRSS:")?.saturating_sub(before);
    let groups = groups(learner.config().vocab_size, tokens);
    let mut update = Vec::new();
    for rep in 0..=reps {
        let time = timed(1, || learner.train(groups.clone()).map(drop).map_err(Into::into))?;
        // The first one warms up.
        if rep > 0 {
            update.push(time);
        }
    }
    let values = learner.parameters().trained_values().iter();
    let values = values.map(|tensor| Ok(tensor.flatten_all()?.to_vec1()?)).collect::<Result<_>>()?;
    Ok((Beside { update, opened, peak: mebibytes("VmHWM:")? }, values))
}

/// A line of this process's status.
fn mebibytes(name: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("status lacks a line")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes / 1024)
}
