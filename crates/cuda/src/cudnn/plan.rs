//! Execution plans: an engine for a graph on a device, compiled.

use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;

use evenkeel_kernels::{FusedAttention, FusedPass, FusedShape, Pointer};

use super::CudnnError;
use super::api::Api;
use super::arrays::Numbers;
use super::attention::graph;
use super::constants::{Attribute, DescriptorType, Heuristic};
use super::descriptor::Descriptor;

/// The device that plans are made for: a real one, or a description of one.
pub(super) struct PlanDevice(Descriptor);

impl PlanDevice {
    /// A device of this process, by CUDA's number.
    pub(super) fn device(api: &'static Api, number: i32) -> Result<Self, CudnnError> {
        Self::of(api, |target| target.set(Attribute::DeviceNumber, &[number]))
    }

    /// A device under the names of cuDNN's device properties, as JSON.
    pub(super) fn described(api: &'static Api, json: &str) -> Result<Self, CudnnError> {
        Self::of(api, |target| target.set(Attribute::DeviceJson, json.as_bytes()))
    }

    fn of(api: &'static Api, set: impl FnOnce(&mut Descriptor) -> Result<(), CudnnError>) -> Result<Self, CudnnError> {
        let mut target = Descriptor::new(api, DescriptorType::Device)?;
        set(&mut target)?;
        target.finalize()?;
        Ok(Self(target))
    }
}

/// The library's state for a device and a stream.
pub(super) struct Handle {
    api: &'static Api,
    raw: Mutex<*mut c_void>,
}

// SAFETY: the handle is used under its lock.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// For the calling thread's CUDA context and a stream of it.
    pub(super) fn new(api: &'static Api, stream: *mut c_void) -> Result<Self, CudnnError> {
        let mut raw = ptr::null_mut();
        // SAFETY: writes one pointer.
        api.check("cudnnCreate", unsafe { (api.create_handle)(&raw mut raw) })?;
        let handle = Self { api, raw: Mutex::new(raw) };
        // SAFETY: the handle made above, and a stream that outlives it.
        api.check("cudnnSetStream", unsafe { (api.set_stream)(raw, stream) })?;
        Ok(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let raw = *self.raw.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: made by this value, and used for the last time.
        let _ = unsafe { (self.api.destroy_handle)(raw) };
    }
}

/// A plan for a pass over one shape on one device.
pub struct AttentionPlan {
    api: &'static Api,
    plan: Descriptor,
    /// The engine that it was made of, if it was made and not read.
    engine: Option<Descriptor>,
    workspace: usize,
}

impl AttentionPlan {
    /// Builds one: the first engine that the library's heuristic proposes and that compiles.
    pub(super) fn build(
        api: &'static Api,
        target: &PlanDevice,
        shape: FusedShape,
        pass: FusedPass,
    ) -> Result<Self, CudnnError> {
        let graph = graph(api, shape, pass)?;
        let mut reasons = Vec::new();
        for mode in [Heuristic::A, Heuristic::Fallback] {
            for engine in proposals(api, target, graph.descriptor(), mode).unwrap_or_else(|reason| {
                reasons.push(reason.to_string());
                Vec::new()
            }) {
                let mut plan = Descriptor::new(api, DescriptorType::Plan)?;
                match plan.refer(Attribute::PlanEngineConfig, &[&engine]).and_then(|()| plan.finalize()) {
                    Ok(()) => return Self::of(api, plan, Some(engine)),
                    Err(reason) => reasons.push(reason.to_string()),
                }
            }
        }
        if reasons.is_empty() {
            reasons.push("no engine was proposed".into());
        }
        Err(CudnnError::NoPlan { pass, shape, reasons: reasons.join("; ") })
    }

    /// Reads what [`AttentionPlan::json`] gave on the same device with the same version of the library.
    pub(super) fn read(api: &'static Api, target: &PlanDevice, json: &[u8]) -> Result<Self, CudnnError> {
        let mut plan = Descriptor::new(api, DescriptorType::Plan)?;
        plan.set(Attribute::PlanJson, json)?;
        plan.refer(Attribute::PlanDevice, &[&target.0])?;
        plan.finalize()?;
        Self::of(api, plan, None)
    }

    fn of(api: &'static Api, plan: Descriptor, engine: Option<Descriptor>) -> Result<Self, CudnnError> {
        let workspace = usize::try_from(plan.number(Attribute::PlanWorkspace)?).unwrap_or(0);
        Ok(Self { api, plan, engine, workspace })
    }

    /// The plan and its compiled kernels, in the library's own representation.
    ///
    /// # Errors
    /// The library cannot represent it.
    pub fn json(&self) -> Result<Vec<u8>, CudnnError> {
        self.plan.bytes(Attribute::PlanJson)
    }

    /// Whether the plan was read from a file.
    pub fn is_read(&self) -> bool {
        self.engine.is_none()
    }

    /// Bytes of the device's memory that it needs besides the arrays.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Gives the pass to the device, which runs it in the order of the stream.
    pub(super) fn execute(&self, handle: &Handle, attention: &FusedAttention) -> Result<(), CudnnError> {
        let numbers = Numbers::of(attention.shape);
        let (ids, at) = numbers.pack(attention);
        let Pointer(workspace) = attention.workspace;
        let mut pack = Descriptor::new(self.api, DescriptorType::VariantPack)?;
        pack.set(Attribute::PackIds, &ids)?;
        pack.set(Attribute::PackPointers, &at)?;
        pack.set(Attribute::PackWorkspace, &[workspace as *mut c_void])?;
        pack.finalize()?;
        let raw = handle.raw.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: final descriptors of this library; addresses of arrays that outlive the pass in the order of the
        // stream, and of numbers that outlive the call, which reads them.
        let status = unsafe { (self.api.execute)(*raw, self.plan.raw(), pack.raw()) };
        self.api.check("cudnnBackendExecute", status)
    }
}

/// The engines that the library would choose, best first.
fn proposals(
    api: &'static Api,
    target: &PlanDevice,
    graph: &Descriptor,
    mode: Heuristic,
) -> Result<Vec<Descriptor>, CudnnError> {
    let mut heuristic = Descriptor::new(api, DescriptorType::EngineHeuristic)?;
    heuristic.refer(Attribute::HeuristicGraph, &[graph])?;
    heuristic.set(Attribute::HeuristicMode, &[mode])?;
    heuristic.refer(Attribute::HeuristicDevice, &[&target.0])?;
    heuristic.finalize()?;
    heuristic.others(Attribute::HeuristicResults, DescriptorType::EngineConfig)
}
