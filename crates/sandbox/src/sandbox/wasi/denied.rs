//! Files, sockets and name lookup, which do not exist here. Functions that can fail return that access is denied; all
//! others trap.

use wasmtime::Result;
use wasmtime::component::Val;
use wasmtime::component::types::{ComponentFunc, Type};

use super::Instance;

/// WASI error codes for denied access, in order of preference.
const DENIALS: [&str; 3] = ["access-denied", "access", "not-permitted"];

pub(super) fn define(instance: &mut Instance<'_>, interface: &str, name: &str, ty: &ComponentFunc) -> Result<()> {
    let full = format!("{interface}#{name}");
    let denial = denial(ty);
    instance.func_new(name, move |_, _, _, results| match &denial {
        Some(denial) => {
            results[0] = denial.clone();
            Ok(())
        }
        None => wasmtime::bail!("the sandbox has no {full}"),
    })
}

fn denial(ty: &ComponentFunc) -> Option<Val> {
    let mut results = ty.results();
    match (results.next()?, results.next()) {
        (Type::Result(result), None) => match result.err()? {
            Type::Enum(codes) => {
                let code = DENIALS.into_iter().find(|denial| codes.names().any(|name| name == *denial))?;
                Some(Val::Result(Err(Some(Box::new(Val::Enum(code.to_owned()))))))
            }
            _ => None,
        },
        (Type::Option(_), None) => Some(Val::Option(None)),
        _ => None,
    }
}
