use evenkeel_kernels::{HeadRows, ScoreBlock, Type, add, add_bias};
use evenkeel_model::Segment;
use evenkeel_model::kernels::cuda::Cuda;
use evenkeel_model::kernels::{Arrays, Attention, AttentionForward, HeadShape, Rows};

use crate::Runner;
use crate::case::{Case, TYPES, assert_close, cpu, matrix, tensor, values};
use crate::host::Host;
use crate::memory::{Buffer, rounded};

/// Heads that share keys, all of them and none, of whole and odd widths.
const HEADS: [HeadShape; 4] = [
    HeadShape { heads: 4, kv_heads: 2, dim: 8 },
    HeadShape { heads: 3, kv_heads: 1, dim: 5 },
    HeadShape { heads: 2, kv_heads: 2, dim: 16 },
    HeadShape { heads: 6, kv_heads: 3, dim: 3 },
];
/// The widths of real models.
const WIDE_HEADS: [HeadShape; 4] = [
    HeadShape { heads: 2, kv_heads: 1, dim: 64 },
    HeadShape { heads: 1, kv_heads: 1, dim: 96 },
    HeadShape { heads: 4, kv_heads: 2, dim: 128 },
    HeadShape { heads: 2, kv_heads: 2, dim: 256 },
];
/// One token, an empty sequence, blocks that are full and that are not.
const STARTS: [&[usize]; 4] = [&[0, 1], &[0, 1, 1, 6], &[0, 9, 26], &[0, 16, 17, 40]];

pub(crate) fn whole(runner: &dyn Runner) {
    let narrow = HEADS.iter().flat_map(|shape| STARTS.map(|starts| (*shape, starts)));
    let wide = WIDE_HEADS.map(|shape| (shape, STARTS[1]));
    for (seed, (shape, starts)) in narrow.chain(wide).enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let rows = starts[starts.len() - 1];
            let [width, kv_width] = [shape.heads * shape.dim, shape.kv_heads * shape.dim];
            let [q, dout] = [case.of(kind, rows * width), case.of(kind, rows * width)];
            let [k, v] = [case.of(kind, rows * kv_width), case.of(kind, rows * kv_width)];
            let compute = if kind == Type::F32 { candle_core::DType::F32 } else { candle_core::DType::BF16 };
            let cuda = Cuda::new(Host::new(runner), compute).unwrap().with_attention_block(8).unwrap();
            let ids: Vec<u32> = (0..rows as u32).collect();
            let upload = |values: &[f32], width: usize| cuda.embed(&tensor(values, &[rows, width]), &ids).unwrap();
            let [q_at, dout_at] = [upload(&q, width), upload(&dout, width)];
            let [k_at, v_at] = [upload(&k, kv_width), upload(&v, kv_width)];
            let segments = Segment::whole_sequences(starts);
            let (out, log_sum) = cuda.attention(&q_at, &k_at, &v_at, shape, &segments).unwrap();
            let forward = AttentionForward { q: &q_at, k: &k_at, v: &v_at, out: &out, log_sum: &log_sum };
            let found = cuda.attention_backward(&dout_at, forward, shape, &segments).unwrap();

            let [q, dout] = [matrix(&q, width), matrix(&dout, width)];
            let [k, v] = [matrix(&k, kv_width), matrix(&v, kv_width)];
            let (wanted_out, wanted_sum) = cpu().attention(&q, &k, &v, shape, &segments).unwrap();
            let forward = AttentionForward { q: &q, k: &k, v: &v, out: &wanted_out, log_sum: &wanted_sum };
            let wanted = cpu().attention_backward(&dout, forward, shape, &segments).unwrap();
            let name = format!("{shape:?} {starts:?} {kind:?}");
            // Scores, and so logarithms of their sums, are fp32 in both types.
            let sums = (cuda.to_host(&log_sum).unwrap(), values(&wanted_sum));
            assert_close(&format!("log sum of {name}"), Type::F32, 16.0, &sums.0, &sums.1);
            assert_close(&format!("out of {name}"), kind, 16.0, &cuda.to_host(&out).unwrap(), &values(&wanted_out));
            // Together: with one token the gradients of queries and keys are what is left of equal terms.
            let found = found.iter().flat_map(|matrix| cuda.to_host(matrix).unwrap()).collect::<Vec<_>>();
            let wanted = wanted.iter().flat_map(values).collect::<Vec<_>>();
            assert_close(&format!("dq, dk and dv of {name}"), kind, 32.0, &found, &wanted);
        }
    }
}

pub(crate) fn heads(runner: &dyn Runner) {
    for (seed, shape) in HEADS.into_iter().chain(WIDE_HEADS).enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let rows = case.between(1, 30);
            let HeadShape { heads, kv_heads, dim } = shape;
            let of = HeadRows { kind, rows, heads, kv_heads, dim };
            let x = case.of(kind, rows * heads * dim);
            let y = case.of(kind, rows * heads * dim);
            let offset = case.one_of(&[0, 1]);
            let x_at = Buffer::values(kind, &x, offset);
            let y_at = Buffer::values(kind, &y, 0);
            let dots = Buffer::blank_f32(rows * heads);
            runner.run(
                &of.dots(runner.properties(), x_at.pointer(), y_at.pointer(), dots.pointer()).unwrap(),
                seed as u32,
            );
            let pairs = x.chunks_exact(dim).zip(y.chunks_exact(dim));
            let wanted: Vec<f32> = pairs.map(|(x, y)| x.iter().zip(y).map(|(x, y)| x * y).sum()).collect();
            assert_close(&format!("dots of {of:?}"), Type::F32, 8.0, &dots.read_f32(), &wanted);

            let shared = case.of(kind, rows * kv_heads * dim);
            let from = Buffer::values(kind, &shared, offset);
            let to = Buffer::blank(kind, rows * heads * dim);
            runner.run(&of.repeat(runner.properties(), from.pointer(), to.pointer()).unwrap(), seed as u32);
            let each = heads / kv_heads;
            let source = |at: usize| at / (each * dim) * dim + at % dim;
            let wanted: Vec<f32> = (0..rows * heads * dim).map(|at| shared[source(at)]).collect();
            assert_eq!(to.read(kind), wanted, "{of:?}");

            let sums = case.normal(rows * heads * dim);
            let from = Buffer::f32(&sums);
            let to = Buffer::blank(kind, rows * kv_heads * dim);
            runner.run(&of.sum(runner.properties(), from.pointer(), to.pointer()).unwrap(), seed as u32);
            let mut wanted = vec![0.0; rows * kv_heads * dim];
            sums.iter().enumerate().for_each(|(at, value)| wanted[source(at)] += value);
            assert_close(&format!("sums of {of:?}"), kind, 4.0, &to.read(kind), &wanted);
        }
    }
}

/// The last queries of a long sequence, its only one, and the first of a block, against the formulas in f64.
pub(crate) fn long_rows(runner: &dyn Runner) {
    let blocks = [(1, 1, 0), (2, 3, 4094), (1, 1, 4096), (3, 2, 511), (1, 5, 0), (2, 9, 1020)];
    for (seed, (heads, queries, offset)) in blocks.into_iter().enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let keys = offset + queries;
            let scale = 0.3;
            let block = ScoreBlock { kind, heads, queries, keys, offset, scale };
            let stride = block.values() / (heads * queries);
            let [scores, dprobabilities] = [(); 2].map(|()| case.normal(block.values()));
            let dots = case.normal(queries * heads);
            let [at, dat, dots_at] = [&scores, &dprobabilities, &dots].map(|values| Buffer::f32(values));
            let [p, again, ds] = [(); 3].map(|()| Buffer::blank(kind, block.values()));
            let log_sum = Buffer::blank_f32(queries * heads);
            let chip = runner.properties();
            runner.run(&block.softmax(chip, at.pointer(), p.pointer(), log_sum.pointer()).unwrap(), seed as u32);
            let scores_at = [at.pointer(), dat.pointer()];
            let rows_at = [log_sum.pointer(), dots_at.pointer()];
            let launch = block.gradients(chip, scores_at, rows_at, [again.pointer(), ds.pointer()]).unwrap();
            runner.run(&launch, seed as u32);

            let [mut wanted_p, mut wanted_ds] = [(); 2].map(|()| Vec::new());
            let mut wanted_log = vec![0.0f32; queries * heads];
            for (head, query) in (0..heads).flat_map(|head| (0..queries).map(move |query| (head, query))) {
                let first = (head * queries + query) * stride;
                let seen = offset + query + 1;
                let z: Vec<f64> = scores[first..][..seen].iter().map(|&score| f64::from(score * scale)).collect();
                let log = z.iter().map(|z| z.exp()).sum::<f64>().ln();
                wanted_log[query * heads + head] = log as f32;
                let dot = f64::from(dots[query * heads + head]);
                for key in 0..keys {
                    let p = if key < seen { (z[key] - log).exp() } else { 0.0 };
                    let d = f64::from(dprobabilities[first + key]);
                    wanted_p.push(p as f32);
                    wanted_ds.push((p * (d - dot) * f64::from(scale)) as f32);
                }
            }
            let name = format!("{block:?}");
            let of_keys = |buffer: &Buffer| -> Vec<f32> {
                buffer.read(kind).chunks_exact(stride).flat_map(|row| row[..keys].to_vec()).collect()
            };
            assert_close(&format!("log sum of {name}"), Type::F32, 8.0, &log_sum.read_f32(), &wanted_log);
            assert_close(&format!("p of {name}"), kind, 32.0, &of_keys(&p), &wanted_p);
            assert_close(&format!("p again of {name}"), kind, 32.0, &of_keys(&again), &wanted_p);
            assert_close(&format!("ds of {name}"), kind, 32.0, &of_keys(&ds), &wanted_ds);
        }
    }
}

pub(crate) fn sums(runner: &dyn Runner) {
    for (seed, [rows, width]) in [[1, 1], [5, 8], [7, 33], [300, 40]].into_iter().enumerate() {
        let mut case = Case::new(seed as u64);
        let bias = case.normal(width);
        for kind in TYPES {
            let y = case.of(kind, rows * width);
            let at = Buffer::values(kind, &y, case.one_of(&[0, 1]));
            let of = Buffer::f32(&bias);
            runner.run(
                &add_bias(runner.properties(), kind, [rows, width], at.pointer(), of.pointer()).unwrap(),
                seed as u32,
            );
            let wanted: Vec<f32> =
                y.iter().enumerate().map(|(at, value)| rounded(kind, value + bias[at % width])).collect();
            assert_eq!(at.read(kind), wanted, "{rows} rows of {width} {kind:?}");
        }
        let a = case.normal(rows * width);
        let b = case.normal(rows * width);
        let into = Buffer::f32(&a);
        let other = Buffer::f32(&b);
        runner.run(&add(runner.properties(), a.len(), into.pointer(), other.pointer()).unwrap(), seed as u32);
        let wanted: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(into.read_f32(), wanted);
    }
}
