use candle_core::{DType, Tensor};
use evenkeel_model::kernels::Variants;
use evenkeel_model::kernels::cuda::Cuda;
use evenkeel_model::{
    Architecture, Biases, BoxError, Coefficients, Config, LinearModule, LoraShape, Network, NetworkOptions, Packed,
    ParameterKind, Parameters, Recompute, Rope, Scores, TokenLoss, TrainableModel,
};

use crate::Runner;
use crate::case::{Case, cpu, tensor};
use crate::host::Host;

fn config(architecture: Architecture) -> Config {
    let has_norms = architecture == Architecture::QWEN3;
    Config {
        architecture,
        query_key_norm: has_norms,
        vocab_size: 37,
        hidden_size: 24,
        intermediate_size: 40,
        num_layers: 2,
        num_heads: 4,
        num_kv_heads: 2,
        head_dim: 8,
        max_position_embeddings: 40,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: if has_norms { Biases::NONE } else { Biases::QKV },
        tie_word_embeddings: has_norms,
        eos_token_ids: vec![1],
    }
}

/// Away from what training begins with: norms and biases are random as well.
fn parameters(config: &Config, case: &mut Case) -> Parameters {
    // Logits of one size whatever the width.
    let deviation = 0.15 * (24.0 / config.hidden_size as f32).sqrt();
    let drawn = Parameters::random(config, 3, deviation, &candle_core::Device::Cpu).unwrap();
    let values = drawn.values().iter().map(|value| match value.rank() {
        1 => (value + tensor(&case.normal(value.elem_count()), value.dims()).affine(0.1, 0.0).unwrap()).unwrap(),
        _ => value.clone(),
    });
    Parameters::new(config, values.collect(), &candle_core::Device::Cpu).unwrap()
}

fn batch(config: &Config, case: &mut Case) -> Packed {
    let mut batch = Packed::default();
    // One input token, and more than a block of attention.
    for length in [2, 6, 21] {
        let ids = case.ids(length, config.vocab_size);
        batch.push(config, &ids, length / 2..length).unwrap();
    }
    batch
}

struct Uneven;

impl TokenLoss for Uneven {
    fn coefficients(&self, _: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let coefficient = |i: usize| (batch.targets()[i] as f32 + 0.7 * i as f32).sin() / 10.0;
        let count = scores.logp.len();
        Ok(Coefficients {
            logp: (0..count).map(coefficient).collect(),
            entropy: (0..count).map(|i| 0.05 - coefficient(i) / 5.0).collect(),
        })
    }
}

/// A loss that knows its coefficients before it has seen scores.
struct Known;

impl TokenLoss for Known {
    fn coefficients(&self, index: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        Uneven.coefficients(index, batch, scores)
    }

    fn known_coefficients(&self, index: usize, batch: &Packed) -> Option<Coefficients> {
        let count = batch.targets().len();
        Uneven.coefficients(index, batch, &Scores { logp: vec![0.0; count], entropy: vec![0.0; count] }).ok()
    }
}

fn bits(tensors: &[Tensor]) -> Vec<u32> {
    let flat = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    tensors.iter().flat_map(flat).map(f32::to_bits).collect()
}

/// |a - b| / |b| over all values.
fn relative(a: &[Tensor], b: &[Tensor]) -> f32 {
    let mut difference = 0.0;
    let mut size = 0.0;
    for (a, b) in a.iter().zip(b) {
        difference += (a - b).unwrap().sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
        size += b.sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
    }
    (difference / size).sqrt()
}

/// A whole forward and backward pass on the runner, with all that is launched between the host's values.
pub(crate) fn passes(runner: &dyn Runner) {
    let llama = Config {
        architecture: Architecture::LLAMA,
        biases: Biases { mlp: true, ..Biases::ATTENTION },
        ..config(Architecture::QWEN2)
    };
    let smollm3 = Config {
        architecture: Architecture::SMOLLM3,
        biases: Biases::NONE,
        tie_word_embeddings: true,
        layers_without_rope: vec![1],
        ..config(Architecture::QWEN2)
    };
    for config in [config(Architecture::QWEN2), config(Architecture::QWEN3), llama, smollm3] {
        for (compute, score_limit, gradient_limit) in [(DType::F32, 1e-5, 1e-5), (DType::BF16, 0.05, 0.05)] {
            let mut kept = None;
            // Everything is recomputed by the same code in either type.
            let all = [Recompute::None, Recompute::Selective, Recompute::Full];
            for &recompute in if compute == DType::F32 { &all[..] } else { &all[..2] } {
                let mut case = Case::new(5);
                let parameters = parameters(&config, &mut case);
                let batches = [batch(&config, &mut case)];
                // Chunks of the head that do not divide its rows.
                let options = NetworkOptions { recompute, head_chunk_rows: 5, ..NetworkOptions::default() };
                let kernels = Cuda::new(Host::new(runner), compute).unwrap().with_attention_block(8).unwrap();
                let copy = parameters.deep_copy().unwrap();
                let mut found = Network::new(config.clone(), copy, kernels, options).unwrap();
                let mut wanted = Network::new(config.clone(), parameters, cpu(), options).unwrap();

                let name = format!("{:?} {compute:?} recompute {recompute:?}", config.architecture);
                let [a, b] = [found.score(&batches, 0.8).unwrap(), wanted.score(&batches, 0.8).unwrap()];
                for (found, wanted) in a[0].logp.iter().chain(&a[0].entropy).zip(b[0].logp.iter().chain(&b[0].entropy))
                {
                    assert!((found - wanted).abs() <= score_limit, "{name}: score {found} for {wanted}");
                }
                let gradients = |network: &mut dyn TrainableModel| {
                    network.accumulate(&batches, 0.8, &Uneven).unwrap();
                    // Sums go on, in the same block and in another, with which the first two are combined.
                    network.accumulate(&batches, 0.8, &Uneven).unwrap();
                    let later = batches.clone().map(|batch| batch.in_block(5));
                    network.accumulate(&later, 0.8, &Uneven).unwrap();
                    network.take_gradients().unwrap()
                };
                let found = gradients(&mut found);
                let difference = relative(&found, &gradients(&mut wanted));
                assert!(difference <= gradient_limit, "{name}: gradients differ by {difference}");
                let bits = bits(&found);
                assert!(kept.get_or_insert_with(|| bits.clone()) == &bits, "{name}: other bits than without");
            }
        }
    }
}

/// Parameters whose matrices are values of bf16, held in `matrices`, beside adapters that do not begin at zero.
fn beside(config: &Config, matrices: DType) -> Parameters {
    let mut case = Case::new(9);
    let drawn = parameters(config, &mut case);
    let values = drawn.specs().iter().zip(drawn.values()).map(|(spec, value)| match spec.kind {
        ParameterKind::Matrix => value.to_dtype(DType::BF16).unwrap().to_dtype(matrices).unwrap(),
        _ => value.clone(),
    });
    let base = Parameters::laid_out(config, values.collect()).unwrap();
    let mut targets = LinearModule::OF_LAYERS.to_vec();
    if !base.ids().is_tied() {
        targets.push(LinearModule::Head);
    }
    let lora = LoraShape { rank: 3, alpha: 6.0, targets };
    let mut adapter = |shape: &[usize]| {
        let values: Vec<f32> = case.normal(shape.iter().product()).iter().map(|value| 0.1 * value).collect();
        tensor(&values, shape)
    };
    let adapters = base.adapter_specs(&lora).unwrap().iter().map(|spec| adapter(&spec.shape)).collect();
    base.with_adapters(&lora, adapters).unwrap()
}

/// Adapters beside matrices in bf16 have the scores and gradients of those beside the same values in fp32, to the bit,
/// and these are those of the CPU.
pub(crate) fn frozen(runner: &dyn Runner) {
    for config in [config(Architecture::QWEN2), config(Architecture::QWEN3)] {
        let batches = [batch(&config, &mut Case::new(5))];
        let options = NetworkOptions { head_chunk_rows: 5, ..NetworkOptions::default() };
        let pass = |network: &mut dyn TrainableModel| {
            let scores = network.score(&batches, 0.8).unwrap().remove(0);
            network.accumulate(&batches, 0.8, &Uneven).unwrap();
            ([scores.logp, scores.entropy].concat(), network.take_gradients().unwrap())
        };
        let wanted = pass(&mut Network::new(config.clone(), beside(&config, DType::BF16), cpu(), options).unwrap());
        for (compute, limit) in [(DType::F32, 1e-5), (DType::BF16, 0.1)] {
            let found = [DType::F32, DType::BF16].map(|matrices| {
                let kernels = Cuda::new(Host::new(runner), compute).unwrap().with_attention_block(8).unwrap();
                pass(&mut Network::new(config.clone(), beside(&config, matrices), kernels, options).unwrap())
            });
            let name = format!("{:?} {compute:?}", config.architecture);
            let [wide, narrow] = &found;
            assert!(wide.0.iter().map(|x| x.to_bits()).eq(narrow.0.iter().map(|x| x.to_bits())), "{name}: scores");
            assert!(bits(&wide.1) == bits(&narrow.1), "{name}: gradients have other bits");
            for (found, wanted) in narrow.0.iter().zip(&wanted.0) {
                assert!((found - wanted).abs() <= limit, "{name}: score {found} for {wanted}");
            }
            let difference = relative(&narrow.1, &wanted.1);
            assert!(difference <= limit, "{name}: gradients differ by {difference}");
        }
    }
}

/// Each change that is off by default computes what the CPU computes, as the passes without it do.
pub(crate) fn variants(runner: &dyn Runner) {
    // As wide as rows are that a block holds in registers.
    let wide = Config { hidden_size: 520, num_layers: 1, ..config(Architecture::QWEN3) };
    for config in [config(Architecture::QWEN2), config(Architecture::QWEN3), wide] {
        let mut case = Case::new(5);
        let parameters = parameters(&config, &mut case);
        let batches = [batch(&config, &mut case)];
        let options =
            NetworkOptions { recompute: Recompute::Selective, head_chunk_rows: 5, ..NetworkOptions::default() };
        let pass = |network: &mut dyn TrainableModel| {
            let scores = network.score(&batches, 0.8).unwrap().remove(0);
            // Twice: what is kept of the first is used again.
            network.accumulate(&batches, 0.8, &Known).unwrap();
            network.accumulate(&batches, 0.8, &Known).unwrap();
            ([scores.logp, scores.entropy].concat(), network.take_gradients().unwrap())
        };
        let wanted = pass(&mut Network::new(config.clone(), parameters.clone(), cpu(), options).unwrap());
        for (compute, limit) in [(DType::F32, 1e-5), (DType::BF16, 0.05)] {
            for (variant, variants) in Variants::NAMED {
                let kernels = Cuda::new(Host::new(runner), compute).unwrap().with_attention_block(8).unwrap();
                let kernels = kernels.with_variants(variants);
                let copy = parameters.deep_copy().unwrap();
                let found = pass(&mut Network::new(config.clone(), copy, kernels, options).unwrap());
                let name =
                    format!("{variant}: {:?} of width {} in {compute:?}", config.architecture, config.hidden_size);
                for (found, wanted) in found.0.iter().zip(&wanted.0) {
                    assert!((found - wanted).abs() <= limit, "{name}: score {found} for {wanted}");
                }
                let difference = relative(&found.1, &wanted.1);
                assert!(difference <= limit, "{name}: gradients differ by {difference}");
            }
        }
    }
}
