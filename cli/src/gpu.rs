//! `evenkeel gpu`: what this machine has to train on, and what a model takes of it.

use std::fmt;
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_config::Settings;
use evenkeel_cuda::Probe;
use evenkeel_host::Size;
use evenkeel_learner::{Compute, ComputeType, MemoryPart, MemoryPlan, MomentsLocation, TrainingSettings};
use evenkeel_model::{Config, Recompute};
use evenkeel_proto::FieldError;
use serde_json::{Value, json};

use crate::arguments::{GpuCommand, GpuPlanOptions, GpuProbeOptions};
use crate::terminal::print_result;

pub(crate) fn gpu(command: &GpuCommand) -> Result<ExitCode> {
    match command {
        GpuCommand::Probe(options) => probe(options),
        GpuCommand::Plan(options) => plan(options),
    }
}

/// Succeeds whatever the machine has: no GPU is a valid answer.
fn probe(options: &GpuProbeOptions) -> Result<ExitCode> {
    let probe = Probe::of_this_machine();
    print_result(&if options.json {
        format!("{}\n", serde_json::to_string_pretty(&probe)?)
    } else {
        format!("{probe}\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Fails where the model fits in none of the ways.
fn plan(options: &GpuPlanOptions) -> Result<ExitCode> {
    let (config, _) = Config::load(&options.model)?;
    let available = match options.memory {
        Some(gibibytes) if gibibytes.is_finite() && gibibytes > 0.0 => (gibibytes * f64::from(1 << 30)) as u64,
        Some(gibibytes) => return Err(FieldError::new("--memory", gibibytes, "a number of GiB above 0").into()),
        None => {
            let probe = Probe::of_this_machine();
            let device = probe.devices.first();
            device
                .context("this machine has no GPU whose memory could be read: set it with --memory, in GiB")?
                .total_global_mem as u64
        }
    };
    let ways = options.ways().map(|settings| Way::of(&config, settings, options.longest));
    let ways = ways.collect::<Result<Vec<Way>>>()?;
    print_result(&if options.json {
        format!("{:#}\n", json(&ways, available))
    } else {
        format!("{}\n", MemoryTable { ways: &ways, available })
    })?;
    let leanest = ways.iter().min_by_key(|way| way.plan.total()).context("there is a way")?;
    leanest.plan.validate(available, None, &leanest.settings)?;
    Ok(ExitCode::SUCCESS)
}

/// Settings, and what training by them takes.
struct Way {
    settings: TrainingSettings,
    plan: MemoryPlan,
}

impl Way {
    fn of(config: &Config, settings: TrainingSettings, longest: usize) -> Result<Self> {
        settings.validate()?;
        let plan = MemoryPlan::of(config, &settings, longest)?;
        Ok(Self { settings, plan })
    }

    fn recompute(&self) -> &'static str {
        self.settings.compute.recompute.name()
    }

    fn moments(&self) -> MomentsLocation {
        self.settings.optimizer.moments
    }
}

fn json(ways: &[Way], available: u64) -> Value {
    let plans = ways.iter().map(|way| {
        let parts = |parts: &[MemoryPart]| -> Vec<Value> {
            parts.iter().map(|part| json!({"what": part.what.to_string(), "bytes": part.bytes})).collect()
        };
        let plan = &way.plan;
        let bytes = way.plan.total();
        json!({
            "recompute": way.recompute(), "moments": way.moments().name(), "parts": parts(&plan.parts), "bytes": bytes,
            "fits": bytes <= available, "resident_bytes": plan.resident(), "host_parts": parts(&plan.host),
            "host_bytes": plan.host_total(),
        })
    });
    json!({"available": available, "plans": plans.collect::<Vec<Value>>()})
}

/// A column of GiB for each way.
struct MemoryTable<'a> {
    ways: &'a [Way],
    available: u64,
}

impl fmt::Display for MemoryTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, place) in [MomentsLocation::Device, MomentsLocation::Host].into_iter().enumerate() {
            let ways: Vec<&Way> = self.ways.iter().filter(|way| way.moments() == place).collect();
            if number > 0 && !ways.is_empty() && ways.len() < self.ways.len() {
                writeln!(f)?;
            }
            self.write_block(f, &ways)?;
        }
        Ok(())
    }
}

impl MemoryTable<'_> {
    /// Ways with the same parts.
    fn write_block(&self, f: &mut fmt::Formatter<'_>, ways: &[&Way]) -> fmt::Result {
        let Some(first) = ways.first() else { return Ok(()) };
        let title = format!("GiB with optimizer.moments = {}; recompute =", first.moments().name());
        write_row(f, &title, ways.iter().map(|way| way.recompute()))?;
        for (index, part) in first.plan.parts.iter().enumerate() {
            write_row(f, &part.what.to_string(), ways.iter().map(|way| gib(way.plan.parts[index].bytes)))?;
        }
        write_row(f, "in all", ways.iter().map(|way| gib(way.plan.total())))?;
        let fits = |way: &&Way| if way.plan.total() <= self.available { "fits" } else { "too much" };
        write_row(f, &format!("of {} on the device", gib(self.available)), ways.iter().map(fits))?;
        write_row(f, "stays between steps, with an engine awake", ways.iter().map(|way| gib(way.plan.resident())))?;
        for (index, part) in first.plan.host.iter().enumerate() {
            let name = format!("in the host's memory: {}", part.what);
            write_row(f, &name, ways.iter().map(|way| gib(way.plan.host[index].bytes)))?;
        }
        Ok(())
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, name: &str, entries: impl Iterator<Item = impl fmt::Display>) -> fmt::Result {
    write!(f, "{name:<52}")?;
    entries.into_iter().try_for_each(|entry| write!(f, "{entry:>11}"))?;
    writeln!(f)
}

fn gib(bytes: u64) -> String {
    Size(bytes).in_gib()
}

impl GpuPlanOptions {
    /// The settings that are asked for, as far as memory depends on them.
    fn ways(&self) -> impl Iterator<Item = TrainingSettings> {
        let places = self.moments.map_or_else(|| MomentsLocation::ALL.to_vec(), |chosen| vec![chosen]);
        let recompute = self.recompute.map_or_else(|| Recompute::ALL.to_vec(), |chosen| vec![chosen]);
        let ways: Vec<_> =
            places.into_iter().flat_map(|place| recompute.iter().map(move |&what| (what, place))).collect();
        ways.into_iter().map(|(what, place)| self.settings(what, place))
    }

    fn settings(&self, recompute: Recompute, moments: MomentsLocation) -> TrainingSettings {
        let compute = Compute {
            device: "cuda".into(),
            dtype: if self.f32 { ComputeType::F32 } else { ComputeType::Bf16 },
            micro_batch_tokens: self.micro_batch_tokens,
            gradient_blocks: self.gradient_blocks,
            recompute,
            ..Compute::default()
        };
        let mut settings = TrainingSettings {
            epochs: if self.several_updates { 2 } else { 1 },
            compute,
            ..TrainingSettings::default()
        };
        settings.optimizer.moments = moments;
        settings.objective.kl_coefficient = if self.reference { 1.0 } else { 0.0 };
        settings
    }
}
