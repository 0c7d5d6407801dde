//! What a training step gives a GPU, counted through the learner's own host code on a device that computes nothing:
//! launches, bytes and operations, and the memory that is allocated at a time. Computed, not measured.

use std::path::Path;

use anyhow::{Context, Result};
use candle_core::{DType, Device, Tensor};
use evenkeel_learner::MomentsLocation;
use evenkeel_model::kernels::cuda::{Counter, Cuda, DeviceCounts, DeviceProperties, Tally};
use evenkeel_model::kernels::{AdamW, AttentionOptions, Clip, OptimizerKernels, UpdateArrays};
use evenkeel_model::{NetworkOptions, Parameters, count_pass, count_update_from_host, parameter_specs};
use serde_json::{Value, json};

use crate::shapes::{Case, PEAK, cases};

/// An H200: multiprocessors, bytes a second.
const CHIP: DeviceProperties = DeviceProperties { multiprocessors: 132 };
const BANDWIDTH: f64 = 4.8e12;

/// The recipes' micro-batches, with attention by cuDNN and in blocks.
fn counted() -> impl Iterator<Item = Case> {
    let blocks = AttentionOptions { library: false, ..AttentionOptions::default() };
    cases().into_iter().chain(cases().map(|case| Case { attention: blocks, ..case }))
}

pub(crate) fn print(out: &Path) -> Result<()> {
    println!("computed, not measured: counted through the host's code on a device that computes nothing");
    println!("ms: the larger of bytes / {:.1} TB/s and operations / {:.0} TFLOP/s", BANDWIDTH / 1e12, PEAK / 1e12);
    let tables = counted().map(|case| case.table()).collect::<Result<Vec<Value>>>()?;
    let path = out.join("count.json");
    std::fs::write(&path, serde_json::to_vec_pretty(&tables)?).with_context(|| path.display().to_string())
}

impl Case {
    fn table(&self) -> Result<Value> {
        let pass = self.pass()?;
        let update = self.update()?;
        let tokens = self.tokens();
        let formula = self.flops();
        let how = self.recomputed();
        let path = if self.attention.library { "by cuDNN" } else { "in blocks" };
        println!(
            "\n{}: a micro-batch of {} x {} tokens, bf16, {how} recomputed, attention {path}",
            self.name, self.sequences, self.length
        );
        println!("{:<42} {:>9} {:>10} {:>10} {:>9}", "", "launches", "GB", "TFLOP", "ms");
        let mut rows: Vec<(&String, &Tally)> = pass.kernels.iter().collect();
        rows.sort_by(|a, b| least_ms(b.1).total_cmp(&least_ms(a.1)));
        rows.iter().for_each(|(name, tally)| line(name, tally));
        let total = pass.total();
        let least: f64 = pass.kernels.values().map(least_ms).sum();
        println!(
            "{:<42} {:>9} {:>10.1} {:>10.1} {:>9.1}",
            "all",
            total.launches,
            gb(total.bytes),
            tera(total.flops),
            least
        );
        let share = formula / (least / 1e3) / PEAK;
        let terms = formula / 1e12;
        let most = 100.0 * share;
        let aim = 100.0 * self.aim;
        println!("{terms:.1} TFLOP by the formula: at most {most:.1} % of the peak, the aim is {aim:.0} %");
        println!(
            "copies to the device {} ({:.1} MB), to the host {} ({:.1} MB)",
            pass.uploads.launches,
            pass.uploads.bytes as f64 / 1e6,
            pass.downloads.launches,
            pass.downloads.bytes as f64 / 1e6
        );
        println!("activations, gradients and workspace at a time: {:.1} GiB", pass.peak as f64 / f64::from(1 << 30));
        line("an update: norm and AdamW", &update.total());
        if update.streamed.bytes > 0 {
            println!("moments through the device, in both directions together: {:.1} GB", gb(update.streamed.bytes));
        }
        let kernels: Vec<Value> = rows.iter().map(|(name, tally)| object(name, tally)).collect();
        Ok(json!({
            "computed": true, "model": self.name, "sequences": self.sequences, "length": self.length, "tokens": tokens,
            "recompute": how, "moments": self.moments.name(), "aim": self.aim, "attention": path, "kernels": kernels, "all": object("all", &total),
            "least_ms": least,
            "formula_flops": formula, "peak_bytes": pass.peak, "uploads": pass.uploads.launches,
            "downloads": pass.downloads.launches, "update": object("update", &update.total()),
            "moments_streamed_bytes": update.streamed.bytes,
        }))
    }

    fn pass(&self) -> Result<DeviceCounts> {
        let options =
            NetworkOptions { recompute: self.recompute, attention: self.attention, ..NetworkOptions::default() };
        let lengths = vec![self.length; self.sequences];
        Ok(count_pass(&self.config, Parameters::described(&self.config)?, &lengths, DType::BF16, options, CHIP)?)
    }

    fn update(&self) -> Result<DeviceCounts> {
        let cuda = Cuda::new(Counter::new(CHIP), DType::F32)?;
        let zero = Tensor::zeros((), DType::F32, &Device::Cpu)?;
        let specs = parameter_specs(&self.config).0.into_iter();
        let arrays = specs.map(|spec| zero.broadcast_as(spec.shape)).collect::<candle_core::Result<Vec<_>>>()?;
        let numbers = AdamW { betas: [0.9, 0.95], step: 1e-6, second_root: 1.0, epsilon: 1e-8, shrink: 1.0 };
        let all = UpdateArrays { weights: &arrays, first: &arrays, second: &arrays, gradients: &arrays };
        if self.moments == MomentsLocation::Device {
            cuda.update(all, Clip { scale: 1.0, limit: 1.0 }, &vec![numbers; arrays.len()])?;
        }
        let mut counts = cuda.device().take();
        if self.moments == MomentsLocation::Host {
            let from_host = count_update_from_host(&Parameters::described(&self.config)?, CHIP)?;
            counts.streamed = from_host.streamed;
            counts.kernels.extend(from_host.kernels);
        }
        Ok(counts)
    }
}

fn least_ms(tally: &Tally) -> f64 {
    1e3 * (tally.bytes as f64 / BANDWIDTH).max(tally.flops as f64 / PEAK)
}

fn gb(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

fn tera(flops: u64) -> f64 {
    flops as f64 / 1e12
}

fn line(name: &str, tally: &Tally) {
    let bytes = gb(tally.bytes);
    let flops = tera(tally.flops);
    println!("{name:<42} {:>9} {bytes:>10.1} {flops:>10.1} {:>9.1}", tally.launches, least_ms(tally));
}

fn object(name: &str, tally: &Tally) -> Value {
    json!({"name": name, "launches": tally.launches, "bytes": tally.bytes, "flops": tally.flops, "least_ms": least_ms(tally)})
}

#[cfg(test)]
mod tests {
    use evenkeel_model::Config;

    use super::*;

    #[test]
    fn the_products_of_a_pass_are_those_of_the_formula_and_the_scores_that_are_computed_again() {
        let case = counted().nth(cases().len()).unwrap();
        let config = Config { num_layers: 2, ..case.config.clone() };
        let case = Case { config, length: 1024, ..case };
        let counts = case.pass().unwrap();
        // Seven products of scores instead of six, over whole blocks on the diagonal: (n + 1) / n of n blocks of 512.
        // And the logits twice.
        let layers = 2.0 * 6.0 * 8.0 * 1024.0 * 1024.0 * 2048.0;
        let scores = layers * (7.0 / 6.0 * 1.5 - 1.0);
        let logits = 2.0 * (8.0 * 1024.0) * 2048.0 * 151_936.0;
        let wanted = case.flops() + scores + logits;
        assert!((counts.total().flops as f64 / wanted - 1.0).abs() < 1e-6, "{} for {wanted}", counts.total().flops);
    }

    #[test]
    fn attention_by_cudnn_takes_the_work_of_the_formula_and_scores_that_are_computed_again() {
        let case = counted().next().unwrap();
        let config = Config { num_layers: 2, ..case.config.clone() };
        let case = Case { config, length: 1024, ..case };
        let counts = case.pass().unwrap();
        let of_attention = counts.kernels.iter().filter(|(name, _)| name.contains("cuDNN"));
        let flops: u64 = of_attention.map(|(_, tally)| tally.flops).sum();
        // Seven products instead of six, over the half of the pairs that is not masked, with the diagonal.
        let formula = 2.0 * 6.0 * 8.0 * 1024.0 * 1024.0 * 2048.0;
        let wanted = formula * 7.0 / 6.0 * 1025.0 / 1024.0;
        assert!((flops as f64 / wanted - 1.0).abs() < 1e-6, "{flops} for {wanted}");
    }
}
