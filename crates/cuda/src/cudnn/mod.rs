//! Attention by cuDNN, through its backend API.
//!
//! [`Cudnn`] gives a plan for each shape and pass: from memory, from a file of an earlier process, or built, which
//! takes a second or two. Plans can be made for a device that is only described: support, workspace and representation
//! are checked that way where there is no GPU.

mod api;
mod arrays;
mod attention;
mod cache;
mod constants;
mod descriptor;
mod graph;
mod plan;

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub use cache::CACHE;
pub use plan::AttentionPlan;

use evenkeel_errors::FieldError;
use evenkeel_kernels::{FusedAttention, FusedPass, FusedShape};

use crate::search::Missing;
use api::Api;
use cache::PlanCache;
use plan::{Handle, PlanDevice};

/// Why cuDNN cannot compute attention.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudnnError {
    /// The library is not there or cannot be loaded.
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("{path} is cuDNN {found}, allowed: 9.19 or a later 9; it comes with the Python package nvidia-cudnn-cu13")]
    Version { path: &'static str, found: String },
    /// The library lacks a function that every version 9 has.
    #[error("{path} has no function {function}, allowed: cuDNN 9.19 or a later 9")]
    Function { path: &'static str, function: &'static str },
    #[error("{what} failed: {name}: {message}")]
    Call {
        what: &'static str,
        /// The status, as the library calls it.
        name: String,
        /// The library's account of it.
        message: String,
    },
    /// A shape that no plan is made for.
    #[error(transparent)]
    Shape(#[from] FieldError),
    /// No engine takes the shape on this device.
    #[error("no plan for the {pass} pass of attention {shape}: {reasons}")]
    NoPlan {
        pass: FusedPass,
        shape: FusedShape,
        /// What was tried and why it was refused.
        reasons: String,
    },
    /// A pass on a device that is only described.
    #[error("attention cannot be computed on a device that is only described")]
    Described,
}

/// The library's version, if it can compute attention: `9.19.0`.
///
/// # Errors
/// It is missing, or of another version.
pub fn version() -> Result<String, CudnnError> {
    Api::get().map(Api::version)
}

/// The library's file, if it can compute attention.
///
/// # Errors
/// As [`version`].
pub fn path() -> Result<&'static Path, CudnnError> {
    Api::get().map(|api| Path::new(api.path()))
}

type Known = HashMap<(FusedShape, FusedPass), Result<Arc<AttentionPlan>, CudnnError>>;

/// The library for one device, with the plans that were needed so far.
pub struct Cudnn {
    api: &'static Api,
    target: PlanDevice,
    handle: Option<Handle>,
    cache: Option<PlanCache>,
    plans: Mutex<Known>,
}

impl Cudnn {
    /// Opens the library for a device of this process, by its number, with a stream of the device in the calling
    /// thread's context. `name` says which device it is in the cache of plans.
    ///
    /// # Safety
    /// The stream must outlive this value.
    ///
    /// # Errors
    /// The library is missing, of another version, or refuses the device.
    pub unsafe fn of_device(number: i32, stream: *mut c_void, name: &str) -> Result<Self, CudnnError> {
        let api = Api::get()?;
        let target = PlanDevice::device(api, number)?;
        let handle = Handle::new(api, stream)?;
        let cache = PlanCache::of_this_process(&api.version(), name);
        Ok(Self { api, target, handle: Some(handle), cache, plans: Mutex::default() })
    }

    /// Opens the library for a device that is only described, by the names of cuDNN's device properties. Plans can be
    /// inspected, and kept in the folder `cache`, but not run.
    ///
    /// # Errors
    /// The library is missing, of another version, or refuses the description.
    pub fn described(json: &str, cache: Option<&Path>) -> Result<Self, CudnnError> {
        let api = Api::get()?;
        let target = PlanDevice::described(api, json)?;
        let cache = cache.map(|root| PlanCache::new(root, &api.version(), "a described device"));
        Ok(Self { api, target, handle: None, cache, plans: Mutex::default() })
    }

    /// Version of the library, as its package is named: `9.19.0`.
    pub fn version(&self) -> String {
        self.api.version()
    }

    pub fn path(&self) -> &'static str {
        self.api.path()
    }

    /// The plan for a pass. A refusal is remembered as well.
    ///
    /// # Errors
    /// The shape is refused, by this crate or by the library.
    pub fn plan(&self, shape: FusedShape, pass: FusedPass) -> Result<Arc<AttentionPlan>, CudnnError> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.entry((shape, pass)).or_insert_with(|| self.find(shape, pass).map(Arc::new)).clone()
    }

    /// From a file, or built and kept in one.
    fn find(&self, shape: FusedShape, pass: FusedPass) -> Result<AttentionPlan, CudnnError> {
        if let Some(cache) = &self.cache
            && let Some(json) = cache.read(shape, pass)
            // One that the library no longer takes is built anew.
            && let Ok(plan) = AttentionPlan::read(self.api, &self.target, &json)
        {
            return Ok(plan);
        }
        let plan = AttentionPlan::build(self.api, &self.target, shape, pass)?;
        if let Some(cache) = &self.cache
            && let Ok(json) = plan.json()
        {
            // Without the file the next process builds the plan again.
            let _ = cache.write(shape, pass, &json);
        }
        Ok(plan)
    }

    /// Gives a pass to the device.
    ///
    /// # Safety
    /// The addresses must be of the device's memory, of the sizes that [`FusedAttention`] states, and of as many bytes
    /// of workspace as the plan needs; they must stay valid until the stream has passed the call. Offsets must be those
    /// of the lengths.
    ///
    /// # Errors
    /// No plan, or a failure of the device.
    pub unsafe fn run(&self, attention: &FusedAttention) -> Result<(), CudnnError> {
        let handle = self.handle.as_ref().ok_or(CudnnError::Described)?;
        self.plan(attention.shape, attention.pass)?.execute(handle, attention)
    }
}
