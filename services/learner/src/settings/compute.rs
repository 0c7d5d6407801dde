//! Device, compute type, threads and memory.

use candle_core::{DType, Device};
use evenkeel_config::resolved_threads;
use evenkeel_model::kernels::Variants;
use evenkeel_model::{BlockShare, NetworkOptions, Recompute, cuda_device, fewest_gradients, most_gradients};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attention::AttentionPath;
use super::packing::GradientPacking;

/// The type of activations and matrix products. Weights, gradients and moments are always fp32: at the learning rates
/// of reinforcement learning a bf16 weight does not change.
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
    /// The name in the status of a learner.
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

/// Tokens of a micro-batch on a CPU: few enough for a thread's activations to stay near its cache.
const CPU_TOKENS: usize = 256;

/// Device, compute type, threads and memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compute {
    /// `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// The compute type.
    pub dtype: ComputeType,
    /// Threads on a CPU, each with its own micro-batches; 0 uses all that are available to the process. Any number of
    /// them gives the same bits.
    pub threads: usize,
    /// Blocks in which the gradient of an update is summed before they are combined, in an order that only this number
    /// decides: a power of two, at most 1024. A block is a number of whole groups. In memory are as many gradients as
    /// the logarithm of this number, and one more; on a CPU one more for each further thread, if there is room.
    pub gradient_blocks: usize,
    /// Tokens in a micro-batch, prompts included; 0 chooses for the device. A sequence is never split: a longer one is
    /// its own micro-batch. On a CPU this decides how sequences are scored and after how many tokens passes begin;
    /// gradients are summed in micro-batches of 256 tokens after a prompt, so that it decides no bit.
    pub micro_batch_tokens: usize,
    /// What the backward pass recomputes instead of keeping it, with the same bits: `none`, `selective` (norms and the
    /// gated activation) or `full` (everything of a layer but its input).
    pub recompute: Recompute,
    /// Tokens whose logits over the vocabulary are in memory at once, at least 1.
    pub head_chunk_rows: usize,
    /// How a GPU computes attention.
    pub attention: AttentionPath,
    /// Whether a GPU gives the same bits each time. It concerns the backward pass of attention by cuDNN, which then
    /// takes more time and memory; everything else has one order of its sums in any case.
    pub deterministic: bool,
}

impl Default for Compute {
    fn default() -> Self {
        Self {
            device: "cpu".into(),
            dtype: ComputeType::F32,
            threads: 0,
            gradient_blocks: 8,
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
        if !self.gradient_blocks.is_power_of_two() || self.gradient_blocks > 1024 {
            return Err(FieldError::new("compute.gradient_blocks", self.gradient_blocks, "a power of two up to 1024"));
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
            0 if self.is_cpu() => CPU_TOKENS,
            0 => 16_384,
            tokens => tokens,
        }
    }

    /// Tokens that justify a pass before all groups of a step have arrived: on a CPU enough to occupy every thread for
    /// a while, on a GPU one full micro-batch.
    pub fn tokens_worth_a_pass(&self) -> usize {
        let micro_batches = if self.is_cpu() { 4 * self.resolved_threads() } else { 1 };
        micro_batches * self.resolved_micro_batch_tokens()
    }

    /// Tokens of a micro-batch whose gradient is summed, but for one longer sequence; on a CPU those after a prompt,
    /// which comes once in addition and has as many after it if it is longer.
    fn gradient_tokens(&self) -> usize {
        if self.is_cpu() { CPU_TOKENS } else { self.resolved_micro_batch_tokens() }
    }

    /// Most tokens of a micro-batch whose gradient is summed, where prompts have up to `prompt` tokens and sequences up
    /// to `longest`.
    pub fn most_gradient_tokens(&self, prompt: usize, longest: usize) -> usize {
        let tokens = self.gradient_tokens();
        let full = if self.is_cpu() { prompt.saturating_add(tokens.max(prompt)) } else { tokens };
        full.max(longest)
    }

    /// How sequences are packed whose gradient is summed.
    pub(crate) fn gradient_packing(&self) -> GradientPacking {
        if self.is_cpu() {
            GradientPacking::InOrder(self.gradient_tokens())
        } else {
            GradientPacking::ByLength(self.gradient_tokens())
        }
    }

    /// Gradients of this many parameters that are in memory at a time: as many as keep every thread busy, if half of
    /// what the host has free holds them, and never fewer than blocks one after the other need.
    pub fn gradients_at_once(&self, parameters: usize, free: Option<u64>) -> usize {
        let blocks = self.gradient_blocks;
        let threads = self.resolved_threads();
        let fitting = |free: u64| usize::try_from(free / 2 / (4 * parameters.max(1) as u64)).unwrap_or(usize::MAX);
        let room = free.map_or(usize::MAX, fitting);
        room.clamp(fewest_gradients(blocks), most_gradients(blocks, threads))
    }

    /// Whether the CPU's own kernels compute.
    pub fn is_fp32_on_cpu(&self) -> bool {
        self.is_cpu() && self.dtype == ComputeType::F32
    }

    pub(crate) fn is_cpu(&self) -> bool {
        self.device == "cpu"
    }

    /// The model's part of these settings.
    pub fn network_options(&self) -> NetworkOptions {
        NetworkOptions {
            threads: self.resolved_threads(),
            gradient_blocks: self.gradient_blocks,
            gradients_at_once: usize::MAX,
            share: BlockShare::ALL,
            recompute: self.recompute,
            head_chunk_rows: self.head_chunk_rows,
            attention: self.attention.options(self.deterministic),
            variants: Variants::default(),
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
        let options_of = |attention, deterministic| {
            let options = Compute { attention, deterministic, ..Compute::default() }.network_options().attention;
            (options.library, options.deterministic)
        };
        assert_eq!(options_of(AttentionPath::Auto, false), (true, false));
        assert_eq!(options_of(AttentionPath::Auto, true), (true, true));
        assert_eq!(options_of(AttentionPath::Blocks, true), (false, true));
    }

    #[test]
    fn more_threads_have_more_gradients_at_a_time_if_half_of_the_free_memory_holds_them() {
        let gradients = |threads, free| Compute { threads, ..Compute::default() }.gradients_at_once(1000, free);
        assert_eq!([1, 2, 64].map(|threads| gradients(threads, None)), [4, 5, 8]);
        assert_eq!([0, 40_000, 48_000, 55_999, 1 << 40].map(|free| gradients(64, Some(free))), [4, 5, 6, 6, 8]);
    }

    #[test]
    fn blocks_that_make_no_tree_are_refused() {
        for gradient_blocks in [0, 6, 2048] {
            let error = Compute { gradient_blocks, ..Compute::default() }.validate().unwrap_err().to_string();
            assert!(error.starts_with("compute.gradient_blocks is") && error.contains("power of two"), "{error}");
        }
        Compute { gradient_blocks: 1, ..Compute::default() }.validate().unwrap();
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_gpu_is_refused_by_a_build_without_one() {
        let error = Compute { device: "cuda".into(), ..Compute::default() }.open().unwrap_err().to_string();
        assert!(error.contains("--features cuda"), "{error}");
    }
}
