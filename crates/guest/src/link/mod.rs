//! Links the guest's libraries statically.
//!
//! componentize-py's component consists of a dozen core modules (the interpreter, the C library, its own runtime, the
//! glue between them), which are linked in every new instance: thousands of table entries and hundreds of addresses are
//! written, and calls and addresses across libraries go through memory. Here they become one module: imports are
//! resolved to functions, addresses are constants, and the content of the table is known at compile time, so that there
//! is almost nothing to do when an instance starts. The memory image, with the interpreter after its imports, is
//! unchanged.

mod addresses;
mod collector;
mod graph;
mod image;
mod immortal;
mod merge;
mod module;
mod numbers;
mod saturate;
mod stack;
#[cfg(test)]
mod tests;

use wasm_encoder::reencode;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::decoding::{DecodedWasm, decode};
use wit_parser::{WorldItem, WorldKey};

use image::Image;
use numbers::{Numbers, Value};

/// The initial stack pointer of componentize-py's interpreter.
const OLD_TOP: u32 = 1 << 20;

/// The interface with which componentize-py initialises the interpreter. It is not used afterwards.
const BUILDER_INTERFACE: &str = "exports";

/// The initial value of the WASI adapter's state in the finished guest: its stack is allocated, the state itself is
/// not.
const STACK_ALLOCATED: i32 = 2;

/// Why a component could not be linked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("the component cannot be read: {0}")]
    Read(#[from] wasmparser::Error),
    #[error("the component does not have the expected structure: {0}")]
    Unexpected(String),
    #[error("the linked component cannot be written: {0}")]
    Write(String),
}

fn unexpected(what: impl Into<String>) -> LinkError {
    LinkError::Unexpected(what.into())
}

impl From<reencode::Error<Self>> for LinkError {
    fn from(error: reencode::Error<Self>) -> Self {
        match error {
            reencode::Error::UserError(error) => error,
            reencode::Error::ParseError(error) => Self::Read(error),
            other => Self::Write(other.to_string()),
        }
    }
}

/// Checks that all mutable globals have their initial value again whenever a call returns. Expected are two stack
/// pointers, and the address and the status of the WASI adapter's state, which change only once, in the first host
/// call. Restoring a snapshot of the memory alone relies on that.
fn check_mutable_globals(changing: &[Value], stack_top: u32) -> Result<(), LinkError> {
    match changing {
        [Value::I32(top), Value::I32(_), Value::I32(0), Value::I32(STACK_ALLOCATED)]
            if *top == stack_top.cast_signed() =>
        {
            Ok(())
        }
        other => Err(unexpected(format!("mutable globals with the initial values {other:?}"))),
    }
}

/// Links the core modules of a component into one.
pub(crate) fn link(component: &[u8]) -> Result<Vec<u8>, LinkError> {
    let mut graph = graph::Graph::read(component)?;
    let mut image = Image::of(&graph)?;
    let stack_top = stack::deepen(graph.memory()?, &mut image)?;
    immortal::mark(&mut image)?;
    let numbers = Numbers::of(&graph, stack_top)?;
    check_mutable_globals(&numbers.changing, stack_top)?;
    let collector = collector::policy(&graph, &numbers)?;
    let mut module = merge::merge(&graph, &numbers, &image, &[collector], &saturate::Saturated::of(&graph)?)?;
    // The imports and exports of the component stay the same.
    let written = |error: &dyn std::fmt::Display| LinkError::Write(format!("{error:#}"));
    let types = decode(component).map_err(|error| unexpected(format!("its types cannot be read: {error:#}")))?;
    let DecodedWasm::Component(mut resolve, world) = types else {
        return Err(unexpected("an interface instead of a component"));
    };
    let exports = &mut resolve.worlds[world].exports;
    exports.shift_remove(&WorldKey::Name(BUILDER_INTERFACE.to_owned()));
    if !exports.values().all(|item| matches!(item, WorldItem::Function(_))) {
        return Err(unexpected("an exported interface"));
    }
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).map_err(|error| written(&error))?;
    let encoder = ComponentEncoder::default().validate(true).module(&module);
    encoder.and_then(|mut encoder| encoder.encode()).map_err(|error| written(&error))
}
