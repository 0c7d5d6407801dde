//! Evenkeel's own kernels on the device, against the CPU's: the checks that the tests run on fibres.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, Result, bail};
use candle_core::cuda_backend::cudarc::driver::{DevicePtr, LaunchConfig, PushKernelArg};
use candle_core::cuda_backend::cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use candle_core::{CudaDevice, Device};
use evenkeel_cuda::Probe;
use evenkeel_kernel_checks::{Block, CHECKS, Runner};
use evenkeel_kernels::{Argument, Chip, Launch, Pointer, sources};

use crate::report::Part;

pub(crate) fn check(part: &mut Part<'_>, probe: &Probe, device: &Device) -> Result<()> {
    let Device::Cuda(device) = device else { bail!("the kernels run on a GPU only") };
    let description = probe.devices.first().context("the probe shows no device")?;
    let architecture = format!("compute_{}", description.device_ver / 10);
    let mut modules = Vec::new();
    for source in sources() {
        let options = CompileOptions {
            // NVRTC is called a few times in a process.
            arch: Some(architecture.clone().leak()),
            options: vec!["--std=c++17".into()],
            name: Some(source.name.into()),
            ..CompileOptions::default()
        };
        let compiled = compile_ptx_with_opts(&source.text, options);
        let ptx = compiled.with_context(|| format!("{} does not compile for {architecture}", source.name))?.to_src();
        modules.push((source.name, ptx));
    }
    // Blocks with one piece of work each, and with several.
    for multiprocessors in [description.multi_processor_count as u32, 1] {
        let card = Card { device, modules: &modules, chip: Chip { multiprocessors } };
        for (name, check) in CHECKS {
            let failed = catch_unwind(AssertUnwindSafe(|| check(&card))).is_err();
            // The panic has said what differs.
            part.check(format!("{name} with {multiprocessors} multiprocessors"), f64::from(u8::from(failed)), 0.0);
        }
    }
    Ok(())
}

/// Runs launches on the device, with copies of the buffers that they lead into.
struct Card<'a> {
    device: &'a CudaDevice,
    /// The name and PTX of each source.
    modules: &'a [(&'static str, String)],
    chip: Chip,
}

impl Runner for Card<'_> {
    fn chip(&self) -> Chip {
        self.chip
    }

    fn run(&self, launch: &Launch, _seed: u32) {
        if let Err(error) = self.launch(launch) {
            panic!("{error:#}: {launch:?}");
        }
    }
}

impl Card<'_> {
    fn launch(&self, launch: &Launch) -> Result<()> {
        let stream = self.device.cuda_stream();
        let mut copies = BTreeMap::new();
        for argument in &launch.arguments {
            if let Argument::Pointer(pointer) = argument
                && let Some(block) = Block::of(*pointer)
                && !copies.contains_key(&block)
            {
                copies.insert(block, stream.clone_htod(&block.read())?);
            }
        }
        let mut values = Vec::new();
        for argument in &launch.arguments {
            values.push(match *argument {
                Argument::Pointer(Pointer::NULL) => 0,
                Argument::Pointer(pointer) => {
                    let block = Block::of(pointer).with_context(|| format!("{pointer:?} leads into no buffer"))?;
                    let (address, _) = copies[&block].device_ptr(&stream);
                    address + (pointer.0 - block.address)
                }
                // The kernel reads as many of the bytes as its argument has.
                Argument::U32(value) => value.into(),
                Argument::U64(value) => value,
                Argument::F32(value) => value.to_bits().into(),
                Argument::F64(value) => value.to_bits(),
            });
        }
        let function = self.function(&launch.kernel)?;
        let mut builder = function.builder();
        for value in &values {
            builder.arg(value);
        }
        let config = LaunchConfig {
            grid_dim: (launch.grid, 1, 1),
            block_dim: (launch.block, 1, 1),
            shared_mem_bytes: launch.shared,
        };
        // SAFETY: the launch was made for this kernel, and its pointers lead into the copies.
        unsafe { builder.launch(config) }?;
        for (block, copy) in &copies {
            block.write(&stream.clone_dtoh(copy)?);
        }
        Ok(())
    }

    fn function(&self, kernel: &str) -> Result<candle_core::cuda_backend::CudaFunc> {
        let declared = format!(".entry {kernel}(");
        let found = self.modules.iter().find(|(_, ptx)| ptx.contains(&declared));
        let (name, ptx) = found.with_context(|| format!("no source has a kernel {kernel}"))?;
        Ok(self.device.get_or_load_custom_func(kernel, name, ptx)?)
    }
}
