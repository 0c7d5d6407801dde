//! Weights as decoding reads them: as models store them, or, for kernels that read columns, matrices of linear layers
//! as (in, out).

use candle_core::{CpuStorage, DType, Storage, Tensor};

use crate::error::Result;
use crate::parallel::in_parallel;
use crate::parameters::{ModelIds, ParameterId};

/// Rows and columns of a square that is transposed at a time: both sides of it stay in the first-level cache.
const SQUARE: usize = 32;

/// Whether a tensor has another owner, who may change it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HasOtherOwner {
    Yes,
    No,
}

/// The weights of all ids below `count`, several at the same time. With `by_columns` those of linear layers are stored
/// by their columns, but for those in bf16, which are widened row by row, and the embedding, which is read by rows: a
/// tied head by columns is made when a decoder needs it.
pub(super) fn layout(
    ids: &ModelIds,
    count: usize,
    by_columns: bool,
    read: impl Fn(ParameterId) -> Result<(Tensor, HasOtherOwner)> + Sync,
) -> Result<Vec<Tensor>> {
    in_parallel(count, |number| {
        let id = ParameterId::at(number);
        let (value, shared) = read(id)?;
        match (value.rank(), shared) {
            (2, _) if by_columns && id != ids.embedding && value.dtype() != DType::BF16 => transposed(&value),
            (_, HasOtherOwner::Yes) => Ok(value.copy()?),
            (_, HasOtherOwner::No) => Ok(value),
        }
    })
}

/// Copies a matrix into storage by columns.
pub(super) fn transposed(value: &Tensor) -> Result<Tensor> {
    let (rows, columns) = value.dims2()?;
    let (storage, place) = value.storage_and_layout();
    let columns_first = match (&*storage, place.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(values)), Some((first, end))) => {
            let by_columns = by_columns(&values[first..end], rows, columns);
            Tensor::from_vec(by_columns, (columns, rows), value.device())?
        }
        _ => value.t()?.contiguous()?,
    };
    Ok(columns_first.t()?)
}

fn by_columns(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut to = vec![0.0; rows * columns];
    for first_row in (0..rows).step_by(SQUARE) {
        let end_row = rows.min(first_row + SQUARE);
        for first_column in (0..columns).step_by(SQUARE) {
            for column in first_column..columns.min(first_column + SQUARE) {
                let to = &mut to[column * rows + first_row..column * rows + end_row];
                for (to, row) in to.iter_mut().zip(first_row..) {
                    *to = values[row * columns + column];
                }
            }
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn matrices_of_any_size_are_stored_by_their_columns() {
        for (rows, columns) in [(1, 1), (1, 70), (70, 1), (32, 32), (33, 31), (100, 65)] {
            let values: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
            let matrix = Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap();
            let found = transposed(&matrix).unwrap();
            assert_eq!(found.dims(), matrix.dims());
            assert_eq!(found.stride(), [1, rows]);
            assert_eq!(found.to_vec2::<f32>().unwrap(), matrix.to_vec2::<f32>().unwrap());
            // Another layout than row by row.
            let same = transposed(&matrix.t().unwrap()).unwrap();
            assert_eq!(same.to_vec2::<f32>().unwrap(), matrix.t().unwrap().to_vec2::<f32>().unwrap());
        }
    }
}
