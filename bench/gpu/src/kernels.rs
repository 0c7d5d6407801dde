//! Evenkeel's own kernels and cuBLASLt's products on the device, against the CPU's: the checks that the tests run on
//! fibres.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, bail};
use candle_core::Device as CandleCoreDevice;
use evenkeel_kernel_checks::{CHECKS, CheckedBlock, Runner};
use evenkeel_kernels::{Argument, DeviceProperties, FusedAttention, FusedPass, FusedShape, Launch, Pointer, Product};
use evenkeel_model::kernels::cuda::{CandleDevice, Device};
use evenkeel_model::{AttentionFallback, AttentionLibrary};

use serde_json::json;

use crate::report::ReportPart;

pub(crate) fn check(part: &mut ReportPart<'_>, device: &CandleCoreDevice) -> anyhow::Result<()> {
    let CandleCoreDevice::Cuda(device) = device else { bail!("the kernels run on a GPU only") };
    let device = CandleDevice::new(device)?;
    let (library, reason) = match device.attention_library() {
        Ok(library) => (Some(library.to_string()), None),
        Err(reason) => (None, Some(reason.to_string())),
    };
    part.fact(json!({"what": "attention in one call", "library": library, "not": reason}));
    // Blocks with one piece of work each, and with several.
    for multiprocessors in [device.properties().multiprocessors, 1] {
        let runner = DeviceRunner { device: &device, properties: DeviceProperties { multiprocessors } };
        for (name, check) in CHECKS {
            let failed = catch_unwind(AssertUnwindSafe(|| check(&runner))).is_err();
            // The panic has said what differs.
            part.check(format!("{name} with {multiprocessors} multiprocessors"), f64::from(u8::from(failed)), 0.0);
        }
    }
    Ok(())
}

/// Runs launches and products on the device, with copies of the buffers that they lead into.
struct DeviceRunner<'a> {
    device: &'a CandleDevice,
    properties: DeviceProperties,
}

type Copies = BTreeMap<CheckedBlock, <CandleDevice as Device>::Memory>;

impl Runner for DeviceRunner<'_> {
    fn properties(&self) -> DeviceProperties {
        self.properties
    }

    fn run(&self, launch: &Launch, _seed: u32) {
        if let Err(error) = self.launch(launch) {
            panic!("{error:#}: {launch:?}");
        }
    }

    fn multiply(&self, product: &Product) {
        if let Err(error) = self.product(product) {
            panic!("{error:#}: {product:?}");
        }
    }

    fn attention_library(&self) -> Result<AttentionLibrary, AttentionFallback> {
        self.device.attention_library()
    }

    fn attention_workspace(&self, shape: FusedShape, pass: FusedPass) -> Option<usize> {
        self.device.attention_workspace(shape, pass).unwrap_or_else(|error| panic!("{error:#}: {shape:?} {pass:?}"))
    }

    fn attend(&self, attention: &FusedAttention) {
        if let Err(error) = self.attention(attention) {
            panic!("{error:#}: {attention:?}");
        }
    }
}

impl DeviceRunner<'_> {
    fn launch(&self, launch: &Launch) -> anyhow::Result<()> {
        let mut copies = Copies::new();
        let mut launch = launch.clone();
        for argument in &mut launch.arguments {
            if let Argument::Pointer(pointer) = argument {
                *pointer = self.moved(&mut copies, *pointer)?;
            }
        }
        self.device.launch(&launch)?;
        self.bring_back(&copies)
    }

    fn product(&self, product: &Product) -> anyhow::Result<()> {
        let mut copies = Copies::new();
        let mut product = *product;
        for pointer in [&mut product.a.at, &mut product.b.at, &mut product.to.at, &mut product.add] {
            *pointer = self.moved(&mut copies, *pointer)?;
        }
        self.device.multiply(&product)?;
        self.bring_back(&copies)
    }

    fn attention(&self, attention: &FusedAttention) -> anyhow::Result<()> {
        let mut copies = Copies::new();
        let mut attention = *attention;
        for pointer in attention.pointers_mut() {
            *pointer = self.moved(&mut copies, *pointer)?;
        }
        self.device.attend(&attention)?;
        self.bring_back(&copies)
    }

    /// Where a pointer into a buffer leads in the device's copy of it.
    fn moved(&self, copies: &mut Copies, pointer: Pointer) -> anyhow::Result<Pointer> {
        if pointer == Pointer::NULL {
            return Ok(pointer);
        }
        let block = CheckedBlock::of(pointer).with_context(|| format!("{pointer:?} leads into no buffer"))?;
        let copy = match copies.entry(block) {
            Entry::Occupied(copy) => copy.into_mut(),
            Entry::Vacant(empty) => empty.insert(self.device.upload(&block.read())?),
        };
        Ok(Pointer(self.device.address(copy).0 + (pointer.0 - block.address)))
    }

    fn bring_back(&self, copies: &Copies) -> anyhow::Result<()> {
        for (block, copy) in copies {
            block.write(&self.device.download(copy, block.bytes)?);
        }
        Ok(())
    }
}
