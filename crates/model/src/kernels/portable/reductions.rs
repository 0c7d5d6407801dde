//! The global norm of a gradient, and the inner product of two.

use candle_core::{CpuStorage, Device, Storage, Tensor};

use crate::error::Result;

/// Root of the sum of squares over all tensors, summed in f64 on a CPU and row by row elsewhere.
///
/// # Errors
/// A failure of the device.
pub fn global_norm(gradients: &[Tensor]) -> Result<f64> {
    let mut sum = 0.0;
    for gradient in gradients {
        sum += squares(gradient)?;
    }
    Ok(sum.sqrt())
}

/// The sum of the squares of each tensor: [`global_norm`] is the root of their sum in order.
///
/// # Errors
/// A failure of the device.
pub fn squares_of(gradients: &[Tensor]) -> Result<Vec<f64>> {
    gradients.iter().map(squares).collect()
}

/// The inner product of each pair of tensors in host memory, whose sum in order is [`dot`].
///
/// # Errors
/// Tensors that are not fp32.
pub fn products_of(one: &[Tensor], other: &[Tensor]) -> Result<Vec<f64>> {
    let product = |(one, other): (&Tensor, &Tensor)| {
        let one = one.flatten_all()?.to_vec1::<f32>()?;
        let other = other.flatten_all()?.to_vec1::<f32>()?;
        Ok(products(&one, &other))
    };
    one.iter().zip(other).map(product).collect()
}

/// The inner product of two gradients in host memory, summed in f64.
///
/// # Errors
/// Tensors that are not fp32.
pub fn dot(one: &[Tensor], other: &[Tensor]) -> Result<f64> {
    let mut sum = 0.0;
    for product in products_of(one, other)? {
        sum += product;
    }
    Ok(sum)
}

pub(super) fn squares(gradient: &Tensor) -> Result<f64> {
    let (storage, layout) = gradient.storage_and_layout();
    if let (Storage::Cpu(CpuStorage::F32(values)), Some((start, end))) = (&*storage, layout.contiguous_offsets()) {
        let values = &values[start..end];
        return Ok(products(values, values));
    }
    drop(storage);
    // Rows first: a single sum over everything would run in one block of the GPU.
    let rows = gradient.flatten_to(gradient.rank().saturating_sub(2))?.sqr()?.sum(candle_core::D::Minus1)?;
    let rows: Vec<f32> = rows.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()?;
    Ok(rows.iter().map(|&x| f64::from(x)).sum())
}

/// The sum of products, as eight sums side by side, so that the additions do not wait for each other.
fn products(one: &[f32], other: &[f32]) -> f64 {
    let product = |(&x, &y): (&f32, &f32)| f64::from(x) * f64::from(y);
    let mut sums = [0.0f64; 8];
    let ones = one.chunks_exact(8);
    let others = other.chunks_exact(8);
    let rest: f64 = ones.remainder().iter().zip(others.remainder()).map(product).sum();
    for (one, other) in ones.zip(others) {
        for (sum, pair) in sums.iter_mut().zip(one.iter().zip(other)) {
            *sum += product(pair);
        }
    }
    sums.iter().sum::<f64>() + rest
}
