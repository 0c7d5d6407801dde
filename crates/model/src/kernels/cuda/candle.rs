//! The kernels on a GPU, through candle's device, memory and stream.

use std::collections::HashMap;
use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::sys::CUdevice_attribute as Attribute;
use candle_core::cuda_backend::cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg,
};
use candle_core::cuda_backend::cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, Shape, Storage, Tensor};
use evenkeel_kernels::{Argument, Chip, Launch, Pointer, Product, sources};

use super::cublaslt::CublasLt;
use super::{Device, failed};
use crate::error::{ModelError, Result};

/// A GPU that candle has opened, with the kernels compiled for it.
pub struct CandleDevice {
    device: CudaDevice,
    stream: Arc<CudaStream>,
    functions: HashMap<String, CudaFunction>,
    products: CublasLt,
    chip: Chip,
}

impl CandleDevice {
    /// Compiles the kernels for a device that [`cuda_device`](crate::cuda_device) has opened: about a second.
    ///
    /// # Errors
    /// A library that fails.
    pub fn new(device: &CudaDevice) -> Result<Self> {
        let stream = device.cuda_stream();
        let context = stream.context();
        let attribute = |attribute| context.attribute(attribute).map_err(failed);
        let capability = 10 * attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?
            + attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;
        let mut functions = HashMap::new();
        for source in sources() {
            let options = CompileOptions {
                // A few bytes, once for each device.
                arch: Some(format!("compute_{capability}").leak()),
                options: vec!["--std=c++17".into()],
                name: Some(source.name.into()),
                ..CompileOptions::default()
            };
            let ptx = compile_ptx_with_opts(&source.text, options).map_err(failed)?.to_src();
            let module = context.load_module(ptx.as_str().into()).map_err(failed)?;
            for name in ptx.lines().filter_map(kernel_of) {
                functions.insert(name.to_owned(), module.load_function(name).map_err(failed)?);
            }
        }
        let products = CublasLt::new(&stream)?;
        Ok(Self { device: device.clone(), stream, functions, products, chip: Chip { multiprocessors } })
    }
}

/// The kernel that a line of PTX begins.
fn kernel_of(line: &str) -> Option<&str> {
    line.split_once(".entry ")?.1.split('(').next().map(str::trim)
}

impl Device for CandleDevice {
    type Memory = CudaSlice<u8>;

    fn chip(&self) -> Chip {
        self.chip
    }

    fn allocate(&self, bytes: usize) -> Result<CudaSlice<u8>> {
        // SAFETY: whoever allocates writes it before it is read.
        unsafe { self.stream.alloc(bytes.max(1)) }.map_err(failed)
    }

    fn zeros(&self, bytes: usize) -> Result<CudaSlice<u8>> {
        self.stream.alloc_zeros(bytes.max(1)).map_err(failed)
    }

    fn upload(&self, bytes: &[u8]) -> Result<CudaSlice<u8>> {
        if bytes.is_empty() { self.allocate(0) } else { self.stream.clone_htod(bytes).map_err(failed) }
    }

    fn download(&self, memory: &CudaSlice<u8>, bytes: usize) -> Result<Vec<u8>> {
        let view = memory.try_slice(..bytes).ok_or_else(|| {
            ModelError::input("bytes to copy to the host", bytes, format!("up to the {} there are", memory.len()))
        })?;
        if bytes == 0 { Ok(Vec::new()) } else { self.stream.clone_dtoh(&view).map_err(failed) }
    }

    fn address(&self, memory: &CudaSlice<u8>) -> Pointer {
        Pointer(memory.device_ptr(&self.stream).0)
    }

    fn parameter(&self, parameter: &Tensor) -> Result<Pointer> {
        let (storage, layout) = parameter.storage_and_layout();
        match (&*storage, layout.contiguous_offsets()) {
            (Storage::Cuda(values), Some((start, _))) => {
                let values = values.as_cuda_slice::<f32>()?;
                Ok(Pointer(values.device_ptr(&self.stream).0 + 4 * start as u64))
            }
            _ => {
                let found = format!("{:?} on {:?}", parameter.dtype(), parameter.device().location());
                Err(ModelError::input("parameter for CUDA kernels", found, "contiguous F32 on the kernels' GPU"))
            }
        }
    }

    fn tensor(&self, memory: CudaSlice<u8>, shape: &Shape) -> Result<Tensor> {
        let (count, bytes) = (shape.elem_count(), memory.len());
        if bytes != 4 * count {
            return Err(ModelError::input("bytes of a tensor", bytes, format!("{}", 4 * count)));
        }
        // SAFETY: the same memory, of as many fp32 values, which owns it from now on.
        let values = unsafe { self.stream.upgrade_device_ptr::<f32>(memory.leak(), count) };
        let storage = CudaStorage::wrap_cuda_slice(values, self.device.clone());
        Ok(Tensor::from_storage(Storage::Cuda(storage), shape.clone(), BackpropOp::none(), false))
    }

    fn launch(&self, launch: &Launch) -> Result<()> {
        let function = self.functions.get(&launch.kernel);
        let function =
            function.ok_or_else(|| ModelError::input("kernel", &launch.kernel, "one of the compiled ones"))?;
        let values: Vec<u64> = launch.arguments.iter().map(Argument::bits).collect();
        let mut builder = self.stream.launch_builder(function);
        for value in &values {
            builder.arg(value);
        }
        let config = LaunchConfig {
            grid_dim: (launch.grid, 1, 1),
            block_dim: (launch.block, 1, 1),
            shared_mem_bytes: launch.shared,
        };
        // SAFETY: the launch was made for this kernel, and its addresses are of memory that outlives it in the order of the stream.
        unsafe { builder.launch(config) }.map(drop).map_err(failed)
    }

    fn multiply(&self, product: &Product) -> Result<()> {
        self.products.multiply(&self.stream, product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_in_ptx_by_name() {
        assert_eq!(kernel_of(".visible .entry rms_norm_f32_wide_warp("), Some("rms_norm_f32_wide_warp"));
        assert_eq!(kernel_of("\tret;"), None);
    }
}
