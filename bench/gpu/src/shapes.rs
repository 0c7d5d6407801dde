//! The models that are counted, checked and timed, and the work of a pass by the formula that speeds are given in.

use anyhow::Result;
use candle_core::{Device, Tensor};
use evenkeel_learner::{ComputeType, MemoryPlan, MomentsLocation, TrainingSettings};
use evenkeel_model::kernels::AttentionOptions;
use evenkeel_model::{Architecture, Biases, Config, Packed, Parameters, Recompute, Rope, gpu_memory, parameter_specs};

/// bf16, dense, on an H100 or H200: operations a second that shares are of.
pub(crate) const PEAK: f64 = 989e12;

/// A model and a micro-batch.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) config: Config,
    pub(crate) sequences: usize,
    pub(crate) length: usize,
    pub(crate) recompute: Recompute,
    pub(crate) attention: AttentionOptions,
    pub(crate) moments: MomentsLocation,
    /// The least share of the peak that training is to reach.
    pub(crate) aim: f64,
}

/// Qwen3-1.7B.
pub(crate) fn qwen3_1_7b() -> Config {
    Config {
        architecture: Architecture::QWEN3,
        query_key_norm: true,
        vocab_size: 151_936,
        hidden_size: 2048,
        intermediate_size: 6144,
        num_layers: 28,
        num_heads: 16,
        num_kv_heads: 8,
        head_dim: 128,
        max_position_embeddings: 16_385,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e6),
        layers_without_rope: Vec::new(),
        biases: Biases::NONE,
        tie_word_embeddings: true,
        eos_token_ids: Vec::new(),
    }
}

/// Qwen2.5-Math-7B.
pub(crate) fn qwen2_7b() -> Config {
    Config {
        architecture: Architecture::QWEN2,
        query_key_norm: false,
        vocab_size: 152_064,
        hidden_size: 3584,
        intermediate_size: 18_944,
        num_heads: 28,
        num_kv_heads: 4,
        max_position_embeddings: 4096,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: Biases::QKV,
        tie_word_embeddings: false,
        ..qwen3_1_7b()
    }
}

/// Small enough for a CPU, in everything else like another: shows that a check works, no more.
pub(crate) fn tiny(like: &Config) -> Config {
    Config {
        vocab_size: 512,
        hidden_size: 64,
        intermediate_size: 160,
        num_layers: 2,
        num_heads: 4,
        num_kv_heads: 2,
        head_dim: 16,
        ..like.clone()
    }
}

/// The micro-batches of the recipes. The large model has two ways to fit: everything recomputed, or moments in the
/// host's memory, which makes room for what is dear to compute.
pub(crate) fn cases() -> [Case; 4] {
    let small = Case {
        name: "Qwen3-1.7B",
        config: qwen3_1_7b(),
        sequences: 8,
        length: 4096,
        recompute: Recompute::None,
        attention: AttentionOptions::default(),
        moments: MomentsLocation::Device,
        aim: 0.45,
    };
    let long = Case { sequences: 2, length: 16_384, ..small.clone() };
    let large = Case {
        name: "Qwen2.5-Math-7B",
        config: qwen2_7b(),
        length: 2048,
        recompute: Recompute::Full,
        aim: 0.40,
        ..small.clone()
    };
    let streamed = Case { recompute: Recompute::Selective, moments: MomentsLocation::Host, ..large.clone() };
    [small, long, large, streamed]
}

/// What a case that is changed to fit a smaller card is to reach at least, as a share of the peak: recomputing costs a
/// quarter.
const FITTED_AIM: f64 = 0.35;

impl Case {
    /// This case in a size that suits the device.
    ///
    /// # Errors
    /// A GPU with too little memory for any micro-batch of it.
    pub(crate) fn on(self, device: &Device) -> Result<Self> {
        self.on_with_room(device, 0)
    }

    /// This case in a size that leaves this many bytes of a GPU for what the plan does not know.
    pub(crate) fn on_with_room(self, device: &Device, room: u64) -> Result<Self> {
        match gpu_memory(device)? {
            Some(memory) => self.fitted((memory.free + memory.held).saturating_sub(room)),
            None => Ok(Self { config: tiny(&self.config), sequences: 2, length: self.length / 64, ..self }),
        }
    }

    /// The first way that fits this much memory: as it is; recomputing more; fewer sequences; moments in the host's
    /// memory.
    pub(crate) fn fitted(self, memory: u64) -> Result<Self> {
        let mut least = u64::MAX;
        let mut places = vec![self.moments];
        places.extend((self.moments == MomentsLocation::Device).then_some(MomentsLocation::Host));
        for moments in places {
            for halvings in 0..=self.sequences.ilog2() {
                let more = Recompute::ALL.into_iter().skip_while(|&each| each != self.recompute);
                for recompute in more {
                    let way = Self { sequences: self.sequences >> halvings, recompute, moments, ..self.clone() };
                    let needed = way.plan()?.total();
                    least = least.min(needed);
                    if needed <= memory {
                        let unchanged = halvings == 0 && (recompute, moments) == (self.recompute, self.moments);
                        return Ok(Self { aim: if unchanged { self.aim } else { FITTED_AIM }, ..way });
                    }
                }
            }
        }
        let [least, memory] = [least, memory].map(|bytes| bytes as f64 / f64::from(1 << 30));
        anyhow::bail!("it takes {least:.1} GiB at least, and {memory:.1} GiB are free")
    }

    /// What a learner would plan for it.
    fn plan(&self) -> Result<MemoryPlan> {
        Ok(MemoryPlan::of(&self.config, &self.settings(true), self.length)?)
    }

    /// A learner's settings for its micro-batches.
    pub(crate) fn settings(&self, on_gpu: bool) -> TrainingSettings {
        let mut settings = TrainingSettings::default();
        let compute = &mut settings.compute;
        if on_gpu {
            (compute.device, compute.dtype) = ("cuda".into(), ComputeType::Bf16);
        }
        // The last token of each is scored, and no input.
        compute.micro_batch_tokens = self.tokens() + self.sequences;
        compute.recompute = self.recompute;
        // What is timed is passes of one block.
        compute.gradient_blocks = 1;
        settings.optimizer.moments = if on_gpu { self.moments } else { MomentsLocation::Device };
        settings
    }

    /// Name of the case in reports.
    pub(crate) fn title(&self) -> String {
        format!("{} of {} tokens, moments: {}", self.name, self.length, self.moments.name())
    }

    /// Input tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.sequences * self.length
    }

    /// Whether PyTorch is to keep the inputs of layers alone.
    pub(crate) fn recomputes(&self) -> bool {
        self.recompute != Recompute::None
    }

    /// What the backward pass computes again, for people.
    pub(crate) fn recomputed(&self) -> &'static str {
        match self.recompute {
            Recompute::None => "nothing",
            Recompute::Selective => "norms and activations",
            Recompute::Full => "everything",
        }
    }

    /// 6 N T, with the head once, and 6 s² heads dim for each sequence and layer. What is computed again does not
    /// count.
    pub(crate) fn flops(&self) -> f64 {
        let Config { hidden_size, intermediate_size, num_layers, vocab_size, .. } = self.config;
        let query = self.config.query_width();
        let kv = self.config.kv_width();
        let layer = 2 * hidden_size * query + 2 * hidden_size * kv + 3 * hidden_size * intermediate_size;
        let weights = num_layers * layer + vocab_size * hidden_size;
        let tokens = self.tokens() as f64;
        6.0 * weights as f64 * tokens + 6.0 * tokens * self.length as f64 * (query * num_layers) as f64
    }

    /// Ids of each sequence, one more than are input: the last is scored only.
    pub(crate) fn ids(&self) -> Vec<Vec<u32>> {
        let vocabulary = self.config.vocab_size;
        let id = |sequence: usize, at: usize| ((at * 7919 + sequence * 104_729 + at * at % 31) % vocabulary) as u32;
        (0..self.sequences).map(|sequence| (0..=self.length).map(|at| id(sequence, at)).collect()).collect()
    }

    /// The sequences packed, each token but the first scored.
    pub(crate) fn batch(&self) -> Result<Packed> {
        let mut batch = Packed::default();
        for ids in self.ids() {
            batch.push(&self.config, &ids, 1..ids.len())?;
        }
        Ok(batch)
    }
}

/// Random weights, made on the device.
pub(crate) fn random(config: &Config, device: &Device) -> Result<Parameters> {
    let values = parameter_specs(config).0.into_iter().map(|spec| {
        if spec.kind.decays() {
            Tensor::randn(0f32, 0.02, spec.shape, device)
        } else {
            Tensor::ones(spec.shape, candle_core::DType::F32, device)
        }
    });
    Ok(Parameters::new(config, values.collect::<candle_core::Result<_>>()?, device)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_token_is_that_of_the_published_formula() {
        for (case, giga) in cases().into_iter().zip([11.74, 15.96, 43.65, 43.65]) {
            let token = case.flops() / case.tokens() as f64 / 1e9;
            assert!((token / giga - 1.0).abs() < 1e-3, "{}: {token}", case.name);
        }
    }

    #[test]
    fn a_case_is_made_to_fit_the_card_and_refused_with_what_it_takes_where_nothing_fits() {
        let gib = |bytes: u64| bytes << 30;
        for case in cases() {
            let unchanged = case.clone().fitted(gib(140)).unwrap();
            assert_eq!((unchanged.sequences, unchanged.recompute), (case.sequences, case.recompute), "{}", case.name);
            assert_eq!(unchanged.aim, case.aim);
            for memory in [40, 79] {
                let Ok(fitted) = case.clone().fitted(gib(memory)) else { continue };
                assert!(fitted.plan().unwrap().total() <= gib(memory), "{} on {memory} GiB", case.name);
                assert_eq!(fitted.length, case.length);
            }
        }
        let [small, _, large, _] = cases();
        // What a review found by reading: this case does not fit a card of 80 GB as it is.
        assert!(small.plan().unwrap().total() > gib(75));
        let on_80 = small.clone().fitted(gib(75)).unwrap();
        assert_eq!(
            (on_80.sequences, on_80.recompute, on_80.moments),
            (8, Recompute::Selective, MomentsLocation::Device)
        );
        assert_eq!(on_80.aim, FITTED_AIM);
        assert_eq!(large.clone().fitted(gib(80)).unwrap().moments, MomentsLocation::Host);
        let refused = large.fitted(gib(24)).err().unwrap().to_string();
        assert!(refused.starts_with("it takes ") && refused.ends_with("and 24.0 GiB are free"), "{refused}");
    }

    #[test]
    fn on_a_cpu_a_case_is_small_and_of_the_same_kind() {
        for case in cases() {
            let small = case.clone().on(&Device::Cpu).unwrap();
            assert_eq!(small.config.architecture, case.config.architecture);
            assert_eq!(small.config.tie_word_embeddings, case.config.tie_word_embeddings);
            assert!(small.flops() < 1e12 && small.batch().is_ok(), "{}", small.flops());
        }
    }
}
