//! Products as a GPU's library computes them, fast enough for models of real width.

use candle_core::{Device, Tensor};
use evenkeel_kernels::{Operand, Pointer, Product};

use crate::product::{read, write};

/// Computes a product over this process's memory: terms and sums in fp32, in an order of the processor's own, the
/// result rounded once.
///
/// # Panics
/// If the product is refused by [`Product::validate`].
pub fn multiply_in_fp32(product: &Product) {
    product.validate().unwrap();
    let Product { rows, columns, inner, batch, a, b, to, .. } = *product;
    for element in 0..batch {
        let [left, right] =
            [(a, rows, inner), (b, inner, columns)].map(|(of, rows, columns)| values(of, element, rows, columns));
        let sums: Vec<f32> = left.matmul(&right).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        for (at, sum) in sums.into_iter().enumerate() {
            let row = at / columns;
            let column = at % columns;
            let added = match product.add {
                Pointer::NULL => 0.0,
                add => read(Operand { at: add, ..to }, element, row, column),
            };
            write(to, element, row, column, product.factor * sum + added);
        }
    }
}

/// A factor as (rows, columns) of fp32. What is transposed in memory is so in the tensor.
fn values(of: Operand, element: usize, rows: usize, columns: usize) -> Tensor {
    let (long, wide) = if of.transposed { (columns, rows) } else { (rows, columns) };
    let untransposed = Operand { transposed: false, ..of };
    let mut list = Vec::with_capacity(long * wide);
    for row in 0..long {
        list.extend((0..wide).map(|column| read(untransposed, element, row, column)));
    }
    let tensor = Tensor::from_vec(list, (long, wide), &Device::Cpu).unwrap();
    if of.transposed { tensor.t().unwrap() } else { tensor }
}

#[cfg(test)]
mod tests {
    use evenkeel_kernels::Type;

    use super::*;
    use crate::case::Case;
    use crate::memory::Buffer;
    use crate::multiply;

    #[test]
    fn products_are_those_that_are_computed_value_by_value() {
        for kind in [Type::F32, Type::Bf16] {
            let mut case = Case::new(4);
            let [rows, inner, columns, batch] = [5, 33, 7, 2];
            let x = Buffer::values(kind, &case.normal(batch * rows * inner), 0);
            let y = Buffer::values(kind, &case.normal(batch * columns * inner), 0);
            let added = Buffer::f32(&case.normal(batch * rows * columns));
            let operand =
                |buffer: &Buffer, kind, stride, every| Operand::rows(buffer.pointer(), kind, stride).every(every);
            let found = [multiply, multiply_in_fp32].map(|compute| {
                let to = Buffer::blank_f32(batch * rows * columns);
                let [a, b] = [operand(&x, kind, inner, rows * inner), operand(&y, kind, inner, columns * inner).t()];
                let product =
                    Product::new([rows, inner, columns], a, b, operand(&to, Type::F32, columns, rows * columns));
                let product = Product { factor: 0.5, ..product.plus(added.pointer()).batch(batch) };
                compute(&product);
                to.read_f32()
            });
            let [exact, fast] = &found;
            assert!(exact.iter().zip(fast).all(|(a, b)| (a - b).abs() < 1e-4), "{kind:?}: {found:?}");
        }
    }
}
