//! The kernels on a GPU, through candle's device, memory and stream.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::driver::sys::CUdevice_attribute as Attribute;
use candle_core::cuda_backend::cudarc::driver::sys::CUresult;
use candle_core::cuda_backend::cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PushKernelArg,
    result,
};
use candle_core::cuda_backend::cudarc::nvrtc::Ptx;
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, DType, Shape, Storage, Tensor};
use evenkeel_cuda::answered;
use evenkeel_kernels::{
    Argument, DeviceProperties, FusedAttention, FusedPass, FusedShape, Image, ImageKind, Launch, Pointer, Product, Type,
};
use half::bf16;

use super::cublaslt::CublasLt;
use super::cudnn::{Library, check_library};
use super::device::try_kernel;
use super::staging::{CopyStream, Staging};
use super::times::{KernelTime, Times};
use super::{AttentionFallback, AttentionLibrary, Device, DeviceStream, failed};
use crate::error::{ModelError, Result};
use crate::kernels::HostValues;
use crate::pinned::PinnedBytes;

/// A GPU that candle has opened, with the kernels loaded.
pub struct CandleDevice {
    device: CudaDevice,
    stream: Arc<CudaStream>,
    /// Copies from and to the host, concurrently with the kernels.
    copies: [Arc<CudaStream>; 2],
    /// Between the program's memory and the device, in the order of the kernels.
    staging: Mutex<Staging<StagedStream>>,
    functions: HashMap<String, CudaFunction>,
    products: CublasLt,
    attention: Library,
    properties: DeviceProperties,
    times: Times,
}

impl CandleDevice {
    /// Loads the kernels on a device that [`cuda_device`](crate::cuda_device) has opened, and runs one.
    ///
    /// # Errors
    /// A driver that takes neither the machine code nor the PTX of this build, a library that fails, or a device that
    /// does not answer within a minute.
    pub fn new(device: &CudaDevice) -> Result<Self> {
        let stream = device.cuda_stream();
        let context = stream.context();
        let capability = capability_of(&stream)?;
        let multiprocessors = Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors = context.attribute(multiprocessors).map_err(failed)? as u32;
        let kind = kind_of_images(capability as u32)?;
        let mut functions = HashMap::new();
        for image in kind.images() {
            let context = Arc::clone(context);
            // The driver may have to compile it.
            let loaded = answered("loading kernels", move || load(&context, kind, &image)).map_err(failed)?;
            functions.extend(loaded?);
        }
        tracing::debug!(?kind, kernels = functions.len(), "kernels loaded");
        let properties = DeviceProperties { multiprocessors };
        let device = device.clone();
        let complete = move || {
            let context = stream.context();
            let products = CublasLt::new(&stream)?;
            let attention = Library::new(&stream, capability);
            let copies = [context.new_stream().map_err(failed)?, context.new_stream().map_err(failed)?];
            let staging =
                Mutex::new(Staging::new(StagedStream { device: device.clone(), stream: Arc::clone(&stream) }));
            let times = Times::default();
            let device = Self { device, stream, copies, staging, functions, products, attention, properties, times };
            try_kernel(&device).map(|()| device)
        };
        let device = answered("running the first kernel", complete).map_err(failed)??;
        // This thread launches.
        device.stream.context().bind_to_thread().map_err(failed)?;
        Ok(device)
    }
}

/// The kernels of a file.
fn load(context: &Arc<CudaContext>, kind: ImageKind, image: &Image) -> Result<Vec<(String, CudaFunction)>> {
    // Aligned as the driver may want it, and ended by a 0 as text has to be.
    let bytes = [image.bytes, &[0]].concat();
    let module = context.load_module(Ptx::from_binary(bytes));
    let module = module.map_err(|error| failed(format!("{}, {kind:?}: {error}", image.name)))?;
    let function = |name: &&str| Ok(((*name).to_owned(), module.load_function(name).map_err(failed)?));
    image.kernels.iter().map(function).collect()
}

impl CandleDevice {
    fn stream_of(&self, which: DeviceStream) -> &CudaStream {
        match which {
            DeviceStream::Compute => &self.stream,
            DeviceStream::HostToDevice => &self.copies[0],
            DeviceStream::DeviceToHost => &self.copies[1],
        }
    }

    /// Has the time of every launch, product and pass of attention measured from now on, which slows them a little.
    pub fn measure_times(&self) {
        self.times.begin();
    }

    /// Ends that, and gives the times by the names that [`Counter`](super::Counter) counts under.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn take_times(&self) -> Result<BTreeMap<String, KernelTime>> {
        self.times.take()
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

/// Implements [`crate::attention_library`] for an open device.
pub(crate) fn attention_library(device: &CudaDevice) -> Result<AttentionLibrary, AttentionFallback> {
    let capability =
        capability_of(&device.cuda_stream()).map_err(|error| AttentionFallback::Unidentified(error.to_string()))?;
    check_library(capability)
}

/// What this driver takes of what the build has.
fn kind_of_images(capability: u32) -> Result<ImageKind> {
    let driver = evenkeel_cuda::Driver::open().and_then(|driver| driver.version()).map_err(failed)? as u32;
    let kind = ImageKind::choose(capability, driver, ImageKind::TOOLKIT).map_err(ModelError::Input)?;
    if driver < ImageKind::TOOLKIT {
        // candle's kernels are PTX alone.
        let toolkit = ImageKind::TOOLKIT;
        tracing::warn!(
            driver,
            toolkit,
            "the driver is older than the toolkit of this build, and may refuse candle's own kernels"
        );
    }
    Ok(kind)
}

/// The stream of the kernels, which copies from and to page-locked memory.
struct StagedStream {
    device: CudaDevice,
    stream: Arc<CudaStream>,
}

impl CopyStream for StagedStream {
    type Slot = PinnedBytes;
    type Event = CudaEvent;

    fn slot(&self, bytes: usize) -> Result<PinnedBytes> {
        PinnedBytes::new(&self.device, bytes)
    }

    fn bytes<'a>(&self, slot: &'a PinnedBytes) -> &'a [u8] {
        slot.as_slice()
    }

    fn bytes_mut<'a>(&self, slot: &'a mut PinnedBytes) -> &'a mut [u8] {
        slot.as_mut_slice()
    }

    fn send(&self, slot: &PinnedBytes, bytes: usize, to: Pointer) -> Result<()> {
        self.stream.context().bind_to_thread().map_err(failed)?;
        // SAFETY: as many bytes as the caller has allocated; the slot stays as it is until the event behind this copy.
        unsafe { result::memcpy_htod_async(to.0, &slot.as_slice()[..bytes], self.stream.cu_stream()) }.map_err(failed)
    }

    fn receive(&self, from: Pointer, bytes: usize, slot: &mut PinnedBytes) -> Result<()> {
        self.stream.context().bind_to_thread().map_err(failed)?;
        let to = &mut slot.as_mut_slice()[..bytes];
        // SAFETY: memory of the device of at least as many bytes; the slot is not touched until the event behind this
        // copy.
        unsafe { result::memcpy_dtoh_async(to, from.0, self.stream.cu_stream()) }.map_err(failed)
    }

    fn record(&self) -> Result<CudaEvent> {
        self.stream.record_event(None).map_err(failed)
    }

    fn wait(&self, event: &CudaEvent) -> Result<()> {
        event.synchronize().map_err(failed)
    }
}

impl Device for CandleDevice {
    type Memory = CudaSlice<u8>;
    type Event = CudaEvent;

    fn properties(&self) -> DeviceProperties {
        self.properties
    }

    fn allocate(&self, bytes: usize) -> Result<CudaSlice<u8>> {
        // SAFETY: every caller writes the memory before it is read.
        unsafe { self.stream.alloc(bytes.max(1)) }.map_err(|error| self.refused(bytes, error))
    }

    fn zeros(&self, bytes: usize) -> Result<CudaSlice<u8>> {
        self.stream.alloc_zeros(bytes.max(1)).map_err(|error| self.refused(bytes, error))
    }

    fn upload(&self, bytes: &[u8]) -> Result<CudaSlice<u8>> {
        let memory = self.allocate(bytes.len())?;
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        staging.upload(bytes, self.address(&memory))?;
        Ok(memory)
    }

    fn download(&self, memory: &CudaSlice<u8>, bytes: usize) -> Result<Vec<u8>> {
        if bytes > memory.len() {
            let allowed = format!("up to the {} there are", memory.len());
            return Err(ModelError::input("bytes to copy to the host", bytes, allowed));
        }
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).download(self.address(memory), bytes)
    }

    fn address(&self, memory: &CudaSlice<u8>) -> Pointer {
        Pointer(memory.device_ptr(&self.stream).0)
    }

    fn parameter(&self, parameter: &Tensor, kind: Type) -> Result<Pointer> {
        let (storage, layout) = parameter.storage_and_layout();
        let begin = match (&*storage, layout.contiguous_offsets(), kind) {
            (Storage::Cuda(values), Some((start, _)), Type::F32) if parameter.dtype() == DType::F32 => {
                values.as_cuda_slice::<f32>()?.device_ptr(&self.stream).0 + 4 * start as u64
            }
            (Storage::Cuda(values), Some((start, _)), Type::Bf16) if parameter.dtype() == DType::BF16 => {
                values.as_cuda_slice::<bf16>()?.device_ptr(&self.stream).0 + 2 * start as u64
            }
            _ => {
                let found = format!("{:?} on {:?}", parameter.dtype(), parameter.device().location());
                let allowed = format!("contiguous {kind:?} on the kernels' GPU");
                return Err(ModelError::input("parameter for CUDA kernels", found, allowed));
            }
        };
        Ok(Pointer(begin))
    }

    fn tensor(&self, memory: CudaSlice<u8>, shape: &Shape) -> Result<Tensor> {
        let count = shape.elem_count();
        let bytes = memory.len();
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
        let mut give = || {
            // SAFETY: the launch was made for this kernel, and its addresses are of memory that outlives it in the
            // order of the stream.
            unsafe { builder.launch(config) }.map(drop).map_err(failed)
        };
        self.times.around(&self.stream, || launch.kernel.clone(), &mut give)
    }

    fn multiply(&self, product: &Product) -> Result<()> {
        self.times.around(&self.stream, || product.name(), || self.products.multiply(&self.stream, product))
    }

    fn attention_library(&self) -> Result<AttentionLibrary, AttentionFallback> {
        self.attention.name()
    }

    fn attention_workspace(&self, shape: FusedShape, pass: FusedPass) -> Result<Option<usize>> {
        Ok(self.attention.workspace(shape, pass))
    }

    fn attend(&self, attention: &FusedAttention) -> Result<()> {
        self.times.around(&self.stream, || attention.name().to_owned(), || self.attention.attend(attention))
    }

    fn host_values(&self, count: usize) -> Result<Box<dyn HostValues>> {
        Ok(Box::new(PinnedBytes::new(&self.device, 4 * count)?))
    }

    fn copy_in(&self, from: &dyn HostValues, range: Range<usize>, to: &CudaSlice<u8>) -> Result<()> {
        let from = &from.values()[range];
        let room = to.len();
        if room < size_of_val(from) {
            return Err(ModelError::input("bytes to copy to the device", size_of_val(from), format!("up to {room}")));
        }
        let stream = self.stream_of(DeviceStream::HostToDevice);
        let to = self.address(to).0;
        stream.context().bind_to_thread().map_err(failed)?;
        // SAFETY: both memories are large enough and stay until the device has settled, as the trait asks for.
        unsafe { result::memcpy_htod_async(to, from, stream.cu_stream()) }.map_err(failed)
    }

    fn copy_out(&self, from: &CudaSlice<u8>, to: &mut dyn HostValues, range: Range<usize>) -> Result<()> {
        let to = &mut to.values_mut()[range];
        let there = from.len();
        if there < size_of_val(to) {
            return Err(ModelError::input("bytes to copy to the host", size_of_val(to), format!("up to {there}")));
        }
        let stream = self.stream_of(DeviceStream::DeviceToHost);
        let from = self.address(from).0;
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
