//! Log-probabilities and gradients of models of real width against PyTorch's.
//!
//! PyTorch draws the weights, in fp32 of values that bf16 holds exactly, and writes them with what it computes in fp32.
//! So no weight is rounded on the way, and what differs is arithmetic. In bf16 the error of the whole gradient must be
//! small, and no larger than PyTorch's own.

use std::path::Path;

use anyhow::{Context, Result};
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device};
use evenkeel_model::folder::load_parameters;
use evenkeel_model::{BoxError, Coefficients, Config, Packed, Scores, TokenLoss};
use serde::Deserialize;
use serde_json::json;

use super::Torch;
use crate::goldens::{host, largest};
use crate::path::KernelPath;
use crate::report::ReportPart;
use crate::shapes::{self, Case, qwen2_7b, qwen3_1_7b};

/// Largest errors of the gradient of all parameters, relative.
const F32: f64 = 1e-4;
/// Rounding alone costs several percent: PyTorch's own bf16 is 0.023 off on a CPU in four layers of Qwen3-1.7B. A part
/// that is left out or counted twice is tens of percent.
const BF16: f64 = 0.06;
/// What own kernels may be off in terms of PyTorch's own error. Both round as often, in other places, so that their
/// errors differ by chance.
const OWN: f64 = 1.15;
/// What candle's own operations may be off, in terms of PyTorch's own error: products give them bf16, so that scores
/// are rounded before the softmax, which PyTorch's attention keeps in fp32; one rounding more among some fifteen of a
/// layer. The small models of a CPU are 0.95 and 1.09 of PyTorch 2.13's error off, and the rest is room for processors
/// on which PyTorch computes bf16 in another way.
const PORTABLE: f64 = 1.25;
/// Largest error of a log-probability in fp32, nats.
const LOGP: f64 = 1e-3;

/// What PyTorch's own bf16 differs by from its fp32.
#[derive(Deserialize)]
struct Own {
    bf16_gradient_error: f64,
    bf16_largest_gap: f64,
    bf16_mean_gap: f64,
}

fn cases() -> [Case; 2] {
    let four_layers = Config { num_layers: 4, ..qwen2_7b() };
    let [of_recipe, ..] = shapes::cases();
    [("Qwen3-1.7B", qwen3_1_7b()), ("four layers of Qwen2.5-Math-7B", four_layers)].map(|(name, config)| Case {
        name,
        config,
        sequences: 2,
        length: 1024,
        ..of_recipe.clone()
    })
}

pub(crate) fn compare(part: &mut ReportPart<'_>, device: &Device) -> Result<()> {
    let Some(torch) = Torch::find(part, device) else { return Ok(()) };
    for case in cases() {
        part.attempt(case.title(), |part| {
            let folder = part.scratch()?;
            one(part, &torch, &case.on(device)?, folder.path(), device)
        });
    }
    Ok(())
}

fn one(part: &mut ReportPart<'_>, torch: &Torch, case: &Case, folder: &Path, device: &Device) -> Result<()> {
    let weights = weights(case);
    let batch = json!({"ids": case.ids(), "weights": weights.chunks(case.length).collect::<Vec<_>>()});
    for (name, content) in [("config.json", case.config.to_json()?), ("batch.json", batch)] {
        std::fs::write(folder.join(name), serde_json::to_vec(&content)?)?;
    }
    let own: Own = torch.call("gradients", &[folder.as_os_str()])?;
    // SAFETY: this program's own file, which nobody changes until it is removed.
    let golden = unsafe { MmapedSafetensors::new(folder.join("golden.safetensors"))? };
    let logp = host(&golden.load("logp", &Device::Cpu)?)?;

    let path = *KernelPath::on(device).first().context("every device has kernels")?;
    for dtype in [DType::F32, DType::BF16] {
        let name = |what: &str| format!("{} {} {}: {what}", case.name, dtype.as_str(), path.name());
        let parameters = load_parameters(folder, &case.config, device)?;
        let mut network = path.network(case.config.clone(), parameters, dtype)?;
        let batches = [case.batch()?];
        let scores = network.score(&batches, 1.0)?;
        network.accumulate(&batches, 1.0, &Weighted(&weights))?;
        let gradients = network.take_gradients()?;
        let mut error = 0.0;
        let mut size = 0.0;
        for (spec, gradient) in network.parameters().specs().iter().zip(gradients) {
            let wanted = host(&golden.load(&format!("grad.{}", spec.name), &Device::Cpu)?)?;
            for (found, wanted) in host(&gradient)?.into_iter().zip(wanted) {
                error += f64::from(found - wanted).powi(2);
                size += f64::from(wanted).powi(2);
            }
        }
        let error = (error / size).sqrt();
        let gap = largest(&scores[0].logp, &logp);
        if dtype == DType::F32 {
            part.check(name("log-probabilities"), gap, LOGP);
            part.check(name("all gradients"), error, F32);
        } else {
            check_bf16(part, &name("all gradients"), error, own.bf16_gradient_error, path);
            part.fact(json!({
                "model": case.name, "gradient_error": error, "torch_gradient_error": own.bf16_gradient_error, "largest_gap": gap,
                "torch_largest_gap": own.bf16_largest_gap, "torch_mean_gap": own.bf16_mean_gap,
            }));
        }
    }
    Ok(())
}

/// Holds what bf16 costs against a limit, and against what it costs PyTorch.
fn check_bf16(part: &mut ReportPart<'_>, name: &str, error: f64, of_torch: f64, path: KernelPath) {
    part.check(name, error, BF16);
    let most = if path == KernelPath::Portable { PORTABLE } else { OWN };
    part.check(format!("{name}, by PyTorch's own error"), error / of_torch, most);
}

/// As advantages have them: sequences of either sign.
fn weights(case: &Case) -> Vec<f32> {
    let each = 1.0 / case.tokens() as f32;
    (0..case.tokens()).map(|at| if (at / case.length).is_multiple_of(2) { each } else { -each }).collect()
}

struct Weighted<'a>(&'a [f32]);

impl TokenLoss for Weighted<'_> {
    fn coefficients(&self, _: usize, _: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        Ok(Coefficients { logp: self.0.to_vec(), entropy: vec![0.0; scores.logp.len()] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an error beside PyTorch's is below the limit, and whether it is no more than PyTorch's.
    fn verdicts(error: f64, of_torch: f64) -> Vec<bool> {
        let mut part = ReportPart::new(Path::new("."), "torch");
        check_bf16(&mut part, "all gradients", error, of_torch, KernelPath::Portable);
        part.into_results().1
    }

    #[test]
    fn what_bf16_costs_without_a_defect_passes_and_what_a_defect_costs_does_not() {
        // What candle's operations and PyTorch were seen to be off on a CPU: 0.95 and 1.09 times as much.
        for ratio in [0.95, 1.09] {
            assert_eq!(verdicts(0.023 * ratio, 0.023), [true, true]);
        }
        // A key head that is left out, a gradient that is counted twice.
        for defect in [0.125, 1.0] {
            assert_eq!(verdicts(defect, 0.023), [false, false]);
        }
        // PyTorch that is off itself excuses nothing.
        assert_eq!(verdicts(0.2, 0.2), [false, true]);
        assert_eq!(verdicts(f64::NAN, 0.023), [false, false]);
    }
}
