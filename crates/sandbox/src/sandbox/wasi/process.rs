//! Process functions: no arguments, no environment, no terminal, no directory; exit codes; and random bytes.

use wasmtime::Result;
use wasmtime::component::Val;

use super::Instance;
use crate::sandbox::exit_status::Termination;

/// Most random bytes per call.
const MAX_RANDOM_BYTES: u64 = 1 << 24;

pub(super) fn define(instance: &mut Instance<'_>, interface: &str, name: &str) -> Result<bool> {
    match (interface, name) {
        ("wasi:cli/environment", "get-environment") => {
            instance.func_wrap(name, |_, ()| Ok((Vec::<(String, String)>::new(),)))?
        }
        ("wasi:cli/environment", "get-arguments") => instance.func_wrap(name, |_, ()| Ok((Vec::<String>::new(),)))?,
        ("wasi:cli/environment", "initial-cwd") => instance.func_wrap(name, |_, ()| Ok((None::<String>,)))?,
        ("wasi:cli/terminal-stdin" | "wasi:cli/terminal-stdout" | "wasi:cli/terminal-stderr", _) => {
            instance.func_new(name, |_, _, _, results| {
                results[0] = Val::Option(None);
                Ok(())
            })?;
        }
        ("wasi:filesystem/preopens", "get-directories") => {
            instance.func_new(name, |_, _, _, results| {
                results[0] = Val::List(Vec::new());
                Ok(())
            })?;
        }
        ("wasi:cli/exit", "exit") => {
            instance.func_wrap(name, |_, (status,): (Result<(), ()>,)| -> Result<()> {
                Err(Termination::Exited(i32::from(status.is_err())).into())
            })?;
        }
        ("wasi:cli/exit", "exit-with-code") => {
            instance.func_wrap(name, |_, (code,): (u8,)| -> Result<()> {
                Err(Termination::Exited(i32::from(code)).into())
            })?;
        }
        ("wasi:random/random" | "wasi:random/insecure", "get-random-bytes" | "get-insecure-random-bytes") => {
            instance.func_wrap(name, |mut store, (length,): (u64,)| {
                wasmtime::ensure!(length <= MAX_RANDOM_BYTES, "too many random bytes at once");
                let words = (0..length.div_ceil(8)).map(|_| store.data_mut().random_u64());
                let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
                bytes.truncate(usize::try_from(length)?);
                Ok((bytes,))
            })?;
        }
        ("wasi:random/random" | "wasi:random/insecure", "get-random-u64" | "get-insecure-random-u64") => {
            instance.func_wrap(name, |mut store, ()| Ok((store.data_mut().random_u64(),)))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
