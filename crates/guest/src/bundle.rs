//! The component in one compressed file, for packages: a machine without componentize-py and without a network can
//! compile it.
//!
//! A file beside this program is used before anything is built. The file's name has the digest of the sources, like the
//! component's.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use evenkeel_sandbox::guest::{self, GuestError};

use crate::BuildError;

/// The level after which zstd takes much longer for little.
const LEVEL: i32 = 19;
/// Largest component that is unpacked, in bytes: twice what it has.
const MAX_BYTES: u64 = 64 << 20;

/// File name of the compressed component.
#[must_use]
pub fn bundle_name() -> String {
    format!("{}.zst", guest::component_name())
}

/// The compressed component beside this program, if there is one.
pub(crate) fn beside_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.join(bundle_name())).filter(|path| path.is_file())
}

/// Compresses a component into a file, with a checksum.
pub(crate) fn pack(component: &Path, path: &Path) -> Result<(), BuildError> {
    let wasm = fs::read(component).map_err(GuestError::io(component))?;
    let temporary = path.with_added_extension(format!("{}", std::process::id()));
    let write = || {
        let mut encoder = zstd::Encoder::new(File::create(&temporary)?, LEVEL)?;
        encoder.include_checksum(true)?;
        std::io::copy(&mut wasm.as_slice(), &mut encoder)?;
        encoder.finish()?.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        GuestError::io(path)(error).into()
    })
}

/// The component in a file, whose checksum is verified.
pub(crate) fn unpack(path: &Path) -> Result<Vec<u8>, BuildError> {
    let read = || {
        let mut wasm = Vec::new();
        zstd::Decoder::new(File::open(path)?)?.take(MAX_BYTES).read_to_end(&mut wasm)?;
        Ok(wasm)
    };
    read().map_err(|error| GuestError::io(path)(error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_the_same_after_packing_and_a_damaged_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let component = folder.path().join("guest.wasm");
        let packed = folder.path().join("guest.wasm.zst");
        let wasm: Vec<u8> = (0..100_000_u32).flat_map(|number| (number * number).to_le_bytes()).collect();
        fs::write(&component, &wasm).unwrap();
        pack(&component, &packed).unwrap();
        assert!(unpack(&packed).unwrap() == wasm);
        let mut bytes = fs::read(&packed).unwrap();
        for damage in [bytes.len() / 2, bytes.len() - 1] {
            bytes[damage] ^= 1;
            fs::write(&packed, &bytes).unwrap();
            assert!(unpack(&packed).is_err(), "{damage}");
            bytes[damage] ^= 1;
        }
        fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
        assert!(unpack(&packed).is_err(), "half of it");
        // Only the component and the file are left.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
