//! Attention in one call against the CPU's.

use evenkeel_kernels::Type;
use evenkeel_model::Segment;
use evenkeel_model::kernels::cuda::Cuda;
use evenkeel_model::kernels::{Arrays, Attention, AttentionForward, AttentionOptions, HeadShape, Rows};

use crate::Runner;
use crate::case::{Case, assert_close, cpu, matrix, tensor, values};
use crate::host::Host;

/// Every pair of widths and ways to share keys.
const HEADS: [HeadShape; 4] = [
    HeadShape { heads: 2, kv_heads: 1, dim: 64 },
    HeadShape { heads: 2, kv_heads: 2, dim: 64 },
    HeadShape { heads: 4, kv_heads: 2, dim: 128 },
    HeadShape { heads: 7, kv_heads: 1, dim: 128 },
];

/// Output, logarithms and gradients of packed sequences.
type Results = [Vec<f32>; 5];

struct Inputs {
    shape: HeadShape,
    starts: Vec<usize>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    dout: Vec<f32>,
}

impl Inputs {
    /// Up to seven sequences, some of them empty, shorter and longer than a block of the library's kernels.
    fn random(seed: u64, shape: HeadShape) -> Self {
        let mut case = Case::new(seed);
        let mut starts = vec![0];
        for _ in 0..case.between(1, 7) {
            let length = case.one_of(&[0, 1, 2, 17, 63, 64, 65, 130]);
            starts.push(starts[starts.len() - 1] + length);
        }
        // At least one token.
        starts.push(starts[starts.len() - 1] + case.between(1, 40));
        let rows = starts[starts.len() - 1];
        let mut values = |heads: usize| case.of(Type::Bf16, rows * heads * shape.dim);
        let [q, k, v, dout] = [shape.heads, shape.kv_heads, shape.kv_heads, shape.heads].map(&mut values);
        Self { shape, starts, q, k, v, dout }
    }

    fn on(&self, runner: &dyn Runner, deterministic: bool) -> Results {
        let options = AttentionOptions { deterministic, ..AttentionOptions::default() };
        let cuda = Cuda::new(Host::new(runner), candle_core::DType::BF16).unwrap().with_attention(options);
        let rows = self.starts[self.starts.len() - 1];
        let ids: Vec<u32> = (0..rows as u32).collect();
        let upload = |values: &[f32]| cuda.embed(&tensor(values, &[rows, values.len() / rows]), &ids).unwrap();
        let [q, k, v, dout] = [&self.q, &self.k, &self.v, &self.dout].map(|values| upload(values));
        let (out, log_sum) = cuda.attention(&q, &k, &v, self.shape, &Segment::whole_sequences(&self.starts)).unwrap();
        let forward = AttentionForward { q: &q, k: &k, v: &v, out: &out, log_sum: &log_sum };
        let gradients =
            cuda.attention_backward(&dout, forward, self.shape, &Segment::whole_sequences(&self.starts)).unwrap();
        let [dq, dk, dv] = gradients.map(|matrix| cuda.to_host(&matrix).unwrap());
        [cuda.to_host(&out).unwrap(), cuda.to_host(&log_sum).unwrap(), dq, dk, dv]
    }

    fn on_the_cpu(&self) -> Results {
        let rows = self.starts[self.starts.len() - 1];
        let [q, k, v, dout] = [&self.q, &self.k, &self.v, &self.dout].map(|x| matrix(x, x.len() / rows));
        let (out, log_sum) = cpu().attention(&q, &k, &v, self.shape, &Segment::whole_sequences(&self.starts)).unwrap();
        let forward = AttentionForward { q: &q, k: &k, v: &v, out: &out, log_sum: &log_sum };
        let [dq, dk, dv] =
            cpu().attention_backward(&dout, forward, self.shape, &Segment::whole_sequences(&self.starts)).unwrap();
        [&out, &log_sum, &dq, &dk, &dv].map(values)
    }
}

pub(crate) fn packed(runner: &dyn Runner) {
    for (seed, shape) in HEADS.into_iter().cycle().take(3 * HEADS.len()).enumerate() {
        let inputs = Inputs::random(seed as u64, shape);
        let wanted = inputs.on_the_cpu();
        for deterministic in [false, true] {
            let found = inputs.on(runner, deterministic);
            let name = format!("{shape:?} {:?} deterministic {deterministic}", inputs.starts);
            assert_close(&format!("out of {name}"), Type::Bf16, 16.0, &found[0], &wanted[0]);
            // Scores, and so logarithms of their sums, are fp32.
            assert_close(&format!("log sum of {name}"), Type::F32, 64.0, &found[1], &wanted[1]);
            // Together: with one token the gradients of queries and keys are what is left of equal terms.
            let [found, wanted] = [&found, &wanted].map(|results| results[2..].concat());
            assert_close(&format!("dq, dk and dv of {name}"), Type::Bf16, 32.0, &found, &wanted);
        }
    }
}

pub(crate) fn repeated(runner: &dyn Runner) {
    for (seed, shape) in HEADS.into_iter().enumerate() {
        let inputs = Inputs::random(100 + seed as u64, shape);
        let first = inputs.on(runner, true);
        for _ in 0..4 {
            let bits = |results: &Results| results.concat().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert!(bits(&first) == bits(&inputs.on(runner, true)), "{shape:?} {:?}", inputs.starts);
        }
    }
}
