//! Standard input, output and error: bytes in host memory, with a limit on output.

use wasmtime::component::{ComponentType, Lift, Lower, Resource, WasmList};
use wasmtime::{Result, StoreContextMut};

use super::clocks::Alarm;
use super::{GuestState, Instance};

/// A handle to standard input.
pub(super) struct Input;
/// A handle to standard output or error, by its number.
pub(super) struct Output;
/// A handle to an error. None is ever created.
pub(super) struct Error;

const STDOUT: u32 = 1;
const STDERR: u32 = 2;

/// Bytes that the guest may write per call: all of its memory. Writing to a file is never partial, and programs that
/// call `os.write` rely on that. Writing itself checks the limit on output.
const WRITE_BYTES: u64 = 1 << 32;

/// WASI's `stream-error` variant.
#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    Failed(Resource<Error>),
    #[component(name = "closed")]
    Closed,
}

type StreamResult<T> = Result<(Result<T, StreamError>,)>;

pub(super) fn define(instance: &mut Instance<'_>, interface: &str, name: &str) -> Result<bool> {
    match (interface, name) {
        ("wasi:cli/stdin", "get-stdin") => instance.func_wrap(name, |store, ()| handle::<Input>(store, 0))?,
        ("wasi:cli/stdout", "get-stdout") => instance.func_wrap(name, |store, ()| handle::<Output>(store, STDOUT))?,
        ("wasi:cli/stderr", "get-stderr") => instance.func_wrap(name, |store, ()| handle::<Output>(store, STDERR))?,
        ("wasi:io/streams", name) => return stream(instance, name),
        _ => return Ok(false),
    }
    Ok(true)
}

fn stream(instance: &mut Instance<'_>, name: &str) -> Result<bool> {
    match name {
        "[method]input-stream.read" | "[method]input-stream.blocking-read" => instance.func_wrap(name, read)?,
        "[method]input-stream.subscribe" => instance.func_wrap(name, |store, (_,): (Resource<Input>,)| ready(store))?,
        "[method]output-stream.subscribe" => {
            instance.func_wrap(name, |store, (_,): (Resource<Output>,)| ready(store))?
        }
        "[method]output-stream.check-write" => {
            instance.func_wrap(name, |_, (_,): (Resource<Output>,)| accept(WRITE_BYTES))?
        }
        "[method]output-stream.flush" | "[method]output-stream.blocking-flush" => {
            instance.func_wrap(name, |_, (_,): (Resource<Output>,)| accept(()))?;
        }
        "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush" => {
            instance.func_wrap(name, write)?
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn handle<T: 'static>(mut store: StoreContextMut<'_, GuestState>, number: u32) -> Result<(Resource<T>,)> {
    store.data_mut().count_host_call();
    Ok((Resource::new_own(number),))
}

fn read(mut store: StoreContextMut<'_, GuestState>, (_, max_bytes): (Resource<Input>, u64)) -> StreamResult<Vec<u8>> {
    let bytes = store.data_mut().read_stdin(max_bytes);
    if bytes.is_empty() && max_bytes > 0 {
        return Ok((Err(StreamError::Closed),));
    }
    Ok((Ok(bytes),))
}

fn write(
    mut store: StoreContextMut<'_, GuestState>,
    (stream, bytes): (Resource<Output>, WasmList<u8>),
) -> StreamResult<()> {
    // Before anything is copied: it may be all of the guest's memory.
    store.data_mut().charge_output(bytes.len())?;
    let bytes = bytes.as_le_slice(&store).to_vec();
    store.data_mut().write(stream.rep() == STDERR, &bytes);
    Ok((Ok(()),))
}

fn ready(store: StoreContextMut<'_, GuestState>) -> Result<(Resource<Alarm>,)> {
    handle(store, Alarm::READY)
}

fn accept<T>(value: T) -> StreamResult<T> {
    Ok((Ok(value),))
}
