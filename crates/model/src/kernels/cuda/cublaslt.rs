//! Matrix products by cuBLASLt.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::cublaslt::{result, sys};
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use evenkeel_kernels::{Operand, Pointer, Product, Type};

use super::failed;
use crate::error::Result;

/// Bytes that the library may use besides: what NVIDIA advises for an H100.
const WORKSPACE: usize = 32 << 20;

/// A handle, its workspace, and the algorithms that were chosen: one for each shape, so that a shape always has the
/// same bits.
pub(super) struct CublasLt {
    handle: sys::cublasLtHandle_t,
    workspace: CudaSlice<u8>,
    plans: Mutex<HashMap<Key, Plan>>,
}

// SAFETY: cuBLASLt's handle may be used by any thread; descriptors are used under the lock.
unsafe impl Send for CublasLt {}
// SAFETY: as above.
unsafe impl Sync for CublasLt {}

/// All that an algorithm is chosen by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    sizes: [usize; 4],
    /// Type, stride, stride of the batch, transposed, and what the address is divisible by, of a, b and the result.
    operands: [(Type, usize, usize, bool, u32); 3],
    adds: bool,
}

/// Descriptors and an algorithm. The library reads matrices by columns, so that ours are transposes to it: it computes
/// toᵀ = bᵀ aᵀ.
struct Plan {
    operation: sys::cublasLtMatmulDesc_t,
    /// Layouts of bᵀ, aᵀ and toᵀ.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl CublasLt {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self> {
        stream.context().bind_to_thread().map_err(failed)?;
        let handle = result::create_handle().map_err(failed)?;
        // SAFETY: the library writes it before it reads it.
        let workspace = unsafe { stream.alloc(WORKSPACE) }.map_err(failed)?;
        Ok(Self { handle, workspace, plans: Mutex::default() })
    }

    pub(super) fn multiply(&self, stream: &Arc<CudaStream>, product: &Product) -> Result<()> {
        stream.context().bind_to_thread().map_err(failed)?;
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Key::of(product);
        let plan = match plans.entry(key) {
            Entry::Occupied(plan) => plan.into_mut(),
            Entry::Vacant(empty) => empty.insert(self.plan(product)?),
        };
        let pointer = |Pointer(address): Pointer| address as *mut c_void;
        let beta: f32 = if key.adds { 1.0 } else { 0.0 };
        let added = if key.adds { product.add } else { product.to.at };
        let [b, a, to] = plan.layouts;
        let workspace = self.workspace.device_ptr(stream).0;
        // SAFETY: descriptors of this plan; addresses of memory that outlives the product in the order of the stream.
        let done = unsafe {
            result::matmul(
                self.handle,
                plan.operation,
                (&raw const product.factor).cast(),
                (&raw const beta).cast(),
                pointer(product.b.at),
                b,
                pointer(product.a.at),
                a,
                pointer(added),
                to,
                pointer(product.to.at),
                to,
                &raw const plan.algorithm,
                workspace as *mut c_void,
                WORKSPACE,
                stream.cu_stream().cast(),
            )
        };
        done.map_err(|error| failed(format!("product {product:?}: {error}")))
    }

    fn plan(&self, product: &Product) -> Result<Plan> {
        let Product { rows, columns, inner, batch, a, b, to, .. } = *product;
        let fp32 = sys::cudaDataType_t::CUDA_R_32F;
        // For fp32 factors this is fp32 arithmetic; TF32 is another compute type.
        let operation =
            result::create_matmul_desc(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, fp32).map_err(failed)?;
        let layouts = [
            layout(b, [inner, columns], batch)?,
            layout(a, [rows, inner], batch)?,
            layout(to, [rows, columns], batch)?,
        ];
        let preference = result::create_matmul_pref().map_err(failed)?;
        use sys::cublasLtMatmulDescAttributes_t as Of;
        use sys::cublasLtMatmulPreferenceAttributes_t as Preference;
        for (attribute, transposed) in
            [(Of::CUBLASLT_MATMUL_DESC_TRANSA, b.transposed), (Of::CUBLASLT_MATMUL_DESC_TRANSB, a.transposed)]
        {
            let value = i32::from(transposed);
            // SAFETY: the attribute is a cublasOperation_t, 0 for none and 1 for a transposition.
            unsafe { result::set_matmul_desc_attribute(operation, attribute, (&raw const value).cast(), 4) }
                .map_err(failed)?;
        }
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: each attribute below is given in its own type.
            unsafe { result::set_matmul_pref_attribute(preference, attribute, value, bytes) }.map_err(failed)
        };
        let workspace = WORKSPACE;
        set(Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (&raw const workspace).cast(), size_of::<usize>())?;
        let added = if product.add == Pointer::NULL { to.at } else { product.add };
        for (attribute, at) in [
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b.at),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a.at),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, added),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, to.at),
        ] {
            let alignment = alignment(at);
            set(attribute, (&raw const alignment).cast(), size_of::<u32>())?;
        }
        let [of_b, of_a, of_to] = layouts;
        // SAFETY: the descriptors made above.
        let chosen =
            unsafe { result::get_matmul_algo_heuristic(self.handle, operation, of_b, of_a, of_to, of_to, preference) };
        // SAFETY: made above, and used for the last time.
        unsafe { result::destroy_matmul_pref(preference) }.map_err(failed)?;
        let chosen = chosen.map_err(|error| failed(format!("no algorithm for product {product:?}: {error}")))?;
        Ok(Plan { operation, layouts, algorithm: chosen.algo })
    }
}

impl Key {
    fn of(product: &Product) -> Self {
        let operand_key = |operand: Operand, also: Pointer| {
            let aligned = alignment(operand.at).min(alignment(also));
            (operand.kind, operand.stride, operand.batch_stride, operand.transposed, aligned)
        };
        let adds = product.add != Pointer::NULL;
        let added = if adds { product.add } else { product.to.at };
        Self {
            sizes: [product.rows, product.columns, product.inner, product.batch],
            operands: [
                operand_key(product.a, product.a.at),
                operand_key(product.b, product.b.at),
                operand_key(product.to, added),
            ],
            adds,
        }
    }
}

/// The largest power of two up to 256 that an address is divisible by.
fn alignment(Pointer(address): Pointer) -> u32 {
    1 << address.trailing_zeros().min(8)
}

/// A matrix whose rows are the library's columns.
fn layout(operand: Operand, [rows, columns]: [usize; 2], batch: usize) -> Result<sys::cublasLtMatrixLayout_t> {
    use sys::cublasLtMatrixLayoutAttribute_t as Of;
    let kind = match operand.kind {
        Type::F32 => sys::cudaDataType_t::CUDA_R_32F,
        Type::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
    };
    // As they are in memory.
    let [rows, columns] = if operand.transposed { [columns, rows] } else { [rows, columns] };
    let layout =
        result::create_matrix_layout(kind, columns as u64, rows as u64, operand.stride as i64).map_err(failed)?;
    let count = batch as i32;
    let stride = operand.batch_stride as i64;
    let count_and_stride: [(_, *const c_void, usize); 2] = [
        (Of::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, (&raw const count).cast(), 4),
        (Of::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, (&raw const stride).cast(), 8),
    ];
    for (attribute, value, bytes) in count_and_stride {
        // SAFETY: the number of matrices is an i32, their distance an i64.
        unsafe { result::set_matrix_layout_attribute(layout, attribute, value, bytes) }.map_err(failed)?;
    }
    Ok(layout)
}

impl Drop for Plan {
    fn drop(&mut self) {
        // A failure leaks a few bytes of host memory.
        // SAFETY: made by this plan, and used for the last time.
        unsafe {
            let _ = result::destroy_matmul_desc(self.operation);
            for layout in self.layouts {
                let _ = result::destroy_matrix_layout(layout);
            }
        }
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: the handle is used for the last time.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_is_chosen_by_what_addresses_are_divisible_by() {
        assert_eq!([0, 16, 24, 4096, 3].map(|address| alignment(Pointer(address))), [256, 16, 8, 256, 1]);
        let operand = |address| Operand::rows(Pointer(address), Type::Bf16, 64);
        let product = Product::new([64, 64, 64], operand(256), operand(512), operand(768));
        let same = Product::new([64, 64, 64], operand(1024), operand(512), operand(768));
        let other = Product::new([64, 64, 64], operand(1026), operand(512), operand(768));
        assert!(Key::of(&product) == Key::of(&same));
        assert!(Key::of(&product) != Key::of(&other));
        assert!(Key::of(&product) != Key::of(&product.plus(Pointer(768))));
    }
}
