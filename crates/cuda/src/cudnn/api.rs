//! cuDNN's backend API as function pointers.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use super::CudnnError;
use crate::library::Library;
use crate::search::{LoadedLibrary, open};

/// The first version whose plans were checked: that of PyTorch 2.11.
const OLDEST: usize = 91_900;
/// Version 10, whose functions may differ.
const NEXT_MAJOR: usize = 100_000;
/// Bytes of the library's account of its last error.
const MESSAGE: usize = 4096;

type Create = unsafe extern "C" fn(c_int, *mut *mut c_void) -> c_int;
type One = unsafe extern "C" fn(*mut c_void) -> c_int;
type Two = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Three = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int;
type Set = unsafe extern "C" fn(*mut c_void, c_int, c_int, i64, *const c_void) -> c_int;
type Get = unsafe extern "C" fn(*const c_void, c_int, c_int, i64, *mut i64, *mut c_void) -> c_int;
type Handle = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Text = unsafe extern "C" fn(c_int) -> *const c_char;
type Message = unsafe extern "C" fn(*mut c_char, usize);
type Number = unsafe extern "C" fn() -> usize;

/// The library's functions. It is opened once, and stays open until the process ends.
pub(super) struct Api {
    pub(super) create: Create,
    pub(super) destroy: One,
    pub(super) finalize: One,
    pub(super) set: Set,
    pub(super) get: Get,
    pub(super) execute: Three,
    pub(super) create_handle: Handle,
    pub(super) destroy_handle: One,
    pub(super) set_stream: Two,
    status_text: Text,
    last_message: Message,
    version: usize,
    path: &'static str,
}

impl Api {
    /// The library, opened at the first call.
    pub(super) fn get() -> Result<&'static Self, CudnnError> {
        static API: OnceLock<Api> = OnceLock::new();
        if let Some(api) = API.get() {
            return Ok(api);
        }
        let api = Self::of(open(Library::Cudnn)?)?;
        api.check_version()?;
        Ok(API.get_or_init(|| api))
    }

    /// Refuses an older version, and another major one, whatever its file is called.
    fn check_version(&self) -> Result<(), CudnnError> {
        match self.version {
            OLDEST..NEXT_MAJOR => Ok(()),
            _ => Err(CudnnError::Version { path: self.path, found: self.version() }),
        }
    }

    fn of(opened: LoadedLibrary) -> Result<Self, CudnnError> {
        let path: &'static str = Box::leak(opened.path().display().to_string().into_boxed_str());
        /// The function of that name.
        macro_rules! function {
            ($name:literal as $type:ty) => {{
                let address = opened.address($name).ok_or(CudnnError::Function { path, function: $name })?;
                // SAFETY: the type is the function's in cudnn_graph_v9.h.
                unsafe { std::mem::transmute::<*const (), $type>(address) }
            }};
        }
        let number = function!("cudnnGetVersion" as Number);
        Ok(Self {
            create: function!("cudnnBackendCreateDescriptor" as Create),
            destroy: function!("cudnnBackendDestroyDescriptor" as One),
            finalize: function!("cudnnBackendFinalize" as One),
            set: function!("cudnnBackendSetAttribute" as Set),
            get: function!("cudnnBackendGetAttribute" as Get),
            execute: function!("cudnnBackendExecute" as Three),
            create_handle: function!("cudnnCreate" as Handle),
            destroy_handle: function!("cudnnDestroy" as One),
            set_stream: function!("cudnnSetStream" as Two),
            status_text: function!("cudnnGetErrorString" as Text),
            last_message: function!("cudnnGetLastErrorString" as Message),
            // SAFETY: it only gives a number.
            version: unsafe { number() },
            path,
        })
    }

    /// Version of the library, as its package is named: `9.19.0`.
    pub(super) fn version(&self) -> String {
        format!("{}.{}.{}", self.version / 10_000, self.version % 10_000 / 100, self.version % 100)
    }

    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    /// An error out of a status that is not 0, with the library's own account of it.
    pub(super) fn check(&self, what: &'static str, status: c_int) -> Result<(), CudnnError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: gives a constant text for every number.
        let name = unsafe { (self.status_text)(status) };
        let name = if name.is_null() {
            format!("status {status}")
        } else {
            // SAFETY: checked; a constant text that ends with a 0.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        };
        let mut message = [0 as c_char; MESSAGE];
        // SAFETY: writes at most as many characters as it is given.
        unsafe { (self.last_message)(message.as_mut_ptr(), MESSAGE) };
        message[MESSAGE - 1] = 0;
        // SAFETY: ends with a 0.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy();
        // Several lines, the first of them the cause.
        let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        Err(CudnnError::Call { what, name, message: lines.join("; ") })
    }
}
