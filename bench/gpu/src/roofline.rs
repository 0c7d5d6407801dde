//! How long each kernel takes in a pass, beside the least that its bytes and operations take on the device.

use std::collections::BTreeMap;

use anyhow::Result;
use candle_core::{DType, Device};
use evenkeel_cuda::Probe;
use evenkeel_model::kernels::cuda::{DeviceProperties, Tally};
use evenkeel_model::{NetworkOptions, Parameters, count_pass};
use serde_json::{Value, json};

use crate::report::ReportPart;
use crate::shapes::{Case, PEAK, cases};

/// Bytes a second of the memory of known cards, by a word of their names.
const BANDWIDTHS: [(&str, f64); 4] = [("H200", 4.8e12), ("H100", 3.35e12), ("B200", 8.0e12), ("A100", 2.0e12)];

/// Launches and seconds of a kernel.
#[derive(Clone, Copy)]
struct Measured {
    launches: u64,
    seconds: f64,
}

/// A pass of the first case, kernel by kernel. Without a GPU only what would be launched is recorded.
pub(crate) fn measure(part: &mut ReportPart<'_>, device: &Device) -> Result<()> {
    let [case, ..] = cases();
    let case = case.on(device)?;
    let options = NetworkOptions { threads: 1, recompute: case.recompute, ..NetworkOptions::default() };
    let name = Probe::of_this_machine().devices.into_iter().next().filter(|_| device.is_cuda());
    let multiprocessors = name.as_ref().map_or(132, |device| device.multi_processor_count as u32);
    let bandwidth = name.and_then(|device| bandwidth(&device.device_name));
    let lengths = vec![case.length; case.sequences];
    let described = Parameters::described(&case.config)?;
    let properties = DeviceProperties { multiprocessors };
    let counts = count_pass(&case.config, described, &lengths, DType::BF16, options, properties)?;
    let times = times(&case, options, device)?;
    for (kernel, tally) in &counts.kernels {
        part.fact(line(kernel, tally, times.get(kernel).copied(), bandwidth));
    }
    // What runs and was not foreseen.
    let unforeseen: Vec<&String> = times.keys().filter(|kernel| !counts.kernels.contains_key(*kernel)).collect();
    if device.is_cuda() {
        part.check("kernels that ran and were not counted", unforeseen.len() as f64, 0.0);
        let seconds: f64 = times.values().map(|time| time.seconds).sum();
        part.fact(json!({"what": "all kernels", "model": case.name, "seconds": seconds, "not_counted": unforeseen}));
    }
    Ok(())
}

fn bandwidth(device: &str) -> Option<f64> {
    BANDWIDTHS.into_iter().find(|(word, _)| device.contains(word)).map(|(_, bytes)| bytes)
}

/// A kernel: the least seconds by its bytes and operations, the measured ones, and which part of these is that least.
fn line(kernel: &str, tally: &Tally, measured: Option<Measured>, bandwidth: Option<f64>) -> Value {
    let by_bytes = bandwidth.map(|bandwidth| tally.bytes as f64 / bandwidth);
    let by_operations = tally.flops as f64 / PEAK;
    let least = by_bytes.map(|by_bytes| by_bytes.max(by_operations));
    let bound = by_bytes.map(|by_bytes| if by_bytes > by_operations { "memory" } else { "operations" });
    let seconds = measured.map(|measured| measured.seconds);
    json!({
        "what": "kernel", "kernel": kernel, "launches": tally.launches, "measured_launches": measured.map(|time| time.launches),
        "bytes": tally.bytes, "flops": tally.flops, "seconds": seconds, "least_seconds": least, "bound_by": bound,
        "share_of_the_roof": least.zip(seconds).map(|(least, seconds)| least / seconds),
        "gb_per_s": seconds.map(|seconds| tally.bytes as f64 / seconds / 1e9),
        "tflops": seconds.map(|seconds| tally.flops as f64 / seconds / 1e12),
    })
}

#[cfg(feature = "cuda")]
fn times(case: &Case, options: NetworkOptions, device: &Device) -> Result<BTreeMap<String, Measured>> {
    use evenkeel_model::kernels::cuda::{CandleDevice, Cuda};
    use evenkeel_model::{Network, TrainableModel};

    let Device::Cuda(gpu) = device else { return Ok(BTreeMap::new()) };
    let kernels = Cuda::new(CandleDevice::new(gpu)?, DType::BF16)?.with_attention(options.attention);
    let parameters = crate::shapes::random(&case.config, device)?;
    let mut network = Network::new(case.config.clone(), parameters, kernels, options)?;
    let batches = [case.batch()?];
    // Plans are built and memory is allocated in the first.
    network.accumulate(&batches, 1.0, &crate::model::Even)?;
    network.kernels().device().measure_times();
    network.accumulate(&batches, 1.0, &crate::model::Even)?;
    let times = network.kernels().device().take_times()?;
    let measured = |(name, time): (String, evenkeel_model::kernels::cuda::KernelTime)| {
        (name, Measured { launches: time.launches, seconds: time.seconds })
    };
    Ok(times.into_iter().map(measured).collect())
}

#[cfg(not(feature = "cuda"))]
fn times(_: &Case, _: NetworkOptions, _: &Device) -> Result<BTreeMap<String, Measured>> {
    Ok(BTreeMap::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_held_against_the_slower_of_memory_and_operations() {
        let copies = Tally { launches: 2, bytes: 4_800_000_000, flops: 0 };
        let fact = line("cast", &copies, Some(Measured { launches: 2, seconds: 2e-3 }), bandwidth("NVIDIA H200"));
        assert_eq!((&fact["bound_by"], &fact["share_of_the_roof"]), (&json!("memory"), &json!(0.5)));
        let product = Tally { launches: 1, bytes: 1, flops: 989_000_000_000 };
        let fact =
            line("product", &product, Some(Measured { launches: 1, seconds: 4e-3 }), bandwidth("NVIDIA H100 PCIe"));
        assert_eq!((&fact["bound_by"], &fact["share_of_the_roof"]), (&json!("operations"), &json!(0.25)));
        assert_eq!(fact["tflops"], 247.25);
    }

    #[test]
    fn of_a_card_that_is_not_known_the_roof_is_not_guessed_and_without_a_card_there_is_no_time() {
        let tally = Tally { launches: 1, bytes: 10, flops: 10 };
        let fact = line("x", &tally, Some(Measured { launches: 1, seconds: 1.0 }), bandwidth("NVIDIA L4"));
        assert!(fact["share_of_the_roof"].is_null() && fact["seconds"] == 1.0, "{fact}");
        let fact = line("x", &tally, None, Some(1.0));
        assert!(fact["seconds"].is_null() && fact["share_of_the_roof"].is_null(), "{fact}");
    }

    #[test]
    fn without_a_gpu_what_would_be_launched_is_recorded() {
        let mut part = ReportPart::new(std::path::Path::new("."), "roofline");
        measure(&mut part, &Device::Cpu).unwrap();
        let (last, checks) = part.into_results();
        assert!(last["launches"].as_u64().unwrap() > 0 && last["seconds"].is_null(), "{last}");
        assert!(checks.is_empty());
    }
}
