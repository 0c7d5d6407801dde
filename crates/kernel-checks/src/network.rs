use candle_core::{DType, Tensor};
use evenkeel_model::kernels::cuda::Cuda;
use evenkeel_model::{
    Architecture, Biases, BoxError, Coefficients, Config, Network, NetworkOptions, Packed, Parameters, Recompute, Rope,
    Scores, TokenLoss, TrainableModel,
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
    let drawn = Parameters::random(config, 3, 0.15, &candle_core::Device::Cpu).unwrap();
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
