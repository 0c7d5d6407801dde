//! Attention in one call, as a library must compute it.

use evenkeel_kernels::{FusedAttention, FusedPass, FusedShape, Pointer, Type};
use evenkeel_model::kernels::cuda::Cuda;
use evenkeel_model::kernels::{Arrays, Attention, AttentionForward, AttentionOptions, HeadShape, Rows};

use crate::Runner;
use crate::case::{Case, assert_close, cpu, matrix, tensor, values};
use crate::host::Host;
use crate::memory::bf16_bits;

/// Every pair of widths and ways to share keys.
const HEADS: [HeadShape; 4] = [
    HeadShape { heads: 2, kv_heads: 1, dim: 64 },
    HeadShape { heads: 2, kv_heads: 2, dim: 64 },
    HeadShape { heads: 4, kv_heads: 2, dim: 128 },
    HeadShape { heads: 7, kv_heads: 1, dim: 128 },
];

/// Computes a pass over this process's memory, one value after another, in f64.
///
/// # Panics
/// If lengths and offsets contradict the shape.
pub fn attend(attention: &FusedAttention) {
    let FusedShape { sequences, longest, heads, kv_heads, dim } = attention.shape;
    let of = &attention.arrays;
    let mut tokens = 0;
    for sequence in 0..sequences {
        let length = read_i32(of.lengths, sequence) as usize;
        assert!(length <= longest, "{length} tokens in {:?}", attention.shape);
        tokens += length;
        let begin = |offsets: Pointer, width: usize| {
            let [first, end] = [0, 1].map(|next| read_i32(offsets, sequence + next) as usize);
            // The next sequence begins where this one ends, if there is one behind it.
            assert!(first.is_multiple_of(width) && (length == 0 || end >= first + length * width), "{attention:?}");
            first
        };
        let at = Sequence {
            length,
            queries: begin(of.query_offsets, heads * dim),
            keys: begin(of.key_offsets, kv_heads * dim),
            sums: begin(of.sum_offsets, heads),
        };
        for head in 0..heads {
            match attention.pass {
                FusedPass::Forward => forward(attention, &at, head),
                FusedPass::Backward | FusedPass::DeterministicBackward => backward(attention, &at, head),
            }
        }
    }
    assert_eq!(tokens, attention.tokens);
}

/// Tokens of a sequence, and where its values begin.
struct Sequence {
    length: usize,
    queries: usize,
    keys: usize,
    sums: usize,
}

/// Rows of one head of an array of a sequence.
#[derive(Clone, Copy)]
struct Head {
    at: Pointer,
    first: usize,
    stride: usize,
    dim: usize,
}

impl Head {
    fn row(self, row: usize) -> Vec<f64> {
        (0..self.dim).map(|i| read(Type::Bf16, self.at, self.first + row * self.stride + i)).collect()
    }

    fn set(self, row: usize, values: &[f64]) {
        for (i, value) in values.iter().enumerate() {
            write(Type::Bf16, self.at, self.first + row * self.stride + i, *value);
        }
    }
}

fn of_query(attention: &FusedAttention, at: Pointer, sequence: &Sequence, head: usize) -> Head {
    let FusedShape { heads, dim, .. } = attention.shape;
    Head { at, first: sequence.queries + head * dim, stride: heads * dim, dim }
}

fn of_key(attention: &FusedAttention, at: Pointer, sequence: &Sequence, head: usize) -> Head {
    let FusedShape { heads, kv_heads, dim, .. } = attention.shape;
    Head { at, first: sequence.keys + head / (heads / kv_heads) * dim, stride: kv_heads * dim, dim }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], factor: f64, x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += factor * x);
}

/// The scores of a query, one for each key that it sees.
fn scores(q: Head, k: Head, row: usize) -> Vec<f64> {
    let query = q.row(row);
    (0..=row).map(|key| dot(&query, &k.row(key)) / (q.dim as f64).sqrt()).collect()
}

fn forward(attention: &FusedAttention, sequence: &Sequence, head: usize) {
    let of = &attention.arrays;
    let [q, out] = [of.q, of.out].map(|at| of_query(attention, at, sequence, head));
    let [k, v] = [of.k, of.v].map(|at| of_key(attention, at, sequence, head));
    for row in 0..sequence.length {
        let scores = scores(q, k, row);
        let largest = scores.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
        let mut result = vec![0.0; q.dim];
        for (key, score) in scores.iter().enumerate() {
            add(&mut result, (score - largest).exp() / sum, &v.row(key));
        }
        out.set(row, &result);
        write(Type::F32, of.log_sum, sequence.sums + row * attention.shape.heads + head, largest + sum.ln());
    }
}

fn backward(attention: &FusedAttention, sequence: &Sequence, head: usize) {
    let (of, back) = (&attention.arrays, &attention.gradients);
    let [q, out, dout, dq] = [of.q, of.out, back.dout, back.dq].map(|at| of_query(attention, at, sequence, head));
    let [k, v, dk, dv] = [of.k, of.v, back.dk, back.dv].map(|at| of_key(attention, at, sequence, head));
    let scale = 1.0 / (q.dim as f64).sqrt();
    let [mut dkeys, mut dvalues] = [(); 2].map(|()| vec![vec![0.0; q.dim]; sequence.length]);
    for row in 0..sequence.length {
        let (query, gradient) = (q.row(row), dout.row(row));
        let log_sum = read(Type::F32, of.log_sum, sequence.sums + row * attention.shape.heads + head);
        let dots = dot(&gradient, &out.row(row));
        let mut result = vec![0.0; q.dim];
        for (key, score) in scores(q, k, row).into_iter().enumerate() {
            let weight = (score - log_sum).exp();
            let dscore = weight * (dot(&gradient, &v.row(key)) - dots) * scale;
            add(&mut result, dscore, &k.row(key));
            add(&mut dkeys[key], dscore, &query);
            add(&mut dvalues[key], weight, &gradient);
        }
        dq.set(row, &result);
    }
    // The first head of those that share keys overwrites what is there.
    let is_first = head.is_multiple_of(attention.shape.heads / attention.shape.kv_heads);
    for (to, sums) in [(dk, dkeys), (dv, dvalues)] {
        for (row, mut sum) in sums.into_iter().enumerate() {
            if !is_first {
                add(&mut sum, 1.0, &to.row(row));
            }
            to.set(row, &sum);
        }
    }
}

fn read_i32(Pointer(at): Pointer, index: usize) -> i32 {
    // SAFETY: a value of a live buffer; the checks' shapes are those of their buffers.
    unsafe { (at as *const i32).add(index).read_unaligned() }
}

fn read(kind: Type, Pointer(at): Pointer, index: usize) -> f64 {
    // SAFETY: as above.
    let value = unsafe {
        match kind {
            Type::F32 => (at as *const f32).add(index).read_unaligned(),
            Type::Bf16 => f32::from_bits(u32::from((at as *const u16).add(index).read_unaligned()) << 16),
        }
    };
    value.into()
}

fn write(kind: Type, Pointer(at): Pointer, index: usize, value: f64) {
    // SAFETY: as above.
    unsafe {
        match kind {
            Type::F32 => (at as *mut f32).add(index).write_unaligned(value as f32),
            Type::Bf16 => (at as *mut u16).add(index).write_unaligned(bf16_bits(value as f32)),
        }
    }
}

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
        let mut of = |heads: usize| case.of(Type::Bf16, rows * heads * shape.dim);
        let [q, k, v, dout] = [shape.heads, shape.kv_heads, shape.kv_heads, shape.heads].map(&mut of);
        Self { shape, starts, q, k, v, dout }
    }

    fn on(&self, runner: &dyn Runner, deterministic: bool) -> Results {
        let options = AttentionOptions { deterministic, ..AttentionOptions::default() };
        let cuda = Cuda::new(Host::new(runner), candle_core::DType::BF16).unwrap().with_attention(options);
        let rows = self.starts[self.starts.len() - 1];
        let ids: Vec<u32> = (0..rows as u32).collect();
        let upload = |values: &[f32]| cuda.embed(&tensor(values, &[rows, values.len() / rows]), &ids).unwrap();
        let [q, k, v, dout] = [&self.q, &self.k, &self.v, &self.dout].map(|values| upload(values));
        let (out, log_sum) = cuda.attention(&q, &k, &v, self.shape, &self.starts).unwrap();
        let forward = AttentionForward { q: &q, k: &k, v: &v, out: &out, log_sum: &log_sum };
        let gradients = cuda.attention_backward(&dout, forward, self.shape, &self.starts).unwrap();
        let [dq, dk, dv] = gradients.map(|matrix| cuda.to_host(&matrix).unwrap());
        [cuda.to_host(&out).unwrap(), cuda.to_host(&log_sum).unwrap(), dq, dk, dv]
    }

    fn on_the_cpu(&self) -> Results {
        let rows = self.starts[self.starts.len() - 1];
        let [q, k, v, dout] = [&self.q, &self.k, &self.v, &self.dout].map(|x| matrix(x, x.len() / rows));
        let (out, log_sum) = cpu().attention(&q, &k, &v, self.shape, &self.starts).unwrap();
        let forward = AttentionForward { q: &q, k: &k, v: &v, out: &out, log_sum: &log_sum };
        let [dq, dk, dv] = cpu().attention_backward(&dout, forward, self.shape, &self.starts).unwrap();
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
