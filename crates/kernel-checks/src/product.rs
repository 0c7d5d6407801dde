//! Products as a device must compute them.

use evenkeel_kernels::{Operand, Pointer, Product, Type};
use evenkeel_model::kernels::Linear;

use crate::Runner;
use crate::case::{Case, TYPES, assert_close, cpu, matrix, tensor, values};
use crate::memory::{Buffer, bf16_bits};

/// Computes a product over this process's memory, one value after another.
///
/// # Panics
/// If the product is refused by [`Product::validate`].
pub fn multiply(product: &Product) {
    product.validate().unwrap();
    let Product { rows, columns, inner, batch, a, b, to, .. } = *product;
    for element in 0..batch {
        // The result may be added to itself: each value is read before it is written.
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let terms =
                (0..inner).map(|i| f64::from(read(a, element, row, i)) * f64::from(read(b, element, i, column)));
            let sum = f64::from(product.factor) * terms.sum::<f64>();
            let added = match product.add {
                Pointer::NULL => 0.0,
                add => f64::from(read(Operand { at: add, ..to }, element, row, column)),
            };
            write(to, element, row, column, (sum + added) as f32);
        }
    }
}

fn address(operand: Operand, element: usize, row: usize, column: usize) -> u64 {
    let (row, column) = if operand.transposed { (column, row) } else { (row, column) };
    operand.at.0 + ((element * operand.batch_stride + row * operand.stride + column) * operand.kind.size()) as u64
}

pub(crate) fn read(operand: Operand, element: usize, row: usize, column: usize) -> f32 {
    let at = address(operand, element, row, column);
    // SAFETY: a value of a live buffer; the checks' shapes are those of their buffers.
    unsafe {
        match operand.kind {
            Type::F32 => (at as *const f32).read_unaligned(),
            Type::Bf16 => f32::from_bits(u32::from((at as *const u16).read_unaligned()) << 16),
        }
    }
}

pub(crate) fn write(operand: Operand, element: usize, row: usize, column: usize, value: f32) {
    let at = address(operand, element, row, column);
    // SAFETY: as above.
    unsafe {
        match operand.kind {
            Type::F32 => (at as *mut f32).write_unaligned(value),
            Type::Bf16 => (at as *mut u16).write_unaligned(bf16_bits(value)),
        }
    }
}

/// (rows, inner, columns): single values, odd sizes, whole ones.
const SHAPES: [[usize; 3]; 5] = [[1, 1, 1], [3, 5, 7], [1, 64, 9], [33, 17, 1], [16, 40, 24]];

pub(crate) fn products(runner: &dyn Runner) {
    for (seed, sizes) in SHAPES.into_iter().enumerate() {
        let [rows, inner, columns] = sizes;
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let x = case.of(kind, rows * inner);
            let weight = case.of(kind, columns * inner);
            let dy = case.of(kind, rows * columns);
            let residual = case.of(kind, rows * columns);
            let [x_at, weight_at, dy_at, residual_at] =
                [&x, &weight, &dy, &residual].map(|values| Buffer::values(kind, values, 0));
            let operand = |buffer: &Buffer, stride| Operand::rows(buffer.pointer(), kind, stride);
            let [x_in, dy_in] = [matrix(&x, inner), matrix(&dy, columns)];
            let weight_in = tensor(&weight, &[columns, inner]);
            let name = format!("{sizes:?} {kind:?}");

            let y = Buffer::blank(kind, rows * columns);
            let product =
                Product::new(sizes, operand(&x_at, inner), operand(&weight_at, inner).t(), operand(&y, columns));
            runner.multiply(&product.plus(residual_at.pointer()));
            let wanted = cpu().linear(&x_in, &weight_in, None, Some(&matrix(&residual, columns))).unwrap();
            assert_close(&format!("y of {name}"), kind, 8.0, &y.read(kind), &values(&wanted));

            let dx = Buffer::blank(kind, rows * inner);
            let sizes = [rows, columns, inner];
            runner.multiply(&Product::new(
                sizes,
                operand(&dy_at, columns),
                operand(&weight_at, inner),
                operand(&dx, inner),
            ));
            let wanted = cpu().linear_backward_input(&dy_in, &weight_in, None).unwrap();
            assert_close(&format!("dx of {name}"), kind, 8.0, &dx.read(kind), &values(&wanted));

            let before = case.normal(columns * inner);
            let dweight = Buffer::f32(&before);
            let to = Operand::rows(dweight.pointer(), Type::F32, inner);
            let product = Product::new([columns, rows, inner], operand(&dy_at, columns).t(), operand(&x_at, inner), to);
            runner.multiply(&product.plus(dweight.pointer()));
            let mut wanted = before;
            cpu().linear_backward_weight(&dy_in, &x_in, &mut wanted).unwrap();
            assert_close(&format!("dw of {name}"), Type::F32, 64.0, &dweight.read_f32(), &wanted);
        }
    }
}

/// Heads side by side in one row, a left factor for all of them, and rows longer than they need to be.
pub(crate) fn batches(runner: &dyn Runner) {
    let heads = 3;
    let queries = 5;
    let keys = 11;
    let dim = 4;
    let stride = 16;
    for kind in TYPES {
        let mut case = Case::new(9);
        let q = case.of(kind, queries * heads * dim);
        let k = case.of(kind, keys * dim);
        let [q_at, k_at] = [&q, &k].map(|values| Buffer::values(kind, values, 0));
        let scores = Buffer::f32(&vec![7.0; heads * queries * stride]);
        let left = Operand::rows(q_at.pointer(), kind, heads * dim).every(dim);
        let right = Operand::rows(k_at.pointer(), kind, dim).t();
        let to = Operand::rows(scores.pointer(), Type::F32, stride).every(queries * stride);
        let product = Product { factor: 0.5, ..Product::new([queries, dim, keys], left, right, to).batch(heads) };
        runner.multiply(&product);
        let wanted: Vec<f32> = (0..heads * queries * stride)
            .map(|at| {
                let head = at / (queries * stride);
                let query = at / stride % queries;
                let key = at % stride;
                let term = |i: usize| q[query * heads * dim + head * dim + i] * k[key * dim + i];
                // Behind the keys nothing is written.
                if key < keys { 0.5 * (0..dim).map(term).sum::<f32>() } else { 7.0 }
            })
            .collect();
        assert_close(&format!("{kind:?}"), Type::F32, 8.0, &scores.read_f32(), &wanted);
    }
}
