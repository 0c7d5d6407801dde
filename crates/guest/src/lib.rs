//! Builds the interpreter that the sandbox runs programs with.
//!
//! 1. componentize-py makes a component of CPython, its standard library and the sandbox's Python sources (`component`).
//! 2. Its dozen core modules are joined to one (`link`).
//! 3. The result is compiled to machine code (`compile`).
//!
//! [`ensure`] does what is still to do in a folder; the program `evenkeel-guest` is this function with a command line, and the sandbox
//! starts it where the interpreter is missing. No worker links this crate: its tools are large and needed once.
#![deny(unsafe_code)]

mod compile;
mod component;
mod error;
mod link;

use std::path::Path;

use evenkeel_sandbox::guest::{self, Form, GuestError};

pub use error::BuildError;

/// Builds and compiles the guest where the folder does not have it, which takes about a minute. `progress` is called before everything
/// that takes long.
///
/// # Errors
///
/// Says what is missing on this machine.
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
    let component = folder.join(guest::component_name());
    if !guest::is_whole(&component) {
        progress("building the guest interpreter (once, about a minute)");
        component::build(folder, &component, progress)?;
    }
    progress("compiling the guest interpreter (once, about half a minute)");
    compile::write(&engine, &component, &compiled)?;
    // What cannot be loaded is found here, and not by every worker.
    guest::open(&engine, &compiled).map(drop).map_err(|problem| GuestError::Load(problem).into())
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    /// The sources that decide what the guest is, by their names.
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
    fn the_name_of_the_guest_changes_with_what_links_it() {
        let mut hash = Sha256::new();
        for (name, text) in SOURCES {
            for part in [name, text] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        let digest: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            digest,
            evenkeel_sandbox::guest::LINKER_DIGEST,
            "the linker's sources have changed: write the left value into LINKER_DIGEST (crates/sandbox/src/guest/sources.rs), so that \
             nobody runs an interpreter that the old ones made"
        );
    }
}
