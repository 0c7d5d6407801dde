//! Device, compute type, threads and memory.

use candle_core::{DType, Device};
use evenkeel_config::resolved_threads;
use evenkeel_model::{NetworkOptions, Recompute, cuda_device};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attention::AttentionPath;

/// The type of activations and matrix products. Weights, gradients and moments are always fp32: at the learning rates of
/// reinforcement learning a bf16 weight does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ComputeType {
    /// fp32.
    #[default]
    F32,
    /// bfloat16.
    Bf16,
}

impl ComputeType {
    /// Its name in the status of a learner.
    pub const fn wire_name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::Bf16 => "BF16",
        }
    }
}

impl From<ComputeType> for DType {
    fn from(compute: ComputeType) -> Self {
        match compute {
            ComputeType::F32 => Self::F32,
            ComputeType::Bf16 => Self::BF16,
        }
    }
}

/// Device, compute type, threads and memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compute {
    /// `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// The compute type.
    pub dtype: ComputeType,
    /// Threads on a CPU, each with its own micro-batches; 0 uses all that are available to the process. Results are
    /// bit-identical only for the same number.
    pub threads: usize,
    /// Tokens in a micro-batch, prompts included; 0 chooses for the device. A sequence is never split: a longer one is its
    /// own micro-batch.
    pub micro_batch_tokens: usize,
    /// What the backward pass recomputes instead of keeping it, with the same bits: `none`, `selective` (norms and the gated activation) or
    /// `full` (everything of a layer but its input).
    pub recompute: Recompute,
    /// Tokens whose logits over the vocabulary are in memory at once, at least 1.
    pub head_chunk_rows: usize,
    /// How a GPU computes attention.
    pub attention: AttentionPath,
    /// Whether a GPU gives the same bits each time. It concerns the backward pass of attention by cuDNN, which then takes more time and memory;
    /// everything else has one order of its sums in any case.
    pub deterministic: bool,
}

impl Default for Compute {
    fn default() -> Self {
        Self {
            device: "cpu".into(),
            dtype: ComputeType::F32,
            threads: 0,
            micro_batch_tokens: 0,
            recompute: Recompute::None,
            head_chunk_rows: 1024,
            attention: AttentionPath::Auto,
            deterministic: false,
        }
    }
}

impl Compute {
    /// Checks every range.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<(), FieldError> {
        if self.head_chunk_rows == 0 {
            return Err(FieldError::new("compute.head_chunk_rows", 0, "1 or more"));
        }
        self.ordinal().map(drop)
    }

    /// The number of the GPU, or `None` for the CPU.
    fn ordinal(&self) -> Result<Option<usize>, FieldError> {
        let wrong = || FieldError::new("compute.device", &self.device, "cpu, cuda or cuda:N");
        match self.device.split_once(':') {
            None if self.device == "cpu" => Ok(None),
            None if self.device == "cuda" => Ok(Some(0)),
            Some(("cuda", number)) => number.parse().map(Some).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }

    /// Opens the device.
    ///
    /// # Errors
    /// A build without CUDA, or a missing device.
    pub fn open(&self) -> Result<Device, FieldError> {
        match self.ordinal()? {
            None => Ok(Device::Cpu),
            Some(_) if !cfg!(feature = "cuda") => {
                let allowed = "cpu in this build; cuda in a build with --features cuda (docs/gpu.md)";
                Err(FieldError::new("compute.device", &self.device, allowed))
            }
            Some(number) => cuda_device(number).map_err(|error| {
                FieldError::new("compute.device", &self.device, format!("an available device ({error})"))
            }),
        }
    }

    /// The resolved number of threads: one on a GPU, which is fed by a single stream.
    pub fn resolved_threads(&self) -> usize {
        if !self.is_cpu() {
            return 1;
        }
        resolved_threads(self.threads)
    }

    /// The resolved number of tokens of a micro-batch: on a CPU few enough for a thread's activations to stay near its
    /// cache, on a GPU enough to fill it.
    pub fn resolved_micro_batch_tokens(&self) -> usize {
        match self.micro_batch_tokens {
            0 if self.is_cpu() => 256,
            0 => 16_384,
            tokens => tokens,
        }
    }

    /// Tokens that justify a pass before all groups of a step have arrived: on a CPU enough to occupy every thread for a
    /// while, on a GPU one full micro-batch.
    pub fn tokens_worth_a_pass(&self) -> usize {
        let micro_batches = if self.is_cpu() { 4 * self.resolved_threads() } else { 1 };
        micro_batches * self.resolved_micro_batch_tokens()
    }

    fn is_cpu(&self) -> bool {
        self.device == "cpu"
    }

    /// The model's part of these settings.
    pub fn network_options(&self) -> NetworkOptions {
        NetworkOptions {
            threads: self.resolved_threads(),
            recompute: self.recompute,
            head_chunk_rows: self.head_chunk_rows,
            attention: self.attention.options(self.deterministic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_and_others_refused() {
        for (device, ordinal) in [("cpu", None), ("cuda", Some(0)), ("cuda:3", Some(3))] {
            let compute = Compute { device: device.into(), ..Compute::default() };
            assert_eq!(compute.ordinal().unwrap(), ordinal);
        }
        for device in ["", "gpu", "cuda:", "cuda:x", "metal:0"] {
            let compute = Compute { device: device.into(), ..Compute::default() };
            let error = compute.validate().unwrap_err().to_string();
            assert!(error.starts_with("compute.device is") && error.contains("cuda:N"), "{error}");
        }
    }

    #[test]
    fn on_a_gpu_a_pass_begins_with_the_first_full_micro_batch_whatever_the_host_has_of_threads() {
        let gpu = Compute { device: "cuda".into(), threads: 64, micro_batch_tokens: 1000, ..Compute::default() };
        assert_eq!((gpu.resolved_threads(), gpu.tokens_worth_a_pass()), (1, 1000));
        let cpu = Compute { device: "cpu".into(), ..gpu };
        assert_eq!((cpu.resolved_threads(), cpu.tokens_worth_a_pass()), (64, 256_000));
    }

    #[test]
    fn attention_follows_its_settings() {
        let of = |attention, deterministic| {
            let options = Compute { attention, deterministic, ..Compute::default() }.network_options().attention;
            (options.library, options.deterministic)
        };
        assert_eq!(of(AttentionPath::Auto, false), (true, false));
        assert_eq!(of(AttentionPath::Auto, true), (true, true));
        assert_eq!(of(AttentionPath::Blocks, true), (false, true));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_gpu_is_refused_by_a_build_without_one() {
        let error = Compute { device: "cuda".into(), ..Compute::default() }.open().unwrap_err().to_string();
        assert!(error.contains("--features cuda"), "{error}");
    }
}
