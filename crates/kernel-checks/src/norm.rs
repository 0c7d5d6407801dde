use candle_core::DType;
use evenkeel_kernels::{ColumnSum, Norm, NormBackward, Pointer, Type};
use evenkeel_model::kernels::cuda::Cuda;
use evenkeel_model::kernels::{Arrays, HeadNorm, HeadNormInput, Linear, RmsNorm, Rotary, Rows};

use crate::Runner;
use crate::case::{Case, TYPES, assert_close, cpu, matrix, tensor, values};
use crate::elementwise::{POSITIONS, config};
use crate::host::Host;
use crate::memory::{Buffer, rounded};

/// Widths of heads and of rows, whole and odd ones, and those at which another kernel takes over.
const WIDTHS: [usize; 19] =
    [1, 3, 8, 64, 80, 96, 128, 256, 511, 512, 513, 520, 1024, 1537, 2048, 2056, 3584, 4097, 4104];

fn norm(case: &mut Case, kind: Type, width: usize) -> Norm {
    let most = if width > 512 { 12 } else { 90 };
    let some = case.between(1, most);
    let edge = case.one_of(&[0, 1, 2, 3]);
    // No run and a single one, too.
    let runs = if edge < 2 { edge } else { some };
    Norm { kind, runs, width, epsilon: 1e-6 }
}

/// Rows of several runs, as the CPU takes them.
pub(crate) fn forward(runner: &dyn Runner) {
    for (seed, (kind, width)) in TYPES.iter().flat_map(|kind| WIDTHS.map(|width| (*kind, width))).enumerate() {
        let mut case = Case::new(seed as u64);
        let norm = norm(&mut case, kind, width);
        let x = case.of(kind, norm.runs * width);
        let weight = case.normal(width);
        let offset = case.one_of(&[0, 1]);
        let buffers = [Buffer::values(kind, &x, offset), Buffer::f32(&weight), Buffer::blank(kind, x.len())];
        let [from, weights, to] = [0, 1, 2].map(|at| buffers[at].pointer());
        runner.run(&norm.forward(runner.properties(), from, weights, to).unwrap(), seed as u32);
        let wanted = cpu().rms_norm(&matrix(&x, width), &tensor(&weight, &[width]), 1e-6).unwrap();
        assert_close(&format!("{norm:?}"), kind, 4.0, &buffers[2].read(kind), &values(&wanted));
    }
}

/// Rows that are summed and normalised in one pass are those of a sum, rounded as it is kept, and of its norm.
pub(crate) fn sums_of_rows(runner: &dyn Runner) {
    let mut taken = 0;
    for (seed, (kind, width)) in TYPES.iter().flat_map(|kind| WIDTHS.map(|width| (*kind, width))).enumerate() {
        let mut case = Case::new(200 + seed as u64);
        let norm = norm(&mut case, kind, width);
        let count = norm.runs * width;
        let [x, residual] = [(); 2].map(|()| case.of(kind, count));
        let weight = case.normal(width);
        let [x_at, residual_at] = [&x, &residual].map(|list| Buffer::values(kind, list, 0));
        let weight_at = Buffer::f32(&weight);
        let [sum, y] = [(); 2].map(|()| Buffer::blank(kind, count));
        let inputs = [x_at.pointer(), residual_at.pointer()];
        let outputs = [sum.pointer(), y.pointer()];
        let launch = norm.forward_of_sum(runner.properties(), inputs, weight_at.pointer(), outputs).unwrap();
        let Some(launch) = launch else { continue };
        taken += 1;
        runner.run(&launch, seed as u32);
        let wanted: Vec<f32> = x.iter().zip(&residual).map(|(x, residual)| rounded(kind, x + residual)).collect();
        assert_eq!(sum.read(kind), wanted, "{norm:?}");
        let wanted = cpu().rms_norm(&matrix(&wanted, width), &tensor(&weight, &[width]), 1e-6).unwrap();
        assert_close(&format!("{norm:?}"), kind, 4.0, &y.read(kind), &values(&wanted));
    }
    // Rows in bf16 of 520 to 4,096 values, in whole steps of eight.
    assert_eq!(taken, 5);
}

pub(crate) fn backward(runner: &dyn Runner) {
    for (seed, (kind, width)) in TYPES.iter().flat_map(|kind| WIDTHS.map(|width| (*kind, width))).enumerate() {
        let mut case = Case::new(100 + seed as u64);
        let norm = norm(&mut case, kind, width);
        let count = norm.runs * width;
        let x = case.of(kind, count);
        let dy = case.of(kind, count);
        let into = case.of(kind, count);
        let weight = case.normal(width);
        let before = case.normal(width);
        let adds = seed % 3 != 1;

        // In place, as the network adds to a residual stream.
        let dx = if adds { Buffer::values(kind, &into, 0) } else { Buffer::blank(kind, count) };
        let rows = norm.partial_rows(runner.properties());
        let [partial, gradient] = [Buffer::blank_f32(rows * width), Buffer::f32(&before)];
        let dy_at = Buffer::values(kind, &dy, 0);
        let x_at = Buffer::values(kind, &x, 0);
        let weight_at = Buffer::f32(&weight);
        let at = NormBackward {
            dy: dy_at.pointer(),
            x: x_at.pointer(),
            weight: weight_at.pointer(),
            into: if adds { dx.pointer() } else { Pointer::NULL },
            dx: dx.pointer(),
            partial: partial.pointer(),
        };
        runner.run(&norm.backward(runner.properties(), at).unwrap(), seed as u32);
        add_columns(runner, ColumnSum { kind: Type::F32, rows, width }, &partial, &gradient, seed as u32);

        let mut wanted = before.clone();
        let into = adds.then(|| matrix(&into, width));
        let dy = matrix(&dy, width);
        let x = matrix(&x, width);
        let weight = tensor(&weight, &[width]);
        let wanted_dx = cpu().rms_norm_backward(&dy, &x, &weight, 1e-6, &mut wanted, into).unwrap();
        assert_close(&format!("dx of {norm:?}"), kind, 16.0, &dx.read(kind), &values(&wanted_dx));
        assert_close(&format!("dw of {norm:?}"), Type::F32, 16.0, &gradient.read_f32(), &wanted);
    }
}

/// Heads normalised and rotated in one pass, of every width that models have, beside both steps of the CPU.
pub(crate) fn rotated_heads(runner: &dyn Runner) {
    for (seed, half) in [1, 5, 8, 20, 32, 48, 64, 128, 256, 257].into_iter().enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let rows = case.one_of(&[1, 7, 30]);
            let heads = case.between(1, 4);
            let width = heads * 2 * half;
            let [x, dy] = [case.of(kind, rows * width), case.of(kind, rows * width)];
            let weight = tensor(&case.normal(2 * half), &[2 * half]);
            let config = config(2 * half);
            let positions = case.ids(rows, POSITIONS);
            let compute = if kind == Type::F32 { DType::F32 } else { DType::BF16 };
            let cuda = Cuda::new(Host::new(runner), compute).unwrap();
            let ids: Vec<u32> = (0..rows as u32).collect();
            let upload = |values: &[f32]| cuda.embed(&tensor(values, &[rows, width]), &ids).unwrap();
            let table = cuda.rotary_table(&config).unwrap();
            let input = HeadNormInput { weight: &weight, epsilon: 1e-6, table: &table, positions: &positions };
            let x_at = upload(&x);
            let y = cuda.norm_rotary(&x_at, &input).unwrap();
            let mut gradient = cuda.zero_gradient(&weight).unwrap();
            let dx = cuda.norm_rotary_backward(upload(&dy), &x_at, &input, &mut gradient).unwrap();
            let gradient = cuda.gradient_tensor(gradient, &weight).unwrap().to_vec1::<f32>().unwrap();

            let table = cpu().rotary_table(&config).unwrap();
            let input = HeadNormInput { weight: &weight, epsilon: 1e-6, table: &table, positions: &positions };
            let wanted = cpu().norm_rotary(&matrix(&x, width), &input).unwrap();
            let mut wanted_gradient = vec![0.0; 2 * half];
            let wanted_dx = cpu()
                .norm_rotary_backward(matrix(&dy, width), &matrix(&x, width), &input, &mut wanted_gradient)
                .unwrap();
            let name = format!("{rows} rows of {heads} heads of {} {kind:?}", 2 * half);
            assert_close(&format!("y of {name}"), kind, 4.0, &cuda.to_host(&y).unwrap(), &values(&wanted));
            assert_close(&format!("dx of {name}"), kind, 16.0, &cuda.to_host(&dx).unwrap(), &values(&wanted_dx));
            // Wider heads than a warp takes are rounded between both steps.
            let (exact, units) = if half > 256 { (kind, 4.0) } else { (Type::F32, 64.0) };
            assert_close(&format!("dw of {name}"), exact, units, &gradient, &wanted_gradient);
        }
    }
}

fn add_columns(runner: &dyn Runner, sum: ColumnSum, x: &Buffer, out: &Buffer, seed: u32) {
    let workspace = Buffer::blank_f32(sum.workspace(runner.properties()));
    for launch in sum.launches(runner.properties(), x.pointer(), out.pointer(), workspace.pointer()).unwrap() {
        runner.run(&launch, seed);
    }
    workspace.bytes();
}

pub(crate) fn column_sums(runner: &dyn Runner) {
    let shapes = [(1, 1), (1, 33), (7, 32), (511, 40), (513, 40), (1030, 5), (2000, 64), (4097, 96), (1, 256)];
    for (seed, (rows, width)) in shapes.into_iter().enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let x = case.of(kind, rows * width);
            let before = case.normal(width);
            let from = Buffer::values(kind, &x, 0);
            let out = Buffer::f32(&before);
            let sum = ColumnSum { kind, rows, width };
            assert_eq!(sum.workspace(runner.properties()) > 0, rows > 512, "{sum:?}");
            add_columns(runner, sum, &from, &out, seed as u32);
            let mut wanted = before.clone();
            cpu().linear_backward_bias(&matrix(&x, width), &mut wanted).unwrap();
            assert_close(&format!("{sum:?}"), Type::F32, 64.0, &out.read_f32(), &wanted);
        }
    }
}
