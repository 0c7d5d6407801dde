//! What a template may build: it is another person's code, and neither its depth, its size nor its work may grow
//! without bound.
//!
//! The engine's fuel bounds how much it computes, but not what our own functions build at once, nor how deep values are
//! nested: a value that is stored in itself (`{% set ns.a = ns %}`) has no end for code that walks through it.

use minijinja::value::Value;
use minijinja::{Error, ErrorKind, State};

use super::exception::exception;

/// Fuel of one rendering: a hundred times what the largest templates of public models take for a conversation of a
/// hundred messages.
pub(crate) const FUEL: u64 = 2_000_000;
/// Longest text that is made at once, in bytes.
pub(super) const MAX_TEXT: usize = 8 << 20;
/// How deep lists and dictionaries may be nested that a template makes.
pub(super) const MAX_DEPTH: usize = 64;
/// How deep any value is written: JSON is read as deep as 127, and a template may put it into its own.
pub(super) const MAX_WRITTEN_DEPTH: usize = 127 + MAX_DEPTH;
/// Values that may be nested in those of a list or a dictionary that a template makes.
pub(super) const MAX_NESTED: usize = 10_000;
/// Values that one unit of fuel pays for.
pub(super) const VALUES_PER_FUEL: usize = 8;
/// Bytes that one unit of fuel pays for, as the engine counts.
const BYTES_PER_FUEL: usize = 64;

/// The error for a text that would be too long.
pub(super) fn too_long() -> Error {
    exception(format!("the template makes a text of more than {MAX_TEXT} bytes"))
}

/// Refuses a text that would be too long.
pub(super) fn check_length(bytes: usize) -> Result<(), Error> {
    if bytes > MAX_TEXT { Err(too_long()) } else { Ok(()) }
}

/// The error for a value that is nested too deep.
pub(super) fn too_deep() -> Error {
    exception(format!("the template nests values more than {MAX_DEPTH} deep, or in themselves"))
}

/// The items of a value, of which some are made one by one and without an end.
pub(super) fn items(value: &Value) -> Result<Vec<Value>, Error> {
    let most = MAX_TEXT / size_of::<Value>();
    let items: Vec<Value> = value.try_iter()?.take(most + 1).collect();
    if items.len() > most {
        Err(exception(format!("the template makes a list of more than {most} items")))
    } else {
        Ok(items)
    }
}

/// Charges the work of a method.
pub(super) fn charge(state: &State, value: &Value, args: &[Value]) -> Result<(), Error> {
    let size = |value: &Value| match value.as_str() {
        Some(text) => text.len() / BYTES_PER_FUEL,
        None => value.len().unwrap_or_default() / VALUES_PER_FUEL,
    };
    let work = args.iter().map(size).sum::<usize>() + size(value);
    state.consume_fuel(work as u64)
}

/// Whether an error means that the template was stopped.
pub(crate) fn is_exhausted(error: &Error) -> bool {
    error.kind() == ErrorKind::OutOfFuel
}
