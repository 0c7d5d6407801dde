//! `evenkeel gpu`: what this machine has to train on, and what a model takes of it.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_cuda::Probe;
use evenkeel_learner::{Compute, ComputeType, LearnerSettings, MemoryPlan};
use evenkeel_model::Config;
use serde_json::json;

use crate::arguments::{GpuCommand, GpuPlanOptions, GpuProbeOptions};

pub(crate) fn gpu(command: &GpuCommand) -> Result<ExitCode> {
    match command {
        GpuCommand::Probe(options) => probe(options),
        GpuCommand::Plan(options) => plan(options),
    }
}

/// Answers with success whatever is there: a machine without a GPU is one of the answers.
#[expect(clippy::print_stdout, reason = "the answer")]
fn probe(options: &GpuProbeOptions) -> Result<ExitCode> {
    let probe = Probe::of_this_machine();
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&probe)?),
        false => println!("{probe}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails where the model does not fit.
#[expect(clippy::print_stdout, reason = "the answer")]
fn plan(options: &GpuPlanOptions) -> Result<ExitCode> {
    let (config, _) = Config::load(&options.model)?;
    let available = match options.memory {
        Some(gibibytes) if gibibytes.is_finite() && gibibytes > 0.0 => (gibibytes * f64::from(1 << 30)) as u64,
        Some(gibibytes) => bail!("--memory is {gibibytes}, allowed: a number of GiB above 0"),
        None => {
            let probe = Probe::of_this_machine();
            let device = probe.devices.first();
            device
                .context("this machine has no GPU whose memory could be asked for: --memory names it, in GiB")?
                .total_global_mem as u64
        }
    };
    let settings = options.settings();
    settings.validate()?;
    let plan = MemoryPlan::of(&config, &settings, options.longest)?;
    let fits = plan.check(available, &settings);
    if options.json {
        let parts: Vec<_> = plan.parts.iter().map(|part| json!({"what": part.what, "bytes": part.bytes})).collect();
        let (bytes, fits) = (plan.total(), fits.is_ok());
        println!("{:#}", json!({"parts": parts, "bytes": bytes, "available": available, "fits": fits}));
    } else {
        println!("{plan}\n{:>8.1} GiB  on the device", available as f64 / f64::from(1 << 30));
    }
    fits?;
    Ok(ExitCode::SUCCESS)
}

impl GpuPlanOptions {
    /// As far as memory depends on them.
    fn settings(&self) -> LearnerSettings {
        let compute = Compute {
            device: "cuda".into(),
            dtype: if self.f32 { ComputeType::F32 } else { ComputeType::Bf16 },
            micro_batch_tokens: self.micro_batch_tokens,
            recompute: self.recompute,
            ..Compute::default()
        };
        let mut settings =
            LearnerSettings { epochs: if self.several_updates { 2 } else { 1 }, compute, ..LearnerSettings::default() };
        settings.objective.kl_coefficient = if self.reference { 1.0 } else { 0.0 };
        settings
    }
}
