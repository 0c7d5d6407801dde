//! `evenkeel-bench-gpu correct|memcheck|speed|variants OUT GOLDENS [cuda|cpu] [--only PART]`: what `correct.sh`,
//! `memcheck.sh` and `speed.sh` run, and changes to a pass beside the pass as it is, each a part by its name. Results
//! are files in the folder OUT; README.md says what they hold. With `cpu` the tensor operations run on the CPU, which
//! shows that the checks themselves work. Two commands need no GPU:
//! `evenkeel-bench-gpu count OUT` counts what one would be given, `publish OUT` publishes weights of full size out of
//! the host's memory.
//!
//! Exit status: 0 if every check passed, 1 if one failed, 77 if there is no usable GPU and nothing was run.
#![allow(clippy::print_stdout, reason = "a command whose output is its result")]

mod count;
mod curve;
mod goldens;
#[cfg(feature = "cuda")]
mod kernels;
mod layer;
mod memory;
mod model;
mod path;
mod publish;
mod report;
mod resume;
mod roofline;
mod sampling;
mod shapes;
mod torch;
mod variants;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use candle_core::Device;
use evenkeel_cuda::Probe;
use evenkeel_model::cuda_device;
use evenkeel_model::kernels::Variants;
use report::Report;

/// Test harnesses take it as "skipped".
const NO_GPU: u8 = 77;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let only = match words.as_slice() {
        [.., "--only", part] => Some(*part),
        _ => None,
    };
    words.truncate(words.len() - 2 * usize::from(only.is_some()));
    if let [what @ ("count" | "publish"), out] = words.as_slice() {
        let out = Path::new(out);
        std::fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
        if *what == "count" {
            return count::print(out).map(|()| ExitCode::SUCCESS);
        }
        let mut report = Report::new(out, what, "cpu");
        report.part("publish", publish::from_host);
        return Ok(if report.finish()? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let (what, out, goldens, name) = match words.as_slice() {
        [what @ ("correct" | "memcheck" | "speed" | "variants"), out, goldens] => (*what, *out, *goldens, "cuda"),
        [what @ ("correct" | "memcheck" | "speed" | "variants"), out, goldens, name @ ("cuda" | "cpu")] => {
            (*what, *out, *goldens, *name)
        }
        _ => bail!(
            "usage: evenkeel-bench-gpu correct|memcheck|speed|variants OUT GOLDENS [cuda|cpu] [--only PART], or \
            count|publish OUT"
        ),
    };
    let out = Path::new(out);
    let goldens = Path::new(goldens);
    std::fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;

    let probe = Probe::of_this_machine();
    println!("{probe}");
    std::fs::write(out.join("probe.json"), serde_json::to_vec_pretty(&probe)?)?;
    for device in &probe.devices {
        let name = format!("device-{}.json", device.cuda_device_id);
        std::fs::write(out.join(name), serde_json::to_vec_pretty(device)?)?;
    }
    let device = match name {
        "cpu" => Device::Cpu,
        _ if !cfg!(feature = "cuda") => {
            println!("this program was built without CUDA: nothing was run");
            return Ok(ExitCode::from(NO_GPU));
        }
        _ if !probe.usable => {
            println!("nothing was run");
            return Ok(ExitCode::from(NO_GPU));
        }
        _ => cuda_device(0)?,
    };

    let mut report = Report::new(out, what, name).only(only);
    match what {
        "correct" => {
            #[cfg(feature = "cuda")]
            if device.is_cuda() {
                report.part("kernels", |part| kernels::check(part, &device));
            }
            report.part("goldens", |part| goldens::all(part, goldens, &device));
            report.part("torch", |part| torch::compare(part, &device));
            report.part("curve", |part| curve::compare(part, name));
            report.part("resume", |part| resume::compare(part, name));
            report.part("layer", |part| layer::measure(part, &device, layer::Effort::Once));
        }
        "memcheck" => {
            #[cfg(feature = "cuda")]
            if device.is_cuda() {
                report.part("kernels", |part| kernels::check(part, &device));
            }
            report.part("goldens", |part| goldens::forward_only(part, goldens, &device));
        }
        "variants" => {
            for (name, variants) in Variants::NAMED {
                report.part(name, |part| variants::compare(part, &device, name, variants));
            }
        }
        _ => {
            // First: what this program has freed stays in its pool.
            let mut peer = torch::Peer::of_earlier_run(out);
            report.part("torch", |part| {
                peer = torch::measure(part, &device)?;
                Ok(())
            });
            report.part("model", |part| model::passes(part, &device, &peer));
            report.part("memory", |part| memory::compare(part, &device));
            report.part("publish", |part| publish::from_device(part, &device));
            report.part("layer", |part| layer::measure(part, &device, layer::Effort::Table));
            report.part("roofline", |part| roofline::measure(part, &device));
        }
    }
    Ok(if report.finish()? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
