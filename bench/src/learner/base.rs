//! An update of adapters beside a base in bf16 and beside the same in fp32: CPU time, and the memory that the base
//! takes.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use evenkeel_learner::{BaseType, Learner, LoraSettings};
use serde::{Deserialize, Serialize};

use super::lora::{groups, median, settings, timed};

/// Beside a base of one type, in a process of its own: in one both would share what the first has read.
#[derive(Serialize, Deserialize)]
pub(crate) struct Beside {
    /// Seconds of CPU time of an update, one for each repetition.
    update: Vec<f64>,
    /// Mebibytes by which the process grew when the model was opened.
    opened: u64,
    /// The most that it had.
    peak: u64,
    /// The bits of all values of the adapters afterwards, folded into one number.
    bits: u64,
}

/// Runs with either base, after the same updates, which have the same bits.
#[derive(Serialize)]
pub(crate) struct Bases {
    tokens: usize,
    f32: Beside,
    bf16: Beside,
    /// bf16 / f32, of the medians of an update's time.
    ratio: f64,
}

pub(crate) fn measure(model: &Path, reps: usize, tokens: usize) -> Result<Bases> {
    let measure = |what: &str| -> Result<Beside> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["learner", what]).arg(model).args([reps, tokens].map(|number| number.to_string()));
        let output = command.stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "{what}: {}", output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let f32 = measure("base-f32")?;
    let bf16 = measure("base-bf16")?;
    ensure!(f32.bits == bf16.bits, "the adapters differ");
    let ratio = median(&bf16.update) / median(&f32.update);
    Ok(Bases { tokens, f32, bf16, ratio })
}

pub(crate) fn beside(model: &Path, base_type: BaseType, reps: usize, tokens: usize) -> Result<Beside> {
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
    let mut bits = 0_u64;
    for value in learner.parameters().trained_values() {
        let values: Vec<f32> = value.flatten_all()?.to_vec1()?;
        bits =
            values.iter().fold(bits, |bits, value| bits.rotate_left(5).wrapping_mul(31) ^ u64::from(value.to_bits()));
    }
    Ok(Beside { update, opened, peak: mebibytes("VmHWM:")?, bits })
}

/// A line of this process's status.
fn mebibytes(name: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("status lacks a line")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes / 1024)
}
