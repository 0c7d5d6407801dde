//! Links the guest's libraries once, when it is built.
//!
//! componentize-py gives a component of a dozen core modules (the interpreter, the C library, its own runtime, the glue between
//! them), which are linked anew in every instance: thousands of table entries and hundreds of addresses are written, and calls and
//! addresses that go from one library to another are looked up in memory. Here they become one module: what one exports and another
//! imports is the same function, addresses are constants, and the table's content is known when the module is compiled, so that an
//! instance begins with next to nothing to do. The memory, which holds the interpreter as it is after its imports, stays what it was.

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

/// Where the stack of componentize-py's interpreter begins.
const OLD_TOP: u32 = 1 << 20;

/// The interface by which componentize-py initialises the interpreter; nothing calls it afterwards.
const BUILDERS_INTERFACE: &str = "exports";

/// How the system's state begins in the finished guest: its own stack is there, the state itself is not.
const STACK_IS_MADE: i32 = 2;

/// Why a component could not be linked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("the component cannot be read: {0}")]
    Read(#[from] wasmparser::Error),
    #[error("the component is not built as was expected: {0}")]
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

/// Whether the globals that change are those that are as they were when a call returns: two stack pointers; and the address of the
/// system's own state with what was done to make it, which change once, when the system is first asked for anything. What goes on from a
/// snapshot of the memory alone relies on that.
fn settles(changing: &[Value], stack_top: u32) -> Result<(), LinkError> {
    match changing {
        [Value::I32(top), Value::I32(_), Value::I32(0), Value::I32(STACK_IS_MADE)]
            if *top == stack_top.cast_signed() =>
        {
            Ok(())
        }
        other => Err(unexpected(format!("the globals that change begin with {other:?}"))),
    }
}

/// The same component with its core modules joined to one.
pub(crate) fn link(component: &[u8]) -> Result<Vec<u8>, LinkError> {
    let mut graph = graph::Graph::read(component)?;
    let mut image = Image::of(&graph)?;
    let stack_top = stack::deepen(graph.memory()?, &mut image)?;
    immortal::mark(&mut image)?;
    let numbers = Numbers::of(&graph, stack_top)?;
    settles(&numbers.changing, stack_top)?;
    let collector = collector::policy(&graph, &numbers)?;
    let mut module = merge::merge(&graph, &numbers, &image, &[collector], &saturate::Saturated::of(&graph)?)?;
    // The component's own imports and exports are those it had.
    let written = |error: &dyn std::fmt::Display| LinkError::Write(format!("{error:#}"));
    let types = decode(component).map_err(|error| unexpected(format!("its types cannot be read: {error:#}")))?;
    let DecodedWasm::Component(mut resolve, world) = types else {
        return Err(unexpected("an interface instead of a component"));
    };
    let exports = &mut resolve.worlds[world].exports;
    exports.shift_remove(&WorldKey::Name(BUILDERS_INTERFACE.to_owned()));
    if !exports.values().all(|item| matches!(item, WorldItem::Function(_))) {
        return Err(unexpected("an interface that is exported"));
    }
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).map_err(|error| written(&error))?;
    let encoder = ComponentEncoder::default().validate(true).module(&module);
    encoder.and_then(|mut encoder| encoder.encode()).map_err(|error| written(&error))
}
