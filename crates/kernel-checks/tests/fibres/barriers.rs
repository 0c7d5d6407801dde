//! A barrier that is taken out must show, and with all of them no schedule may change a bit.

use evenkeel_kernels::{
    Clip, ColumnSum, HeadTables, Launch, Logits, Norm, NormBackward, NormRotary, Pointer, ScoreBlock, Type,
    global_norm, squares, token_scores,
};

use evenkeel_kernel_checks::Buffer;
use evenkeel_kernel_checks::case::Case;

use crate::shim::{CHIP, Schedule, Shim};

/// Random schedules of each launch.
const SCHEDULES: u32 = 12;

/// A launch, where its results go, and the numbers of its barriers.
struct Subject {
    launch: Launch,
    outputs: Vec<Buffer>,
    /// Kept as long as the launch.
    _inputs: Vec<Buffer>,
    barriers: Vec<u32>,
}

impl Subject {
    /// The bits of the results in a schedule.
    fn run(&self, shim: &Shim, schedule: Schedule) -> Vec<u8> {
        shim.try_run(&self.launch, schedule).unwrap();
        self.outputs.iter().flat_map(|buffer| buffer.bytes().to_vec()).collect()
    }
}

fn norm(kind: Type, width: usize) -> [Subject; 2] {
    let mut case = Case::new(width as u64);
    let norm = Norm { kind, runs: 40, width, epsilon: 1e-6 };
    let count = norm.runs * width;
    let inputs = |case: &mut Case| -> Vec<Buffer> {
        let mut arrays: Vec<Buffer> = [(); 2].map(|()| Buffer::values(kind, &case.of(kind, count), 0)).into();
        arrays.push(Buffer::f32(&case.normal(width)));
        arrays
    };
    let forward = inputs(&mut case);
    let backward = inputs(&mut case);
    let y = Buffer::blank(kind, count);
    let launch = norm.forward(CHIP, forward[0].pointer(), forward[2].pointer(), y.pointer()).unwrap();
    // A warp needs none.
    let barriers = if width > 512 { vec![0, 1] } else { Vec::new() };
    let forward = Subject { launch, outputs: vec![y], _inputs: forward, barriers };
    let outputs = vec![Buffer::blank(kind, count), Buffer::blank_f32(norm.partial_rows(CHIP) * width)];
    let at = NormBackward {
        dy: backward[0].pointer(),
        x: backward[1].pointer(),
        weight: backward[2].pointer(),
        into: Pointer::NULL,
        dx: outputs[0].pointer(),
        partial: outputs[1].pointer(),
    };
    // Where threads keep their part of the weight's gradient, nothing is handed over at the end.
    let barriers = match (kind, width > 512) {
        (Type::Bf16, true) => vec![0, 1],
        (Type::F32, true) => vec![0, 1, 2],
        (_, false) => vec![2],
    };
    let launch = norm.backward(CHIP, at).unwrap();
    [forward, Subject { launch, outputs, _inputs: backward, barriers }]
}

fn norm_rotary(kind: Type) -> Subject {
    let mut case = Case::new(7);
    let heads = NormRotary { kind, rows: 20, heads: 2, half: 32, epsilon: 1e-6 };
    let count = 20 * 2 * 64;
    let angles = 40 * 32;
    let mut inputs: Vec<Buffer> = [(); 2].map(|()| Buffer::values(kind, &case.of(kind, count), 0)).into();
    inputs.extend([64, angles, angles].map(|count| Buffer::f32(&case.normal(count))));
    inputs.push(Buffer::u32(&case.ids(20, 40)));
    let pointer = |which: usize| inputs[which].pointer();
    let tables = HeadTables { weight: pointer(2), cosines: pointer(3), sines: pointer(4), positions: pointer(5) };
    let outputs = vec![Buffer::blank(kind, count), Buffer::blank_f32(heads.partial_rows(CHIP) * 64)];
    let to = [outputs[0].pointer(), outputs[1].pointer()];
    let launch = heads.backward(CHIP, [pointer(0), pointer(1)], tables, to).unwrap();
    Subject { launch, outputs, _inputs: inputs, barriers: vec![0] }
}

fn column_sum() -> Subject {
    let x = Buffer::f32(&Case::new(1).normal(700 * 40));
    let workspace = Buffer::blank_f32(2 * 40);
    let sum = ColumnSum { kind: Type::F32, rows: 700, width: 40 };
    assert_eq!(sum.workspace(CHIP), 80);
    let launch = sum.launches(CHIP, x.pointer(), Pointer::NULL, workspace.pointer()).unwrap().remove(0);
    Subject { launch, outputs: vec![workspace], _inputs: vec![x], barriers: vec![0] }
}

fn scores() -> Subject {
    let mut case = Case::new(2);
    let rows = 30;
    let vocabulary = 1030;
    let inputs = vec![Buffer::f32(&case.normal(rows * vocabulary)), Buffer::u32(&case.ids(rows, vocabulary))];
    let outputs: Vec<Buffer> = (0..3).map(|_| Buffer::blank_f32(rows)).collect();
    let logits = inputs[0].pointer();
    let targets = inputs[1].pointer();
    let input = Logits { logits, targets, rows, vocabulary, temperature: 1.0, fast: false };
    let launch = token_scores(CHIP, input, [0, 1, 2].map(|at| outputs[at].pointer())).unwrap();
    Subject { launch, outputs, _inputs: inputs, barriers: vec![0, 1] }
}

fn softmax() -> Subject {
    let block = ScoreBlock { kind: Type::F32, heads: 2, queries: 20, keys: 600, offset: 580, scale: 0.3 };
    let scores = vec![Buffer::f32(&Case::new(6).normal(block.values()))];
    let outputs = vec![Buffer::blank_f32(block.values()), Buffer::blank_f32(block.heads * block.queries)];
    let launch = block.softmax(CHIP, scores[0].pointer(), outputs[0].pointer(), outputs[1].pointer()).unwrap();
    Subject { launch, outputs, _inputs: scores, barriers: vec![0, 1] }
}

fn norms_of_gradients() -> [Subject; 2] {
    let x = Buffer::f32(&Case::new(3).normal(5000));
    let partial = Buffer::blank_f64(evenkeel_kernels::square_parts(CHIP, 5000));
    let launch = squares(CHIP, x.pointer(), 5000, partial.pointer()).unwrap();
    let parts = Subject { launch, outputs: vec![partial], _inputs: vec![x], barriers: vec![0, 1] };
    // Sums of four values each: f64 with no zero among them.
    let sums = Buffer::f32(&Case::new(4).normal(2 * 300).into_iter().map(|x| x.abs() + 1.0).collect::<Vec<_>>());
    let norm = Buffer::blank_f64(1);
    let factor = Buffer::blank_f32(1);
    let clip = Clip { scale: 0.5, limit: 1.0 };
    let launch = global_norm(sums.pointer(), 300, norm.pointer(), factor.pointer(), clip).unwrap();
    [parts, Subject { launch, outputs: vec![norm, factor], _inputs: vec![sums], barriers: vec![0] }]
}

fn subjects() -> Vec<Subject> {
    let mut subjects = vec![column_sum(), scores(), softmax()];
    subjects.extend([Type::F32, Type::Bf16].map(norm_rotary));
    for (kind, width) in [(Type::F32, 64), (Type::F32, 600), (Type::Bf16, 600), (Type::Bf16, 2056)] {
        subjects.extend(norm(kind, width));
    }
    subjects.extend(norms_of_gradients());
    subjects
}

pub(crate) fn schedules_agree(shim: &Shim) {
    for subject in subjects() {
        let first = subject.run(shim, Schedule::of(0));
        for seed in 1..SCHEDULES {
            let again = subject.run(shim, Schedule::of(seed));
            assert!(again == first, "{}: schedule {seed} has other bits", subject.launch.kernel);
        }
    }
}

pub(crate) fn each_is_needed(shim: &Shim) {
    for subject in subjects() {
        let right = subject.run(shim, Schedule::of(0));
        for &barrier in &subject.barriers {
            let wrong =
                (0..SCHEDULES).filter(|&seed| subject.run(shim, Schedule { seed, without: Some(barrier) }) != right);
            let count = wrong.count();
            assert!(count > 0, "{}: barrier {barrier} can be taken out unnoticed", subject.launch.kernel);
        }
    }
}
