//! One decoder layer and the head at the width of Qwen3-1.7B, timed as differences of whole passes, so that what a pass
//! costs besides them does not count.

use anyhow::Result;
use candle_core::{DType, Device};
use evenkeel_model::{Config, Packed, Parameters};
use serde_json::json;

use crate::model::{Even, fastest};
use crate::path::KernelPath;
use crate::report::ReportPart;
use crate::shapes::{PEAK, qwen3_1_7b};

/// How much is measured.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Effort {
    Once,
    Table,
}

/// A width and a batch.
#[derive(Clone, Copy)]
struct Shape {
    hidden: usize,
    inner: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    vocabulary: usize,
    sequences: usize,
    length: usize,
}

const WIDE: Shape = Shape {
    hidden: 2048,
    inner: 6144,
    heads: 16,
    kv_heads: 8,
    dim: 128,
    vocabulary: 151_936,
    sequences: 8,
    length: 4096,
};
/// Small enough for a CPU: shows that the measurement works, its numbers mean nothing.
const NARROW: Shape =
    Shape { hidden: 64, inner: 192, heads: 4, kv_heads: 2, dim: 16, vocabulary: 4096, sequences: 2, length: 64 };
/// The vocabulary where the head is not to count.
const SMALL_VOCABULARY: usize = 256;

pub(crate) fn measure(part: &mut ReportPart<'_>, device: &Device, effort: Effort) -> Result<()> {
    let wide = if device.is_cuda() { WIDE } else { NARROW };
    let mut shapes = vec![wide];
    if effort == Effort::Table {
        let with_shape = |sequences, length| Shape { sequences, length, ..wide };
        shapes = vec![
            with_shape(2 * wide.sequences, wide.length / 2),
            wide,
            with_shape(wide.sequences / 2, 2 * wide.length),
        ];
    }
    for (shape, &path) in shapes.iter().flat_map(|shape| KernelPath::on(device).iter().map(move |path| (shape, path))) {
        let one = shape.pass(path, device, 1, SMALL_VOCABULARY)?;
        let two = shape.pass(path, device, 2, SMALL_VOCABULARY)?;
        let full = shape.pass(path, device, 1, shape.vocabulary)?;
        for (what, seconds, flops) in
            [("layer", two - one, shape.layer_flops()), ("head", full - one, shape.head_flops())]
        {
            part.fact(json!({
                "what": what, "path": path.name(), "dtype": "bf16", "sequences": shape.sequences, "length": shape.length,
                "hidden": shape.hidden, "seconds": seconds, "tflops": flops / seconds / 1e12,
                "share_of_989_tflops": flops / seconds / PEAK,
            }));
        }
        part.fact(json!({
            "what": "pass of one layer and the head", "path": path.name(), "sequences": shape.sequences, "length": shape.length,
            "seconds": full, "tokens_per_second": (shape.sequences * shape.length) as f64 / full,
        }));
    }
    Ok(())
}

impl Shape {
    /// Seconds of one forward and backward pass: the fastest of some, after one that does not count.
    fn pass(self, path: KernelPath, device: &Device, layers: usize, vocabulary: usize) -> Result<f64> {
        let config = Config {
            vocab_size: vocabulary,
            hidden_size: self.hidden,
            intermediate_size: self.inner,
            num_layers: layers,
            num_heads: self.heads,
            num_kv_heads: self.kv_heads,
            head_dim: self.dim,
            max_position_embeddings: self.length + 1,
            ..qwen3_1_7b()
        };
        let mut batch = Packed::default();
        for sequence in 0..self.sequences {
            // The last token is scored, and no input.
            let id = |at: usize| ((at * 7919 + sequence * 104_729) % vocabulary) as u32;
            let ids: Vec<u32> = (0..=self.length).map(id).collect();
            batch.push(&config, &ids, 1..ids.len())?;
        }
        let parameters = Parameters::random(&config, 0, 0.02, device)?;
        let mut network = path.network(config, parameters, DType::BF16)?;
        let batches = [batch];
        fastest(device, || Ok(network.accumulate(&batches, 1.0, &Even)?))
    }

    /// 6 N T for the products and 6 s² heads dim for each sequence's causal attention, forward and backward.
    fn layer_flops(self) -> f64 {
        let width = self.heads * self.dim;
        let weights =
            2 * self.hidden * width + 2 * self.hidden * self.kv_heads * self.dim + 3 * self.hidden * self.inner;
        let tokens = (self.sequences * self.length) as f64;
        let squares = (self.sequences * self.length * self.length) as f64;
        6.0 * weights as f64 * tokens + 6.0 * squares * width as f64
    }

    /// 6 N T.
    fn head_flops(self) -> f64 {
        6.0 * ((self.vocabulary - SMALL_VOCABULARY) * self.hidden) as f64 * (self.sequences * self.length) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_token_of_a_whole_model_is_that_of_the_published_formula() {
        // Qwen3-1.7B has 28 layers; 11.74 GFLOP a token at 4k.
        let tokens = (WIDE.sequences * WIDE.length) as f64;
        let head = WIDE.head_flops() * WIDE.vocabulary as f64 / (WIDE.vocabulary - SMALL_VOCABULARY) as f64;
        let token = (28.0 * WIDE.layer_flops() + head) / tokens;
        assert!((token / 11.74e9 - 1.0).abs() < 1e-3, "{token:e}");
    }
}
