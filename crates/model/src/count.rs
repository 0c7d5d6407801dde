//! What a micro-batch gives a GPU, counted without one.

use candle_core::{DType, Tensor};

use crate::config::Config;
use crate::error::{BoxError, ModelError, Result};
use crate::kernels::cuda::{Counter, Cuda, DeviceCounts, DeviceProperties};
use crate::kernels::{AdamW, Clip, Coefficients, OptimizerKernels, Scores};
use crate::network::{Network, NetworkOptions, TokenLoss, TrainableModel};
use crate::pack::Packed;
use crate::parameters::Parameters;

/// Runs the host's side of a forward and a backward pass with described parameters over sequences of these numbers of
/// tokens, each of which is scored. Counts what a device would be given and what is allocated at a time: gradients,
/// activations and workspace, not the parameters.
///
/// # Errors
/// No sequence, a sequence longer than the model's context, or a compute type that the kernels do not have.
pub fn count_pass(
    config: &Config,
    parameters: Parameters,
    lengths: &[usize],
    compute: DType,
    options: NetworkOptions,
    properties: DeviceProperties,
) -> Result<DeviceCounts> {
    let mut batch = Packed::default();
    // The token after the last one is scored, and not part of the input.
    let config = Config { max_position_embeddings: config.max_position_embeddings + 1, ..config.clone() };
    for &length in lengths {
        batch.push(&config, &vec![0; length + 1], 1..=length)?;
    }
    if lengths.is_empty() {
        return Err(ModelError::input("sequences of a micro-batch", 0, "1 or more"));
    }
    let kernels =
        Cuda::new(Counter::new(properties), compute)?.with_attention(options.attention).with_variants(options.variants);
    let mut network = Network::new(config, parameters, kernels, options)?;
    network.accumulate(&[batch], 1.0, &NoLoss)?;
    Ok(network.kernels().device().take())
}

/// Counts the host's side of one update with moments in host memory: what is page-locked, what is copied, and the
/// buffers on the device.
///
/// # Errors
/// A failure of the counting device; there is none today.
pub fn count_update_from_host(parameters: &Parameters, properties: DeviceProperties) -> Result<DeviceCounts> {
    let kernels = Cuda::new(Counter::new(properties), DType::F32)?;
    let counts: Vec<usize> = parameters.trained_values().iter().map(Tensor::elem_count).collect();
    let mut moments = kernels.host_moments(&counts)?;
    let numbers = AdamW { betas: [0.9, 0.999], step: 0.0, second_root: 1.0, epsilon: 1e-8, shrink: 1.0 };
    let weights = parameters.trained_values();
    let numbers = vec![numbers; counts.len()];
    kernels.update_from_host(weights, weights, &mut moments, Clip { scale: 1.0, limit: 1.0 }, &numbers)?;
    Ok(kernels.device().take())
}

struct NoLoss;

impl TokenLoss for NoLoss {
    fn coefficients(&self, _index: usize, _batch: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let zeros = vec![0.0; scores.logp.len()];
        Ok(Coefficients { logp: zeros.clone(), entropy: zeros })
    }

    fn known_coefficients(&self, _index: usize, batch: &Packed) -> Option<Coefficients> {
        let zeros = vec![0.0; batch.targets().len()];
        Some(Coefficients { logp: zeros.clone(), entropy: zeros })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Architecture, Biases, Rope};
    use crate::kernels::Variants;
    use crate::network::Recompute;
    use crate::parameters::ParameterKind;
    use crate::parameters::lora::{LinearModule, LoraShape};

    fn config() -> Config {
        Config {
            architecture: Architecture::QWEN3,
            query_key_norm: true,
            vocab_size: 512,
            hidden_size: 64,
            intermediate_size: 192,
            num_layers: 8,
            num_heads: 4,
            num_kv_heads: 2,
            head_dim: 16,
            max_position_embeddings: 256,
            rms_norm_eps: 1e-6,
            rope: Rope::plain(1e4),
            layers_without_rope: Vec::new(),
            biases: Biases::NONE,
            tie_word_embeddings: true,
            eos_token_ids: Vec::new(),
        }
    }

    fn count_beside(parameters: Parameters, lengths: &[usize], options: NetworkOptions) -> DeviceCounts {
        let properties = DeviceProperties { multiprocessors: 132 };
        count_pass(&config(), parameters, lengths, DType::BF16, options, properties).unwrap()
    }

    fn counts(lengths: &[usize], recompute: Recompute) -> DeviceCounts {
        let options = NetworkOptions { recompute, ..NetworkOptions::default() };
        count_beside(Parameters::described(&config()).unwrap(), lengths, options)
    }

    #[test]
    fn recomputing_takes_less_memory_and_more_operations_and_of_norms_and_activations_no_products() {
        let [kept, cheap, again] =
            [Recompute::None, Recompute::Selective, Recompute::Full].map(|recompute| counts(&[256; 4], recompute));
        assert!(again.peak < kept.peak / 2, "{} and {}", again.peak, kept.peak);
        assert!(again.total().flops > kept.total().flops);
        assert!(again.peak < cheap.peak && cheap.peak < kept.peak, "{}", cheap.peak);
        assert_eq!(cheap.total().flops, kept.total().flops);
        assert!(cheap.total().launches > kept.total().launches);
    }

    #[test]
    fn the_host_waits_once_for_scores_alone() {
        let counts = counts(&[100, 256], Recompute::None);
        assert_eq!((counts.waits, counts.downloads.bytes), (1, 2 * 4 * 356));
    }

    #[test]
    fn activations_grow_by_what_a_layer_keeps_of_each_token() {
        // In bf16: input, normed, q and k before and after their norms, v, attended, middle, normed again, gate, up,
        // gated; and fp32 log sums.
        let kept = 2 * (64 + 64 + 2 * (64 + 32) + 32 + 64 + 64 + 64 + 3 * 192) + 4 * 4;
        // Without both normed ones, q and k after their norms, and gated. And the input alone.
        let cheap = kept - 2 * (64 + (64 + 32) + 64 + 192);
        for (recompute, layer) in [(Recompute::None, kept), (Recompute::Selective, cheap), (Recompute::Full, 2 * 64)] {
            let live_bytes = |layers: usize| {
                let config = Config { num_layers: layers, ..config() };
                let options = NetworkOptions { recompute, ..NetworkOptions::default() };
                let parameters = Parameters::described(&config).unwrap();
                let gradients = parameters.bytes();
                let properties = DeviceProperties { multiprocessors: 132 };
                let counts = count_pass(&config, parameters, &[256], DType::BF16, options, properties).unwrap();
                counts.peak - gradients
            };
            let grown = live_bytes(9) - live_bytes(8);
            // Small arrays are rounded up to 256 bytes.
            assert!(grown.abs_diff(256 * layer) < 4096, "{recompute:?}: {grown} for {}", 256 * layer);
        }
    }

    /// Launches of all kernels whose names begin so.
    fn launches(counts: &DeviceCounts, prefix: &str) -> u64 {
        counts.kernels.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, tally)| tally.launches).sum()
    }

    #[test]
    fn each_variant_changes_what_it_is_for_and_none_is_on_by_itself() {
        assert_eq!(NetworkOptions::default().variants, Variants::default());
        let counts = |variants| {
            let options = NetworkOptions { variants, ..NetworkOptions::default() };
            count_beside(Parameters::described(&config()).unwrap(), &[256; 2], options)
        };
        let plain = counts(Variants::default());
        let [head, joined, memory, all] = Variants::NAMED.map(|(_, variants)| counts(variants));
        // Tokens, the width of the hidden states, and the vocabulary.
        let logits = 2 * 512 * 64 * 512;
        let flops = |counts: &DeviceCounts| counts.total().flops;
        assert_eq!(flops(&plain) - flops(&head), logits);
        assert_eq!([flops(&joined), flops(&memory), flops(&all)], [flops(&plain), flops(&plain), flops(&head)]);
        // Of each layer: three products and two as one each, forwards, and backwards for their input.
        let products = |counts: &DeviceCounts| launches(counts, "product ");
        assert_eq!(products(&plain) - products(&joined), 8 * 6);
        // The head, and seven matrices of each layer, are cast for each pass over them, or once.
        let casts = |counts: &DeviceCounts| launches(counts, "cast_f32_bf16");
        assert_eq!([casts(&plain), casts(&memory)], [2 + 8 * 14, 1 + 8 * 7]);
        assert_eq!([&plain, &memory].map(|counts| launches(counts, "token_scores_fast")), [0, 1]);
        assert!([&plain, &head, &joined, &memory, &all].iter().all(|counts| counts.waits == 1));
    }

    #[test]
    fn kept_weights_are_dropped_before_parameters_change() {
        let options = NetworkOptions { variants: Variants::NAMED[2].1, ..NetworkOptions::default() };
        let kernels = Cuda::new(Counter::new(DeviceProperties { multiprocessors: 132 }), DType::BF16).unwrap();
        let kernels = kernels.with_variants(options.variants);
        let parameters = Parameters::described(&config()).unwrap();
        let mut network = Network::new(config(), parameters, kernels, options).unwrap();
        let mut batch = Packed::default();
        batch.push(&config(), &[0; 101], 1..=100).unwrap();
        let batches = [batch];
        let casts = |network: &Network<Cuda<Counter>>| {
            network.score(&batches, 1.0).unwrap();
            launches(&network.kernels().device().take(), "cast_f32_bf16")
        };
        let of_all = 1 + 8 * 7;
        assert_eq!([casts(&network), casts(&network)], [of_all, 0]);
        network.parameters_mut();
        assert_eq!(casts(&network), of_all);
    }

    #[test]
    fn a_frozen_base_in_bf16_is_not_cast_for_products_in_bf16_and_takes_no_memory_for_it() {
        let lora = LoraShape { rank: 4, alpha: 8.0, targets: LinearModule::OF_LAYERS.to_vec() };
        let wide = Parameters::described_with(&config(), Some(&lora)).unwrap();
        let narrow = Parameters::described_in_bf16(&config(), &lora).unwrap();
        let matrices = wide.specs().iter().filter(|spec| spec.kind == ParameterKind::Matrix);
        let scalars: usize = matrices.map(|spec| spec.shape.iter().product::<usize>()).sum();
        assert_eq!(wide.bytes() - narrow.bytes(), 2 * scalars as u64);
        let [wide, narrow] =
            [wide, narrow].map(|parameters| count_beside(parameters, &[256; 2], NetworkOptions::default()));
        // The head twice, and of each of eight layers: 7 matrices forward and 7 backward.
        let of_base = 2 + 8 * 14;
        let casts = |counts: &DeviceCounts| launches(counts, "cast_f32_bf16");
        assert_eq!(casts(&wide) - casts(&narrow), of_base);
        assert!(narrow.peak <= wide.peak, "{} and {}", narrow.peak, wide.peak);
        assert_eq!(narrow.total().flops, wide.total().flops);
    }

    #[test]
    fn sequences_beyond_the_context_are_refused() {
        let counts = |lengths: &[usize]| {
            count_pass(
                &config(),
                Parameters::described(&config()).unwrap(),
                lengths,
                DType::BF16,
                NetworkOptions::default(),
                DeviceProperties { multiprocessors: 1 },
            )
        };
        assert!(counts(&[256]).is_ok());
        assert!(counts(&[257]).is_err());
        assert!(counts(&[]).unwrap_err().to_string().contains("sequences of a micro-batch is 0"));
    }
}
