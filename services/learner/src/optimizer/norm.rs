//! The global norm of a gradient.

use candle_core::{CpuStorage, Device, Storage, Tensor};

use crate::error::Result;

/// Root of the sum of squares over all tensors, summed in f64 on a CPU and row by row elsewhere.
pub(super) fn global(gradients: &[Tensor]) -> Result<f64> {
    let mut sum = 0.0;
    for gradient in gradients {
        sum += squares(gradient)?;
    }
    Ok(sum.sqrt())
}

fn squares(gradient: &Tensor) -> Result<f64> {
    let (storage, layout) = gradient.storage_and_layout();
    if let (Storage::Cpu(CpuStorage::F32(values)), Some((start, end))) = (&*storage, layout.contiguous_offsets()) {
        return Ok(lanes(&values[start..end]));
    }
    drop(storage);
    // Rows first: a single sum over everything would run in one block of the GPU.
    let rows = gradient.flatten_to(gradient.rank().saturating_sub(2))?.sqr()?.sum(candle_core::D::Minus1)?;
    let rows: Vec<f32> = rows.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()?;
    Ok(rows.iter().map(|&x| f64::from(x)).sum())
}

/// Eight sums side by side, so that the additions do not wait for each other.
fn lanes(values: &[f32]) -> f64 {
    let mut sums = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|&x| f64::from(x).powi(2)).sum();
    for chunk in chunks {
        for (sum, &x) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(x) * f64::from(x);
        }
    }
    sums.iter().sum::<f64>() + rest
}
