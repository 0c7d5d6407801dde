//! Attention in one call over this process's memory, as a library computes it on a GPU.

use evenkeel_kernels::{FusedAttention, FusedPass, FusedShape, Pointer, Type};

use crate::memory::{bf16_bits, rounded};

/// What probabilities and gradients of scores are held in before they are multiplied with values, keys and queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factors {
    /// f64: only results are rounded.
    Exact,
    /// bf16, as flash attention and cuDNN hold them for their matrix units; sums stay exact.
    Bf16,
}

impl Factors {
    fn round(self, value: f64) -> f64 {
        match self {
            Self::Exact => value,
            Self::Bf16 => rounded(Type::Bf16, value as f32).into(),
        }
    }
}

/// Computes a pass over this process's memory, one value after another, with sums in f64.
///
/// # Panics
/// If lengths and offsets contradict the shape.
pub fn attend(attention: &FusedAttention, factors: Factors) {
    let FusedShape { sequences, longest, heads, kv_heads, dim } = attention.shape;
    let of = &attention.arrays;
    let mut tokens = 0;
    for sequence in 0..sequences {
        let length = read_i32(of.lengths, sequence) as usize;
        assert!(length <= longest, "{length} tokens in {:?}", attention.shape);
        tokens += length;
        let begin = |offsets: Pointer, width: usize| {
            let [first, end] = [0, 1].map(|next| read_i32(offsets, sequence + next) as usize);
            // The next sequence begins where this one ends, if there is one after it.
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
                FusedPass::Forward => forward(attention, factors, &at, head),
                FusedPass::Backward | FusedPass::DeterministicBackward => backward(attention, factors, &at, head),
            }
        }
        if attention.pass != FusedPass::Forward && attention.shape.shares_keys() {
            sum_heads(attention, &at);
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

fn forward(attention: &FusedAttention, factors: Factors, sequence: &Sequence, head: usize) {
    let of = &attention.arrays;
    let [q, out] = [of.q, of.out].map(|at| of_query(attention, at, sequence, head));
    let [k, v] = [of.k, of.v].map(|at| of_key(attention, at, sequence, head));
    for row in 0..sequence.length {
        let scores = scores(q, k, row);
        let largest = scores.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
        let mut result = vec![0.0; q.dim];
        for (key, score) in scores.iter().enumerate() {
            // Before the division, which flash attention leaves to the end.
            add(&mut result, factors.round((score - largest).exp()), &v.row(key));
        }
        result.iter_mut().for_each(|value| *value /= sum);
        out.set(row, &result);
        write(Type::F32, of.log_sum, sequence.sums + row * attention.shape.heads + head, largest + sum.ln());
    }
}

fn backward(attention: &FusedAttention, factors: Factors, sequence: &Sequence, head: usize) {
    let of = &attention.arrays;
    let back = &attention.gradients;
    let [q, out, dout, dq] = [of.q, of.out, back.dout, back.dq].map(|at| of_query(attention, at, sequence, head));
    let [k, v] = [of.k, of.v].map(|at| of_key(attention, at, sequence, head));
    let [dk, dv] = if attention.shape.shares_keys() {
        [back.dk_heads, back.dv_heads].map(|at| of_query(attention, at, sequence, head))
    } else {
        [back.dk, back.dv].map(|at| of_key(attention, at, sequence, head))
    };
    let scale = 1.0 / (q.dim as f64).sqrt();
    let [mut dkeys, mut dvalues] = [(); 2].map(|()| vec![vec![0.0; q.dim]; sequence.length]);
    for row in 0..sequence.length {
        let query = q.row(row);
        let gradient = dout.row(row);
        let log_sum = read(Type::F32, of.log_sum, sequence.sums + row * attention.shape.heads + head);
        let dots = dot(&gradient, &out.row(row));
        let mut result = vec![0.0; q.dim];
        for (key, score) in scores(q, k, row).into_iter().enumerate() {
            let weight = (score - log_sum).exp();
            let dscore = factors.round(weight * (dot(&gradient, &v.row(key)) - dots) * scale);
            add(&mut result, dscore, &k.row(key));
            add(&mut dkeys[key], dscore, &query);
            add(&mut dvalues[key], factors.round(weight), &gradient);
        }
        dq.set(row, &result);
    }
    for (to, sums) in [(dk, dkeys), (dv, dvalues)] {
        sums.iter().enumerate().for_each(|(row, sum)| to.set(row, sum));
    }
}

/// Gradients of keys and values out of those by query head, which are bf16 too.
fn sum_heads(attention: &FusedAttention, sequence: &Sequence) {
    let back = &attention.gradients;
    let each = attention.shape.heads / attention.shape.kv_heads;
    for (from, to) in [(back.dk_heads, back.dk), (back.dv_heads, back.dv)] {
        for first in (0..attention.shape.heads).step_by(each) {
            let to = of_key(attention, to, sequence, first);
            for row in 0..sequence.length {
                let mut sum = vec![0.0; to.dim];
                (first..first + each)
                    .for_each(|head| add(&mut sum, 1.0, &of_query(attention, from, sequence, head).row(row)));
                to.set(row, &sum);
            }
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

#[cfg(test)]
mod tests {
    use evenkeel_kernels::{FusedArrays, FusedGradients, FusedLayout};
    use evenkeel_model::Segment;
    use evenkeel_model::kernels::{Attention, AttentionForward, HeadShape};

    use super::*;
    use crate::case::{Case, cpu, matrix, values};
    use crate::memory::Buffer;

    /// |a - b| / |b| over all values.
    fn relative(a: &[f32], b: &[f32]) -> f64 {
        let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied())
    }

    /// How far output and gradients of packed sequences are from the CPU's fp32, which has the same inputs: relative.
    fn gaps(factors: Factors, heads: HeadShape, seed: u64) -> [f64; 4] {
        let mut case = Case::new(seed);
        let sequences = [(0, 65), (65, 1), (66, 190)];
        let rows = 256;
        let HeadShape { heads: query, kv_heads, dim } = heads;
        let [q, k, v, dout] = [query, kv_heads, kv_heads, query].map(|count| case.of(Type::Bf16, rows * count * dim));

        let shape = FusedShape { sequences: 3, longest: 190, heads: query, kv_heads, dim };
        let layout = FusedLayout::new(shape, &sequences).unwrap();
        let numbers = |list: &[i32]| Buffer::bytes_of(&list.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>());
        let lengths = numbers(&layout.lengths);
        let offsets = layout.offsets.each_ref().map(|list| numbers(list));
        let given = [&q, &k, &v, &dout].map(|list| Buffer::values(Type::Bf16, list, 0));
        let blank = |heads: usize| Buffer::blank(Type::Bf16, rows * heads * dim);
        let [out, dq, dk_heads, dv_heads] = [(); 4].map(|()| blank(query));
        let [dk, dv] = [(); 2].map(|()| blank(kv_heads));
        let log_sum = Buffer::blank_f32(rows * query);
        let mut attention = FusedAttention {
            shape,
            pass: FusedPass::Forward,
            tokens: rows,
            pairs: 0,
            arrays: FusedArrays {
                q: given[0].pointer(),
                k: given[1].pointer(),
                v: given[2].pointer(),
                out: out.pointer(),
                log_sum: log_sum.pointer(),
                lengths: lengths.pointer(),
                query_offsets: offsets[0].pointer(),
                key_offsets: offsets[1].pointer(),
                sum_offsets: offsets[2].pointer(),
            },
            gradients: FusedGradients {
                dout: given[3].pointer(),
                dq: dq.pointer(),
                dk: dk.pointer(),
                dv: dv.pointer(),
                dk_heads: dk_heads.pointer(),
                dv_heads: dv_heads.pointer(),
                ..FusedGradients::default()
            },
            workspace: Pointer::NULL,
        };
        attend(&attention, factors);
        attention.pass = FusedPass::Backward;
        attend(&attention, factors);
        let found = [&out, &dq, &dk, &dv].map(|buffer| buffer.read(Type::Bf16));

        let segments = Segment::whole_sequences(&[0, 65, 66, 256]);
        let [q, k, v, dout] = [&q, &k, &v, &dout].map(|list| matrix(list, list.len() / rows));
        let (out, log_sum) = cpu().attention(&q, &k, &v, heads, &segments).unwrap();
        let forward = AttentionForward { q: &q, k: &k, v: &v, out: &out, log_sum: &log_sum };
        let [dq, dk, dv] = cpu().attention_backward(&dout, forward, heads, &segments).unwrap();
        let wanted = [&out, &dq, &dk, &dv].map(values);
        std::array::from_fn(|at| relative(&found[at], &wanted[at]))
    }

    /// Rounding a value to bf16 is off by 2^-9 at most, and by about 2^-10 in the mean. The output and each gradient
    /// are rounded once. Factors that are rounded as well add as much again, since errors of a sum's terms have either
    /// sign; gradients of keys and values are rounded a second time where heads share them, and gradients of scores
    /// take over the output's error.
    #[test]
    fn bf16_factors_cost_attention_little_more_than_bf16_results() {
        for (seed, (heads, kv_heads, dim)) in [(2, 1, 64), (4, 4, 64), (4, 2, 128), (7, 1, 128)].into_iter().enumerate()
        {
            let shape = HeadShape { heads, kv_heads, dim };
            let [exact, rounded] = [Factors::Exact, Factors::Bf16].map(|factors| gaps(factors, shape, seed as u64));
            for (at, name) in ["out", "dq", "dk", "dv"].into_iter().enumerate() {
                let exact = exact[at];
                let rounded = rounded[at];
                assert!(exact < 0.003, "{name} of {shape:?}: {exact} with exact factors");
                assert!(rounded < 0.004, "{name} of {shape:?}: {rounded}");
                assert!(
                    rounded > 1.1 * exact,
                    "{name} of {shape:?}: {rounded} is no more than {exact}: nothing was rounded"
                );
            }
        }
    }
}
