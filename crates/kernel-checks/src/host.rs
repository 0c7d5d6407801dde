//! A device of this process: launches go to a runner, and its memory is that of buffers.

use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, Shape, Storage, Tensor};
use evenkeel_kernels::{Chip, FusedAttention, FusedPass, FusedShape, Launch, Pointer, Product, Type};
use evenkeel_model::kernels::cuda::Device;
use evenkeel_model::{ModelError, Result};

use crate::Runner;
use crate::memory::Buffer;

/// The `cuda` kernels over a runner. Memory begins as NaN, and a write behind it is found when it is read.
pub struct Host<'a> {
    runner: &'a dyn Runner,
    /// Copies of parameters, so that a runner finds them among the buffers.
    parameters: Mutex<Vec<Buffer>>,
}

impl<'a> Host<'a> {
    /// A device that gives all work to a runner.
    pub fn new(runner: &'a dyn Runner) -> Self {
        Self { runner, parameters: Mutex::default() }
    }
}

impl Device for Host<'_> {
    type Memory = Buffer;

    fn chip(&self) -> Chip {
        self.runner.chip()
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer> {
        Ok(Buffer::bytes_of(&vec![0xff; bytes]))
    }

    fn zeros(&self, bytes: usize) -> Result<Buffer> {
        Ok(Buffer::bytes_of(&vec![0; bytes]))
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer> {
        Ok(Buffer::bytes_of(bytes))
    }

    fn download(&self, memory: &Buffer, bytes: usize) -> Result<Vec<u8>> {
        Ok(memory.bytes()[..bytes].to_vec())
    }

    fn address(&self, memory: &Buffer) -> Pointer {
        memory.pointer()
    }

    fn parameter(&self, parameter: &Tensor) -> Result<Pointer> {
        let (storage, layout) = parameter.storage_and_layout();
        match (&*storage, layout.contiguous_offsets()) {
            (Storage::Cpu(CpuStorage::F32(values)), Some((start, end))) => {
                let copy = Buffer::f32(&values[start..end]);
                let at = copy.pointer();
                self.parameters.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
                Ok(at)
            }
            _ => Err(ModelError::input("parameter", format!("{:?}", parameter.dtype()), "contiguous F32 on the CPU")),
        }
    }

    fn tensor(&self, memory: Buffer, shape: &Shape) -> Result<Tensor> {
        Ok(Tensor::from_vec(memory.read(Type::F32), shape, &candle_core::Device::Cpu)?)
    }

    fn launch(&self, launch: &Launch) -> Result<()> {
        self.runner.run(launch, launch.bytes as u32);
        Ok(())
    }

    fn multiply(&self, product: &Product) -> Result<()> {
        self.runner.multiply(product);
        Ok(())
    }

    fn attention_library(&self) -> std::result::Result<String, String> {
        self.runner.attention_library()
    }

    fn attention_workspace(&self, shape: FusedShape, pass: FusedPass) -> Result<Option<usize>> {
        Ok(self.runner.attention_workspace(shape, pass))
    }

    fn attend(&self, attention: &FusedAttention) -> Result<()> {
        self.runner.attend(attention);
        Ok(())
    }
}
