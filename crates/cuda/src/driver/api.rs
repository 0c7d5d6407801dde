//! The functions of the driver.

use std::ffi::{c_char, c_int};

use super::error::DriverError;
use crate::search::LoadedLibrary;

type Call<T> = unsafe extern "C" fn(T) -> c_int;
type Text = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

type OfDevice<T> = unsafe extern "C" fn(*mut T, c_int) -> c_int;
type Name = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
type Attribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;

/// The few functions that describe a machine.
#[derive(Clone, Copy)]
pub(super) struct Api {
    pub(super) init: Call<u32>,
    pub(super) driver_version: Call<*mut c_int>,
    pub(super) device_count: Call<*mut c_int>,
    pub(super) device: OfDevice<c_int>,
    pub(super) name: Name,
    pub(super) memory: OfDevice<usize>,
    pub(super) attribute: Attribute,
    pub(super) error_text: Text,
}

impl Api {
    pub(super) fn of(opened: LoadedLibrary) -> Result<Self, DriverError> {
        /// The function of that name.
        macro_rules! function {
            ($name:literal as $type:ty) => {{
                let path = || opened.path().display().to_string();
                let missing = || DriverError::Function { path: path(), function: $name };
                let address = opened.address($name).ok_or_else(missing)?;
                // SAFETY: the type is the function's in cuda.h.
                unsafe { std::mem::transmute::<*const (), $type>(address) }
            }};
        }
        Ok(Self {
            init: function!("cuInit" as Call<u32>),
            driver_version: function!("cuDriverGetVersion" as Call<*mut c_int>),
            device_count: function!("cuDeviceGetCount" as Call<*mut c_int>),
            device: function!("cuDeviceGet" as OfDevice<c_int>),
            name: function!("cuDeviceGetName" as Name),
            memory: function!("cuDeviceTotalMem_v2" as OfDevice<usize>),
            attribute: function!("cuDeviceGetAttribute" as Attribute),
            error_text: function!("cuGetErrorString" as Text),
        })
    }
}
