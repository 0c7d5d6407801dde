//! The kernels on a GPU, through candle's device, memory and stream.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::sys::CUdevice_attribute as Attribute;
use candle_core::cuda_backend::cudarc::driver::sys::CUresult;
use candle_core::cuda_backend::cudarc::driver::{
    CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PushKernelArg, result,
};
use candle_core::cuda_backend::cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, Shape, Storage, Tensor};
use evenkeel_kernels::{
    Argument, DeviceProperties, FusedAttention, FusedPass, FusedShape, Launch, Pointer, Product, sources,
};

use super::cublaslt::CublasLt;
use super::cudnn::{Library, check_library};
use super::{AttentionFallback, AttentionLibrary, Device, DeviceStream, failed};
use crate::error::{ModelError, Result};
use crate::kernels::HostValues;
use crate::pinned::PinnedBytes;

/// A GPU that candle has opened, with the kernels compiled for it.
pub struct CandleDevice {
    device: CudaDevice,
    stream: Arc<CudaStream>,
    /// Copies from and to the host, concurrently with the kernels.
    copies: [Arc<CudaStream>; 2],
    functions: HashMap<String, CudaFunction>,
    products: CublasLt,
    attention: Library,
    properties: DeviceProperties,
}

impl CandleDevice {
    /// Compiles the kernels for a device that [`cuda_device`](crate::cuda_device) has opened: about a second.
    ///
    /// # Errors
    /// A library that fails.
    pub fn new(device: &CudaDevice) -> Result<Self> {
        let stream = device.cuda_stream();
        let context = stream.context();
        let capability = capability_of(&stream)?;
        let multiprocessors = Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors = context.attribute(multiprocessors).map_err(failed)? as u32;
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
        let attention = Library::new(&stream, capability);
        let copies = [context.new_stream().map_err(failed)?, context.new_stream().map_err(failed)?];
        let properties = DeviceProperties { multiprocessors };
        Ok(Self { device: device.clone(), stream, copies, functions, products, attention, properties })
    }
}

impl CandleDevice {
    fn stream_of(&self, which: DeviceStream) -> &CudaStream {
        match which {
            DeviceStream::Compute => &self.stream,
            DeviceStream::HostToDevice => &self.copies[0],
            DeviceStream::DeviceToHost => &self.copies[1],
        }
    }

    /// Why memory of this many bytes was refused.
    fn refused(&self, bytes: usize, error: DriverError) -> ModelError {
        if error.0 != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return failed(error);
        }
        let left = match self.stream.context().mem_get_info() {
            Ok((free, total)) => format!("{free} of {total} bytes are free outside of the pool"),
            Err(error) => error.to_string(),
        };
        ModelError::out_of_memory("memory of the device", bytes as u64, left)
    }
}

impl HostValues for PinnedBytes {
    fn values(&self) -> &[f32] {
        self.floats()
    }

    fn values_mut(&mut self) -> &mut [f32] {
        self.floats_mut()
    }
}

/// 10 * major + minor.
fn capability_of(stream: &CudaStream) -> Result<i32> {
    let attribute = |attribute| stream.context().attribute(attribute).map_err(failed);
    Ok(10 * attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?
        + attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?)
}

/// See [`crate::attention_library`].
pub(crate) fn attention_library(device: &CudaDevice) -> Result<AttentionLibrary, AttentionFallback> {
    let capability =
        capability_of(&device.cuda_stream()).map_err(|error| AttentionFallback::Unidentified(error.to_string()))?;
    check_library(capability)
}

/// The kernel that a line of PTX begins.
fn kernel_of(line: &str) -> Option<&str> {
    line.split_once(".entry ")?.1.split('(').next().map(str::trim)
}

impl Device for CandleDevice {
    type Memory = CudaSlice<u8>;
    type Event = CudaEvent;

    fn properties(&self) -> DeviceProperties {
        self.properties
    }

    fn allocate(&self, bytes: usize) -> Result<CudaSlice<u8>> {
        // SAFETY: whoever allocates writes it before it is read.
        unsafe { self.stream.alloc(bytes.max(1)) }.map_err(|error| self.refused(bytes, error))
    }

    fn zeros(&self, bytes: usize) -> Result<CudaSlice<u8>> {
        self.stream.alloc_zeros(bytes.max(1)).map_err(|error| self.refused(bytes, error))
    }

    fn upload(&self, bytes: &[u8]) -> Result<CudaSlice<u8>> {
        match bytes.is_empty() {
            true => self.allocate(0),
            false => self.stream.clone_htod(bytes).map_err(|error| self.refused(bytes.len(), error)),
        }
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

    fn attention_library(&self) -> Result<AttentionLibrary, AttentionFallback> {
        self.attention.name()
    }

    fn attention_workspace(&self, shape: FusedShape, pass: FusedPass) -> Result<Option<usize>> {
        Ok(self.attention.workspace(shape, pass))
    }

    fn attend(&self, attention: &FusedAttention) -> Result<()> {
        self.attention.attend(attention)
    }

    fn host_values(&self, count: usize) -> Result<Box<dyn HostValues>> {
        Ok(Box::new(PinnedBytes::new(&self.device, 4 * count)?))
    }

    fn copy_in(&self, from: &dyn HostValues, range: Range<usize>, to: &CudaSlice<u8>) -> Result<()> {
        let (from, room) = (&from.values()[range], to.len());
        if room < size_of_val(from) {
            return Err(ModelError::input("bytes to copy to the device", size_of_val(from), format!("up to {room}")));
        }
        let (stream, to) = (self.stream_of(DeviceStream::HostToDevice), self.address(to).0);
        stream.context().bind_to_thread().map_err(failed)?;
        // SAFETY: both memories are large enough and stay until the device has settled, as the trait asks for.
        unsafe { result::memcpy_htod_async(to, from, stream.cu_stream()) }.map_err(failed)
    }

    fn copy_out(&self, from: &CudaSlice<u8>, to: &mut dyn HostValues, range: Range<usize>) -> Result<()> {
        let (to, there) = (&mut to.values_mut()[range], from.len());
        if there < size_of_val(to) {
            return Err(ModelError::input("bytes to copy to the host", size_of_val(to), format!("up to {there}")));
        }
        let (stream, from) = (self.stream_of(DeviceStream::DeviceToHost), self.address(from).0);
        stream.context().bind_to_thread().map_err(failed)?;
        // SAFETY: as in `copy_in`.
        unsafe { result::memcpy_dtoh_async(to, from, stream.cu_stream()) }.map_err(failed)
    }

    fn record(&self, stream: DeviceStream) -> Result<CudaEvent> {
        self.stream_of(stream).record_event(None).map_err(failed)
    }

    fn wait(&self, stream: DeviceStream, event: &CudaEvent) -> Result<()> {
        self.stream_of(stream).wait(event).map_err(failed)
    }

    fn synchronize(&self) -> Result<()> {
        [DeviceStream::Compute, DeviceStream::HostToDevice, DeviceStream::DeviceToHost]
            .into_iter()
            .try_for_each(|stream| self.stream_of(stream).synchronize())
            .map_err(failed)
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
