//! Files of tensors that are mapped into memory while they are read.

use std::path::Path;

use candle_core::safetensors::MmapedSafetensors;
use candle_core::{Device, Tensor};

use crate::error::{ModelError, Result};

/// Maps a file.
///
/// # Errors
/// One that is missing, truncated or not safetensors.
pub(super) fn map(path: &Path) -> Result<MmapedSafetensors> {
    // Opened first to report the operating system's error.
    drop(std::fs::File::open(path).map_err(ModelError::file(path))?);
    // SAFETY: the map is read during loading only. A writer that changes the file meanwhile would change values,
    // not lengths; published folders are never rewritten (each version has its own folder).
    #[expect(unsafe_code, reason = "a mapped file, so that a model of many GiB is not read twice")]
    let mapped = unsafe { MmapedSafetensors::new(path) };
    mapped.map_err(|e| ModelError::Corrupt {
        path: path.into(),
        reason: format!("is not a complete safetensors file: {e}"),
    })
}

/// A tensor in the type that it is stored in. The process releases the tensor's pages of the file afterwards: they
/// would count as its memory, once more beside the tensors, until the last one is read.
pub(super) fn read(file: &MmapedSafetensors, name: &str, device: &Device) -> Result<Tensor> {
    let tensor = file.load(name, device)?;
    leave(file.get(name)?.data());
    Ok(tensor)
}

/// A wish: systems that refuse it leave the pages until the file is closed.
#[cfg(target_os = "linux")]
fn leave(bytes: &[u8]) {
    /// The smallest page of any system.
    const PAGE: usize = 4 << 10;
    let range = bytes.as_ptr_range();
    let start = range.start.map_addr(|address| address & !(PAGE - 1));
    #[expect(unsafe_code, reason = "a call of the system")]
    // SAFETY: pages of a file that is mapped to be read; a later read gets them from the file, with the
    // same bytes.
    unsafe {
        libc::madvise(start.cast_mut().cast(), range.end.addr() - start.addr(), libc::MADV_DONTNEED);
    }
}

/// Does nothing: other systems decide when to release pages.
#[cfg(not(target_os = "linux"))]
fn leave(_: &[u8]) {}
