//! Builds the interpreter of the sandbox.
//!
//! 1. componentize-py builds a component from CPython, its standard library and the sandbox's Python sources
//!    (`component`).
//! 2. The component's dozen core modules are linked into one (`link`).
//! 3. The result is compiled to machine code (`compile`).
//!
//! [`ensure`] performs the steps that are still missing in a folder; packages bring the component of the first two
//! (`bundle`). The program `evenkeel-guest` is a command line for this function; the sandbox starts it if the
//! interpreter is missing. Services do not link this crate, since its tools are large and only needed once.
#![deny(unsafe_code)]

mod bundle;
mod compile;
mod component;
mod error;
mod link;

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_sandbox::guest::{self, Form, GuestError};

pub use bundle::bundle_name;
pub use error::BuildError;

/// Builds and compiles the guest unless the folder has it. This takes about a minute, and half of it where the
/// component is in a file beside this program. `progress` is called before every slow step.
///
/// # Errors
///
/// What is missing on this machine.
pub fn ensure(folder: &Path, form: Form, progress: &dyn Fn(&str)) -> Result<(), BuildError> {
    let engine = compile::engine(form)?;
    let compiled = folder.join(form.file_name());
    if guest::open(&engine, &compiled).is_ok() {
        return Ok(());
    }
    let _lock = guest::lock(folder)?;
    // Another process may have built it while this one waited.
    if guest::open(&engine, &compiled).is_ok() {
        return Ok(());
    }
    let wasm = match bundle::beside_program() {
        Some(packed) => bundle::unpack(&packed)?,
        None => {
            let component = component_in(folder, progress)?;
            fs::read(&component).map_err(GuestError::io(&component))?
        }
    };
    progress("compiling the guest interpreter (once, about half a minute)");
    compile::write(&engine, &wasm, &compiled)?;
    // Find out here whether it can be loaded, and not in every worker.
    guest::open(&engine, &compiled).map_err(GuestError::Load)?;
    Ok(())
}

/// The folder of the compiled guest: that of container images (`EVENKEEL_GUEST_IMAGE`) if it has one that can be
/// loaded, else this one, where it is built if it is missing. Workers look for it in the same order.
///
/// # Errors
///
/// Those of [`ensure`].
pub fn find(folder: &Path, form: Form, progress: &dyn Fn(&str)) -> Result<PathBuf, BuildError> {
    if let Some(image) = guest::image_folder() {
        let engine = compile::engine(form)?;
        if guest::open(&engine, &image.join(form.file_name())).is_ok() {
            return Ok(image);
        }
    }
    ensure(folder, form, progress)?;
    Ok(folder.to_owned())
}

/// Writes the compressed component to a folder, for a package, and returns the file ([`bundle_name`]). It is built in
/// `folder` if that does not have it.
///
/// # Errors
///
/// What is missing on this machine.
pub fn pack(folder: &Path, to: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf, BuildError> {
    let packed = to.join(bundle_name());
    if packed.is_file() {
        return Ok(packed);
    }
    let _lock = guest::lock(folder)?;
    let component = component_in(folder, progress)?;
    fs::create_dir_all(to).map_err(GuestError::io(to))?;
    progress("compressing the guest interpreter");
    bundle::pack(&component, &packed)?;
    Ok(packed)
}

/// The component, which is built if the folder does not have it. The caller holds its lock.
fn component_in(folder: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf, BuildError> {
    let component = folder.join(guest::component_name());
    if !guest::is_whole(&component) {
        progress("building the guest interpreter (once, about a minute)");
        component::build(folder, &component, progress)?;
    }
    Ok(component)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    /// The sources that determine the guest.
    const SOURCES: [(&str, &str); 12] = [
        ("component.rs", include_str!("component.rs")),
        ("link/addresses.rs", include_str!("link/addresses.rs")),
        ("link/collector.rs", include_str!("link/collector.rs")),
        ("link/graph.rs", include_str!("link/graph.rs")),
        ("link/image.rs", include_str!("link/image.rs")),
        ("link/immortal.rs", include_str!("link/immortal.rs")),
        ("link/merge.rs", include_str!("link/merge.rs")),
        ("link/mod.rs", include_str!("link/mod.rs")),
        ("link/module.rs", include_str!("link/module.rs")),
        ("link/numbers.rs", include_str!("link/numbers.rs")),
        ("link/saturate.rs", include_str!("link/saturate.rs")),
        ("link/stack.rs", include_str!("link/stack.rs")),
    ];

    #[test]
    fn the_name_of_the_guest_changes_with_its_linker() {
        let mut hash = Sha256::new();
        for (name, text) in SOURCES {
            for part in [name, text] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        let digest = format!("{:x}", hash.finalize());
        assert_eq!(
            digest[..16],
            *evenkeel_sandbox::guest::LINKER_DIGEST,
            "the linker's sources have changed: set LINKER_DIGEST (crates/sandbox/src/guest/sources.rs) to the left \
             value, so that nobody uses an interpreter that was built by the old linker"
        );
    }
}
