//! The WASI functions of the guest: three streams, clocks that count the program's own time, a fixed generator, and
//! nothing else.
//!
//! Written by hand instead of with a WASI library: what is not implemented here cannot be reached. There are no files,
//! no network and no environment; every other function that the guest imports returns that access is denied.

mod clocks;
mod denied;
mod process;
mod streams;

use wasmtime::Result;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, ResourceType};

use super::guest::GuestState;

/// Defines everything that the component imports.
pub(crate) fn link(linker: &mut Linker<GuestState>, component: &Component) -> Result<()> {
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
                        denied::define(&mut instance, short, function, &ty)?;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

type Instance<'a> = wasmtime::component::LinkerInstance<'a, GuestState>;

/// An interface that uses a type of another one repeats its name, which identifies the type.
fn resource(instance: &mut Instance<'_>, name: &str) -> Result<()> {
    let ty = match name {
        "input-stream" => ResourceType::host::<streams::Input>(),
        "output-stream" => ResourceType::host::<streams::Output>(),
        "pollable" => ResourceType::host::<clocks::Alarm>(),
        "error" => ResourceType::host::<streams::Error>(),
        // Never created: they only have to be distinct.
        other => ResourceType::host_dynamic(
            other.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(byte.into())),
        ),
    };
    instance.resource(name, ty, |_, _| Ok(()))
}
