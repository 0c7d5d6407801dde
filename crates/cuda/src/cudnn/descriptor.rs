//! Descriptors: every object of the backend API is one, made of attributes and then finalised.

use std::ffi::c_void;
use std::ptr;

use super::CudnnError;
use super::api::Api;
use super::constants::{Attribute, Kind, Value};

/// A descriptor, destroyed when it is dropped.
pub(super) struct Descriptor {
    api: &'static Api,
    raw: Raw,
}

/// The library's pointer to a descriptor.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Raw(*mut c_void);

impl Value for Raw {
    const KIND: i32 = 15;
}

// SAFETY: a descriptor belongs to no thread; it is changed through `&mut` alone.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    pub(super) fn new(api: &'static Api, kind: Kind) -> Result<Self, CudnnError> {
        let mut raw = ptr::null_mut();
        // SAFETY: writes one pointer.
        api.check("cudnnBackendCreateDescriptor", unsafe { (api.create)(kind as i32, &raw mut raw) })?;
        Ok(Self { api, raw: Raw(raw) })
    }

    /// Sets an attribute to some values.
    pub(super) fn set<T: Value>(&mut self, attribute: Attribute, values: &[T]) -> Result<(), CudnnError> {
        let count = values.len() as i64;
        let at = values.as_ptr().cast();
        // SAFETY: as many values of the stated type, which the library copies.
        let status = unsafe { (self.api.set)(self.raw.0, attribute as i32, T::KIND, count, at) };
        self.api.check("cudnnBackendSetAttribute", status)
    }

    /// Sets an attribute to other descriptors, which must be final.
    pub(super) fn refer(&mut self, attribute: Attribute, others: &[&Self]) -> Result<(), CudnnError> {
        self.set(attribute, &others.iter().map(|other| other.raw).collect::<Vec<_>>())
    }

    /// Checks it as a whole; from then on it does not change.
    pub(super) fn finalize(&mut self) -> Result<(), CudnnError> {
        // SAFETY: a descriptor of this library.
        let status = unsafe { (self.api.finalize)(self.raw.0) };
        self.api.check("cudnnBackendFinalize", status)
    }

    /// The single value of an attribute.
    pub(super) fn number(&self, attribute: Attribute) -> Result<i64, CudnnError> {
        let mut value = 0i64;
        let mut count = 0;
        // SAFETY: writes at most one integer.
        let status = unsafe {
            (self.api.get)(self.raw.0, attribute as i32, i64::KIND, 1, &raw mut count, (&raw mut value).cast())
        };
        self.api.check("cudnnBackendGetAttribute", status).map(|()| value)
    }

    /// The bytes of an attribute.
    pub(super) fn bytes(&self, attribute: Attribute) -> Result<Vec<u8>, CudnnError> {
        let mut bytes = vec![0; self.count::<u8>(attribute)?];
        self.fill::<u8>(attribute, &mut bytes)?;
        Ok(bytes)
    }

    /// The descriptors that an attribute consists of.
    pub(super) fn others(&self, attribute: Attribute, kind: Kind) -> Result<Vec<Self>, CudnnError> {
        let count = self.count::<Raw>(attribute)?;
        let others = (0..count).map(|_| Self::new(self.api, kind)).collect::<Result<Vec<_>, _>>()?;
        // The library fills in descriptors that exist.
        let mut raw: Vec<Raw> = others.iter().map(|other| other.raw).collect();
        let filled = self.fill(attribute, &mut raw)?;
        Ok(others.into_iter().take(filled).collect())
    }

    /// How many values an attribute has.
    fn count<T: Value>(&self, attribute: Attribute) -> Result<usize, CudnnError> {
        let mut count = 0;
        // SAFETY: writes no value, and one integer.
        let status =
            unsafe { (self.api.get)(self.raw.0, attribute as i32, T::KIND, 0, &raw mut count, ptr::null_mut()) };
        self.api.check("cudnnBackendGetAttribute", status).map(|()| usize::try_from(count).unwrap_or(0))
    }

    /// Writes as many values as there is room for, and gives their number.
    fn fill<T: Value>(&self, attribute: Attribute, values: &mut [T]) -> Result<usize, CudnnError> {
        let mut count = 0;
        let room = values.len() as i64;
        let at = values.as_mut_ptr().cast();
        // SAFETY: at most as many values as there is room for.
        let status = unsafe { (self.api.get)(self.raw.0, attribute as i32, T::KIND, room, &raw mut count, at) };
        self.api
            .check("cudnnBackendGetAttribute", status)
            .map(|()| usize::try_from(count).unwrap_or(0).min(values.len()))
    }

    pub(super) fn raw(&self) -> *mut c_void {
        self.raw.0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // A failure leaks a few bytes of host memory.
        // SAFETY: made by this library, and used for the last time.
        let _ = unsafe { (self.api.destroy)(self.raw.0) };
    }
}
