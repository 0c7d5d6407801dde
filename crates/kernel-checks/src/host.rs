//! A device of this process: launches go to a runner, and its memory is that of buffers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, Shape, Storage, Tensor, TensorId};
use evenkeel_kernels::{DeviceProperties, FusedAttention, FusedPass, FusedShape, Launch, Pointer, Product, Type};
use evenkeel_model::kernels::HostValues;
use evenkeel_model::kernels::cuda::{Device, DeviceStream};
use evenkeel_model::{AttentionFallback, AttentionLibrary, ModelError, Result};

use crate::Runner;
use crate::memory::Buffer;

/// The `cuda` kernels over a runner. Memory begins as NaN, and a write past its end is found when it is read.
pub struct Host<'a> {
    runner: &'a dyn Runner,
    /// Copies of parameters, so that a runner finds them among the buffers.
    parameters: Mutex<HashMap<TensorId, (Tensor, Buffer)>>,
}

impl<'a> Host<'a> {
    /// A device that gives all work to a runner.
    pub fn new(runner: &'a dyn Runner) -> Self {
        Self { runner, parameters: Mutex::default() }
    }

    /// What kernels have made of a parameter.
    pub fn values_of(&self, parameter: &Tensor) -> Option<Vec<f32>> {
        let copies = self.parameters.lock().unwrap_or_else(PoisonError::into_inner);
        copies.get(&parameter.id()).map(|(_, copy)| copy.read_f32())
    }
}

impl Device for Host<'_> {
    type Memory = Buffer;
    type Event = ();

    fn properties(&self) -> DeviceProperties {
        self.runner.properties()
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

    fn parameter(&self, parameter: &Tensor, kind: Type) -> Result<Pointer> {
        let (storage, layout) = parameter.storage_and_layout();
        let copied = |copy: &dyn Fn() -> Buffer| {
            let mut copies = self.parameters.lock().unwrap_or_else(PoisonError::into_inner);
            copies.entry(parameter.id()).or_insert_with(|| (parameter.clone(), copy())).1.pointer()
        };
        match (&*storage, layout.contiguous_offsets(), kind) {
            (Storage::Cpu(CpuStorage::F32(values)), Some((start, end)), Type::F32) => {
                Ok(copied(&|| Buffer::f32(&values[start..end])))
            }
            (Storage::Cpu(CpuStorage::BF16(values)), Some((start, end)), Type::Bf16) => {
                let bytes = || values[start..end].iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>();
                Ok(copied(&|| Buffer::bytes_of(&bytes())))
            }
            _ => {
                let allowed = format!("contiguous {kind:?} on the CPU");
                Err(ModelError::input("parameter", format!("{:?}", parameter.dtype()), allowed))
            }
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

    fn attention_library(&self) -> Result<AttentionLibrary, AttentionFallback> {
        self.runner.attention_library()
    }

    fn attention_workspace(&self, shape: FusedShape, pass: FusedPass) -> Result<Option<usize>> {
        Ok(self.runner.attention_workspace(shape, pass))
    }

    fn attend(&self, attention: &FusedAttention) -> Result<()> {
        self.runner.attend(attention);
        Ok(())
    }

    fn host_values(&self, count: usize) -> Result<Box<dyn HostValues>> {
        Ok(Box::new(vec![0.0; count]))
    }

    fn copy_in(&self, from: &dyn HostValues, range: Range<usize>, to: &Buffer) -> Result<()> {
        to.write_f32(&from.values()[range]);
        Ok(())
    }

    fn copy_out(&self, from: &Buffer, to: &mut dyn HostValues, range: Range<usize>) -> Result<()> {
        let count = range.len();
        to.values_mut()[range].copy_from_slice(&from.read_f32()[..count]);
        Ok(())
    }

    // Everything is done at once.
    fn record(&self, _stream: DeviceStream) -> Result<()> {
        Ok(())
    }

    fn wait(&self, _stream: DeviceStream, _event: &()) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}
