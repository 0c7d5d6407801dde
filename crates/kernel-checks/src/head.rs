use candle_core::Tensor;
use evenkeel_kernels::{Logits, Type, logit_gradients, token_scores};
use evenkeel_model::kernels::cpu::Matrix;
use evenkeel_model::kernels::{Coefficients, Head, HeadGradients, HeadInput, Scores};

use crate::Runner;
use crate::case::{Case, TYPES, assert_close, cpu, matrix, tensor};
use crate::memory::Buffer;

/// (rows, vocabulary): fewer logits than threads, odd ones, several steps of every thread.
const SHAPES: [(usize, usize); 9] =
    [(1, 1), (1, 7), (3, 32), (12, 100), (5, 1024), (11, 1030), (4, 3001), (2, 4097), (1, 151_937)];

/// Logits and the same as products: the hidden states are a unit matrix, and the weight's transpose holds the logits.
struct Chunk {
    rows: usize,
    vocabulary: usize,
    logits: Vec<f32>,
    targets: Vec<u32>,
    hidden: Matrix,
    weight: Tensor,
    temperature: f32,
    /// Whether the kernels compute by the multiprocessor's exponential.
    fast: bool,
}

impl Chunk {
    fn new(case: &mut Case, (rows, vocabulary): (usize, usize)) -> Self {
        let logits: Vec<f32> = case.normal(rows * vocabulary).into_iter().map(|x| 5.0 * x).collect();
        let unit: Vec<f32> = (0..rows * rows).map(|i| f32::from(u8::from(i % (rows + 1) == 0))).collect();
        let weight = tensor(&logits, &[rows, vocabulary]).t().unwrap().contiguous().unwrap();
        let targets = case.ids(rows, vocabulary);
        let temperature = case.one_of(&[1.0, 0.6, 1.7]);
        Self { rows, vocabulary, logits, targets, hidden: matrix(&unit, rows), weight, temperature, fast: false }
    }

    fn input(&self) -> HeadInput<'_, Matrix> {
        let Self { weight, targets, temperature, .. } = self;
        HeadInput { weight, adapter: None, targets, temperature: *temperature, chunk_rows: 1024 }
    }

    fn at(&self, logits: &Buffer, targets: &Buffer) -> Logits {
        let &Self { rows, vocabulary, temperature, fast, .. } = self;
        Logits { logits: logits.pointer(), targets: targets.pointer(), rows, vocabulary, temperature, fast }
    }
}

/// Log-probability, entropy and log-sum by the kernel.
fn run_scores(runner: &dyn Runner, chunk: &Chunk, seed: u32, offset: usize) -> [Vec<f32>; 3] {
    let logits = Buffer::values(Type::F32, &chunk.logits, offset);
    let targets = Buffer::u32(&chunk.targets);
    let out = [(); 3].map(|()| Buffer::blank_f32(chunk.rows));
    let launch =
        token_scores(runner.properties(), chunk.at(&logits, &targets), [0, 1, 2].map(|at| out[at].pointer())).unwrap();
    runner.run(&launch, seed);
    out.map(|buffer| buffer.read_f32())
}

pub(crate) fn scores(runner: &dyn Runner) {
    scores_by(runner, false);
}

pub(crate) fn fast_scores(runner: &dyn Runner) {
    scores_by(runner, true);
}

fn scores_by(runner: &dyn Runner, fast: bool) {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let mut case = Case::new(seed as u64);
        let chunk = Chunk { fast, ..Chunk::new(&mut case, shape) };
        let [logp, entropy, _] = run_scores(runner, &chunk, seed as u32, seed % 2);
        let (wanted, _) = cpu().head(&chunk.hidden, chunk.input()).unwrap();
        // These are differences of numbers of the size of logits.
        for (what, found, wanted) in [("logp", logp, wanted.logp), ("entropy", entropy, wanted.entropy)] {
            for (found, wanted) in found.iter().zip(&wanted) {
                assert!(
                    (found - wanted).abs() < 1e-5 * wanted.abs().max(1.0),
                    "{what} of {shape:?}: {found} for {wanted}"
                );
            }
        }
    }
}

pub(crate) fn gradients(runner: &dyn Runner) {
    gradients_by(runner, false);
}

pub(crate) fn fast_gradients(runner: &dyn Runner) {
    gradients_by(runner, true);
}

fn gradients_by(runner: &dyn Runner, fast: bool) {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let chunk = Chunk { fast, ..Chunk::new(&mut case, shape) };
            let [logp, entropy, log_sum] = run_scores(runner, &chunk, seed as u32, 0);
            let mut coefficients = Coefficients { logp: case.normal(chunk.rows), entropy: case.normal(chunk.rows) };
            if seed % 2 == 0 {
                coefficients.entropy.fill(0.0);
            }
            let logits = Buffer::f32(&chunk.logits);
            let targets = Buffer::u32(&chunk.targets);
            let rows =
                [&log_sum, &entropy, &coefficients.logp, &coefficients.entropy].map(|values| Buffer::f32(values));
            let [log_sum_at, entropy_at, dlogp, dentropy] = [0, 1, 2, 3].map(|at| rows[at].pointer());
            let separate = Buffer::blank(kind, chunk.logits.len());
            // In fp32 the gradients replace the logits.
            let out = if kind == Type::F32 { &logits } else { &separate };
            let launch = logit_gradients(
                runner.properties(),
                chunk.at(&logits, &targets),
                [log_sum_at, entropy_at],
                [dlogp, dentropy],
                (kind, out.pointer()),
            );
            runner.run(&launch.unwrap(), seed as u32);

            // With unit hidden states the gradient of the weight is that of the logits, transposed.
            let mut wanted = vec![0.0; chunk.logits.len()];
            let scores = Scores { logp, entropy };
            let sums = HeadGradients { weight: Some(&mut wanted), b: None };
            cpu().head_backward(&chunk.hidden, chunk.input(), &scores, None, &coefficients, sums).unwrap();
            let rows = chunk.rows;
            let vocabulary = chunk.vocabulary;
            let wanted: Vec<f32> =
                (0..rows * vocabulary).map(|i| wanted[i % vocabulary * rows + i / vocabulary]).collect();
            assert_close(&format!("{shape:?} {kind:?}"), kind, 32.0, &out.read(kind), &wanted);
        }
    }
}

pub(crate) fn broken(runner: &dyn Runner) {
    for (broken, fast) in [(f32::NAN, false), (f32::INFINITY, false), (f32::NAN, true), (f32::INFINITY, true)] {
        for at in [0, 31, 300, 1029] {
            let mut chunk = Chunk { fast, ..Chunk::new(&mut Case::new(1), (2, 1030)) };
            chunk.logits[1030 + at] = broken;
            let [logp, entropy, _] = run_scores(runner, &chunk, 0, 0);
            assert!(logp[0].is_finite() && entropy[0].is_finite());
            assert!(logp[1].is_nan() && entropy[1].is_nan(), "{broken} at {at}: {} and {}", logp[1], entropy[1]);
        }
    }
}
