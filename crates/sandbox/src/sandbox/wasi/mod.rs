//! The world outside as the guest sees it: three streams, a clock that counts the program's own time, and nothing else.
//!
//! Written by hand instead of taken from a WASI library: what is not here cannot be reached. There is no file, no network, no
//! environment and no chance; every function of theirs that the guest imports answers that access is denied.

mod absent;
mod clocks;
mod process;
mod streams;

use wasmtime::Result;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, ResourceType};

use super::guest::Guest;

/// Defines everything that the component imports.
pub(crate) fn link(linker: &mut Linker<Guest>, component: &Component) -> Result<()> {
    let engine = linker.engine().clone();
    let ty = component.component_type();
    for (name, item) in ty.imports(&engine) {
        let ComponentItem::ComponentInstance(interface) = item.ty else { continue };
        let short = name.split('@').next().unwrap_or(name);
        let mut instance = linker.instance(name)?;
        for (function, item) in interface.exports(&engine) {
            match item.ty {
                ComponentItem::Resource(_) => resource(&mut instance, function)?,
                ComponentItem::ComponentFunc(ty) => {
                    let defined = streams::define(&mut instance, short, function)?
                        || clocks::define(&mut instance, short, function)?
                        || process::define(&mut instance, short, function)?;
                    if !defined {
                        absent::define(&mut instance, short, function, &ty)?;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

type Instance<'a> = wasmtime::component::LinkerInstance<'a, Guest>;

/// An interface that uses a type of another names it again: the name alone says which it is.
fn resource(instance: &mut Instance<'_>, name: &str) -> Result<()> {
    let ty = match name {
        "input-stream" => ResourceType::host::<streams::Input>(),
        "output-stream" => ResourceType::host::<streams::Output>(),
        "pollable" => ResourceType::host::<clocks::Alarm>(),
        "error" => ResourceType::host::<streams::Error>(),
        // Never handed out: they only have to differ.
        other => ResourceType::host_dynamic(
            other.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(byte.into())),
        ),
    };
    instance.resource(name, ty, |_, _| Ok(()))
}
