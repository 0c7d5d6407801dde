//! An estimate of the memory that training needs.

mod advice;
mod cpu;
mod disk;
mod fit;
mod measured;
mod memory_use;
mod shortage;

use std::fmt;

use candle_core::Device;

use evenkeel_model::kernels::cuda::DeviceProperties;
use evenkeel_model::{
    Config, GpuMemory, ModelError, attention_library, count_pass, count_update_from_host, fewest_gradients,
};

use crate::settings::{AttentionPath, MomentsLocation, TrainingSettings};
pub use advice::Advice;
pub use cpu::{CpuMemoryPlan, LargestBatch};
pub(crate) use disk::checkpoint_bytes;
pub use disk::{DiskPlan, RunFolders};
pub use fit::{Change, FirstFit};
pub use measured::MeasuredMemory;
pub use memory_use::MemoryUse;
pub use shortage::{MemoryKind, MemoryPhase, NotEnoughMemory, OutOfMemory};

/// Memory of the driver, of CUDA's libraries and of their kernels: an estimate.
const LIBRARIES: u64 = 1 << 30;
/// One in this many bytes of activations and workspace is lost between blocks of the pool: an estimate.
const LOST_SHARE: u64 = 20;
/// An H200's. More or fewer change the workspace by little.
const CHIP: DeviceProperties = DeviceProperties { multiprocessors: 132 };

/// A part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// Use of the memory.
    pub what: MemoryUse,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it is allocated between steps too.
    pub stays: bool,
}

/// The memory of a learner on a GPU at its peak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The parts on the device, which exist at once.
    pub parts: Vec<MemoryPart>,
    /// The parts in host memory that grow with the model.
    pub host: Vec<MemoryPart>,
}

impl MemoryPlan {
    /// For micro-batches that are full of sequences of `longest` tokens. The pass is counted through the learner's own
    /// code on a device that computes nothing.
    ///
    /// # Errors
    /// No tokens, or more than the model's context.
    pub fn of(config: &Config, settings: &TrainingSettings, longest: usize) -> Result<Self, ModelError> {
        Self::around(PassBytes::of(config, settings, longest)?, config, settings)
    }

    /// For passes of this size.
    fn around(pass: PassBytes, config: &Config, settings: &TrainingSettings) -> Result<Self, ModelError> {
        let compute = &settings.compute;
        let described = settings.described(config)?;
        let count = described.trained_count() as u64;
        let mut pass = pass.0;
        let stays = |what, bytes| MemoryPart { what, bytes, stays: true };
        let passes = |what, bytes| MemoryPart { what, bytes, stays: false };
        // One that is summed, and one at each level of the tree. An update has one.
        let gradients = fewest_gradients(compute.gradient_blocks) as u64;
        let mut parts = Vec::new();
        if described.lora().is_some() {
            parts.push(stays(MemoryUse::FrozenWeights, described.bytes() - 4 * count));
        }
        parts.extend([stays(MemoryUse::Weights, 4 * count), passes(MemoryUse::Gradients, gradients * 4 * count)]);
        let mut host = Vec::new();
        let on_host = settings.optimizer.moments == MomentsLocation::Host;
        if on_host {
            let update = count_update_from_host(&described, CHIP)?;
            // An update's buffers are allocated when activations are not.
            pass = pass.max(update.peak.saturating_sub((gradients - 1) * 4 * count));
            host.push(stays(MemoryUse::PinnedMoments, update.pinned));
        } else {
            parts.push(stays(MemoryUse::Moments, 8 * count));
        }
        for term in settings.loss_terms().iter() {
            parts.push(stays(MemoryUse::of_network(term), term.network_bytes(count)?));
        }
        // The policy as its own teacher takes none.
        parts.retain(|part| part.bytes > 0);
        if !settings.is_single_update() && on_host {
            parts.push(passes(MemoryUse::WeightsBefore, 4 * count));
            host.push(passes(MemoryUse::MomentsBefore, 8 * count));
        } else if !settings.is_single_update() {
            parts.push(passes(MemoryUse::StateBefore, 12 * count));
        }
        parts.push(passes(MemoryUse::Activations, pass));
        parts.push(passes(MemoryUse::Fragmentation, pass / LOST_SHARE));
        parts.push(stays(MemoryUse::Libraries, LIBRARIES));
        Ok(Self { parts, host })
    }

    /// For an actual device: attention needs other memory if cuDNN does not compute it.
    ///
    /// # Errors
    /// As [`MemoryPlan::of`].
    pub fn on(
        device: &Device,
        config: &Config,
        settings: &TrainingSettings,
        longest: usize,
    ) -> Result<Self, ModelError> {
        let mut planned = settings.clone();
        let compute = &settings.compute;
        let options = compute.network_options().attention;
        if attention_library(device, compute.dtype.into(), options, config.head_dim).is_err() {
            planned.compute.attention = AttentionPath::Blocks;
        }
        Self::of(config, &planned, longest)
    }

    /// The bytes of all parts on the device.
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// The bytes on the device but for the driver and its libraries, which have memory outside of the pool.
    pub fn pooled(&self) -> u64 {
        self.total() - LIBRARIES
    }

    /// The bytes on the device that stay between steps, when an engine on the same device is awake and the learner's
    /// pool is trimmed.
    pub fn resident(&self) -> u64 {
        self.parts.iter().filter(|part| part.stays).map(|part| part.bytes).sum()
    }

    /// The bytes of all parts in host memory.
    pub fn host_total(&self) -> u64 {
        self.host.iter().map(|part| part.bytes).sum()
    }

    /// Refuses a device or a host with less free memory than this plan needs; `host` is `None` where the host's is
    /// unknown.
    ///
    /// # Errors
    /// The free memory, what is needed and for what, and what to change.
    pub fn validate(&self, device: u64, host: Option<u64>, settings: &TrainingSettings) -> Result<(), NotEnoughMemory> {
        fits(&self.parts, &self.host, device, host, settings)
    }

    /// Refuses a device that is smaller than this plan, and a device or a host with less free memory than a learner
    /// takes when it is opened and between steps. An engine may be awake on the same device then; what passes need
    /// besides is free once it sleeps. Where engines stay awake, the device has to have the whole plan free.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn validate_opening(
        &self,
        memory: GpuMemory,
        engines_stay_awake: bool,
        host: Option<u64>,
        settings: &TrainingSettings,
    ) -> Result<(), NotEnoughMemory> {
        let whole = |error: NotEnoughMemory| NotEnoughMemory { place: MemoryKind::WholeDevice, ..error };
        fits(&self.parts, &[], memory.total, None, settings).map_err(whole)?;
        let staying = |parts: &[MemoryPart]| parts.iter().copied().filter(|part| part.stays).collect::<Vec<_>>();
        let on_device = if engines_stay_awake { self.parts.clone() } else { staying(&self.parts) };
        fits(&on_device, &staying(&self.host), memory.free, host, settings).map_err(|error| error.on(memory))
    }
}

/// Activations and workspace of a pass over a full micro-batch. What is recomputed and how many tokens there are decide
/// it; blocks of gradients and the place of the moments do not.
#[derive(Clone, Copy)]
struct PassBytes(u64);

impl PassBytes {
    fn of(config: &Config, settings: &TrainingSettings, longest: usize) -> Result<Self, ModelError> {
        if longest == 0 || longest > config.max_position_embeddings {
            let allowed = format!("1 to max_position_embeddings = {}", config.max_position_embeddings);
            return Err(ModelError::input("longest", longest, allowed));
        }
        let compute = &settings.compute;
        let described = settings.described(config)?;
        let trained = described.trained_count() as u64;
        let budget = compute.resolved_micro_batch_tokens();
        let mut lengths = vec![longest; (budget / longest).max(1)];
        // Shorter sequences fill a micro-batch to its last token.
        lengths.extend(budget.checked_sub(longest * lengths.len()).filter(|&rest| rest > 0));
        let pass = count_pass(config, described, &lengths, compute.dtype.into(), compute.network_options(), CHIP)?;
        // One gradient is among what is counted.
        Ok(Self(pass.peak.saturating_sub(4 * trained)))
    }
}

fn fits(
    on_device: &[MemoryPart],
    on_host: &[MemoryPart],
    device: u64,
    host: Option<u64>,
    settings: &TrainingSettings,
) -> Result<(), NotEnoughMemory> {
    let bytes = |parts: &[MemoryPart]| parts.iter().map(|part| part.bytes).sum::<u64>();
    if bytes(on_device) > device {
        let parts = on_device.to_vec();
        let advice = Advice::for_device(settings);
        return Err(NotEnoughMemory { place: MemoryKind::Device, free: device, others: 0, parts, advice });
    }
    match host {
        Some(free) if bytes(on_host) > free => {
            let parts = on_host.to_vec();
            let advice = Advice::for_host(settings);
            Err(NotEnoughMemory { place: MemoryKind::Host, free, others: 0, parts, advice })
        }
        _ => Ok(()),
    }
}

pub(crate) fn gibibytes(bytes: u64) -> String {
    evenkeel_host::Size(bytes).in_gib()
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            writeln!(f, "{:>8} GiB  {}", gibibytes(part.bytes), part.what)?;
        }
        write!(f, "{:>8} GiB  in all", gibibytes(self.total()))?;
        for part in &self.host {
            write!(f, "\n{:>8} GiB  {}, in the host's memory", gibibytes(part.bytes), part.what)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod tests {
    use evenkeel_model::{Architecture, Biases, Recompute, Rope};

    use super::*;
    use crate::settings::{BaseType, Compute, ComputeType, LoraSettings};

    fn config(hidden: usize, inner: usize, heads: usize, kv_heads: usize, tied: bool) -> Config {
        Config {
            architecture: if tied { Architecture::QWEN3 } else { Architecture::QWEN2 },
            query_key_norm: tied,
            vocab_size: 151_936,
            hidden_size: hidden,
            intermediate_size: inner,
            num_layers: 28,
            num_heads: heads,
            num_kv_heads: kv_heads,
            head_dim: 128,
            max_position_embeddings: 8192,
            rms_norm_eps: 1e-6,
            rope: Rope::plain(1e6),
            layers_without_rope: Vec::new(),
            biases: if tied { Biases::NONE } else { Biases::QKV },
            tie_word_embeddings: tied,
            eos_token_ids: Vec::new(),
        }
    }

    fn settings(tokens: usize, recompute: Recompute) -> TrainingSettings {
        let compute = Compute {
            device: "cuda".into(),
            dtype: ComputeType::Bf16,
            micro_batch_tokens: tokens,
            recompute,
            ..Compute::default()
        };
        TrainingSettings { compute, ..TrainingSettings::default() }
    }

    fn with_one_block(mut settings: TrainingSettings) -> TrainingSettings {
        settings.compute.gradient_blocks = 1;
        settings
    }

    #[test]
    fn gradients_take_one_more_for_each_level_of_the_tree() {
        let config = config(256, 512, 4, 2, true);
        let planned = |blocks| {
            let mut settings = settings(1024, Recompute::Full);
            settings.compute.gradient_blocks = blocks;
            let plan = MemoryPlan::of(&config, &settings, 512).unwrap();
            (plan.parts[1].bytes / plan.parts[0].bytes, plan.total() - plan.parts[1].bytes)
        };
        let (_, others) = planned(1);
        for (blocks, gradients) in [(1, 1), (2, 2), (8, 4), (64, 7)] {
            assert_eq!(planned(blocks), (gradients, others), "{blocks}");
        }
    }

    /// Qwen3-32B.
    fn of_32b() -> Config {
        Config {
            num_layers: 64,
            query_key_norm: true,
            biases: Biases::NONE,
            architecture: Architecture::QWEN3,
            tie_word_embeddings: false,
            ..config(5120, 25_600, 64, 8, false)
        }
    }

    #[test]
    fn a_base_of_32_billion_parameters_takes_61_gib_in_bf16_instead_of_122_beside_its_adapters() {
        let lora = |base_type| Some(LoraSettings { base_type, ..LoraSettings::default() });
        let [wide, narrow] = [BaseType::F32, BaseType::Bf16].map(|base_type| {
            let settings = TrainingSettings { lora: lora(base_type), ..settings(4096, Recompute::Full) };
            let plan = MemoryPlan::of(&of_32b(), &settings, 4096).unwrap();
            (settings, plan)
        });
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        let frozen = |plan: &MemoryPlan| {
            assert_eq!(plan.parts[0].what, MemoryUse::FrozenWeights);
            gib(plan.parts[0].bytes)
        };
        assert!((frozen(&wide.1) - 122.05).abs() < 0.1, "{}", wide.1);
        assert!((frozen(&narrow.1) - 61.03).abs() < 0.1, "{}", narrow.1);
        // What stays besides is that of the adapters, and the passes need no more.
        assert_eq!(wide.1.parts[1..3], narrow.1.parts[1..3]);
        assert!(narrow.1.total() <= wide.1.total() - (60 << 30), "{}", narrow.1);
        let h100 = 85_041_348_608;
        narrow.1.validate(h100, None, &narrow.0).unwrap();
        assert!(wide.1.validate(h100, None, &wide.0).is_err());
    }

    const H200: u64 = 150_754_820_096;

    #[test]
    fn a_model_of_two_billion_parameters_needs_no_recomputing_on_an_h200() {
        let config = config(2048, 6144, 16, 8, true);
        let settings = settings(32_768, Recompute::None);
        let plan = MemoryPlan::of(&config, &settings, 4096).unwrap();
        plan.validate(H200, None, &settings).unwrap();
        // 28 bytes for each of 1.72 billion parameters, and 60 GiB of activations.
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        let state: u64 = plan.parts[..3].iter().map(|part| part.bytes).sum();
        assert!((gib(state) - 44.9).abs() < 0.1, "{}", gib(state));
        assert!((60.0..70.0).contains(&gib(plan.parts[3].bytes)), "{plan}");
    }

    #[test]
    fn opening_beside_an_awake_engine_needs_what_stays_between_steps_and_no_more() {
        let config = config(2048, 6144, 16, 8, true);
        let settings = settings(32_768, Recompute::None);
        let plan = MemoryPlan::of(&config, &settings, 4096).unwrap();
        // An engine has all but what stays: also what a learner finds that restarts while the engine is awake.
        let free = plan.resident();
        assert!(plan.validate(free, None, &settings).is_err());
        let opened = |free| {
            let memory = GpuMemory { total: H200, free, held: 0, peak: 0 };
            plan.validate_opening(memory, false, None, &settings)
        };
        opened(free).unwrap();
        let error = opened(free - 1).unwrap_err().to_string();
        assert!(error.contains("weights") && !error.contains("activations"), "{error}");
    }

    #[test]
    fn a_card_that_is_smaller_than_the_plan_is_refused_and_one_that_engines_never_leave_needs_it_free() {
        let config = config(2048, 6144, 16, 8, true);
        let settings = settings(32_768, Recompute::None);
        let plan = MemoryPlan::of(&config, &settings, 4096).unwrap();
        let opened = |total, free, engines_stay_awake| {
            let memory = GpuMemory { total, free, held: 0, peak: 0 };
            plan.validate_opening(memory, engines_stay_awake, None, &settings)
        };
        let (needed, resident) = (plan.total(), plan.resident());
        let small = opened(needed - 1, needed - 1, false).unwrap_err().to_string();
        let words = format!("compute.device has {} GiB of memory, needed: ", gibibytes(needed - 1));
        assert!(small.starts_with(&words) && small.contains("activations"), "{small}");
        opened(needed, resident, false).unwrap();
        opened(needed, needed, true).unwrap();
        let awake = opened(H200, needed - 1, true).unwrap_err().to_string();
        assert!(
            awake.contains(" GiB of free memory (other processes hold ") && awake.contains("activations"),
            "{awake}"
        );
    }

    #[test]
    fn one_of_eight_billion_fits_if_it_recomputes_and_is_refused_by_name_if_not() {
        let config = config(3584, 18_944, 28, 4, false);
        let small = with_one_block(settings(16_384, Recompute::Full));
        MemoryPlan::of(&config, &small, 2048).unwrap().validate(H200, None, &small).unwrap();
        let large = settings(16_384, Recompute::None);
        let error =
            MemoryPlan::of(&config, &large, 2048).unwrap().validate(H200, None, &large).unwrap_err().to_string();
        assert!(error.starts_with("compute.device has 140.4 GiB of free memory, needed: "), "{error}");
        for part in [
            "GiB moments, fp32",
            "micro_batch_tokens (now 16384)",
            "compute.recompute = selective or full",
            "optimizer.moments = host",
            "lower compute.gradient_blocks (now 8",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn several_updates_and_a_reference_have_their_own_parts() {
        let config = config(256, 512, 4, 2, true);
        let mut settings = settings(1024, Recompute::Full);
        let plain = MemoryPlan::of(&config, &settings, 512).unwrap();
        settings.epochs = 2;
        settings.objective.kl_coefficient = 0.1;
        let more = MemoryPlan::of(&config, &settings, 512).unwrap();
        assert_eq!(more.total() - plain.total(), 4 * plain.parts[0].bytes);
    }

    #[test]
    fn moments_in_the_hosts_memory_are_counted_there_and_make_room_for_activations() {
        let config = config(3584, 18_944, 28, 4, false);
        let mut settings = with_one_block(settings(16_384, Recompute::Selective));
        let on_device = MemoryPlan::of(&config, &settings, 2048).unwrap();
        settings.optimizer.moments = MomentsLocation::Host;
        let on_host = MemoryPlan::of(&config, &settings, 2048).unwrap();
        let moments = 2 * on_device.parts[0].bytes;
        assert_eq!(on_device.total() - on_host.total(), moments);
        assert_eq!((on_device.host_total(), on_host.host_total()), (0, moments));
        assert_eq!(on_device.resident() - on_host.resident(), moments);
        // 7B without the moments on the card: 57 GiB less.
        on_host.validate(H200, Some(64 << 30), &settings).unwrap();
        let error = on_host.validate(H200, Some(32 << 30), &settings).unwrap_err().to_string();
        assert!(error.starts_with("the host has 32.0 GiB of free memory, needed: "), "{error}");
        assert!(
            error.contains("moments, fp32, page-locked") && error.contains("optimizer.moments = device"),
            "{error}"
        );
    }

    #[test]
    fn selective_recomputing_needs_a_third_less_for_activations() {
        let config = config(2048, 6144, 16, 8, true);
        let planned = |recompute| {
            let plan = MemoryPlan::of(&config, &settings(32_768, recompute), 4096).unwrap();
            plan.parts.iter().find(|part| part.what == MemoryUse::Activations).unwrap().bytes as f64
        };
        let [kept, cheap, full] = Recompute::ALL.map(planned);
        assert!((0.55..0.75).contains(&(cheap / kept)), "{}", cheap / kept);
        assert!(full < 0.3 * kept, "{}", full / kept);
    }
}
