//! The values that `{% set %}` stores: what a loop may add to again and again.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::call::type_name;
use super::dict::Dict;
use super::exception::exception;
use super::limits::{MAX_DEPTH, MAX_NESTED, VALUES_PER_FUEL, too_deep};
use super::list::List;

/// What `{% set %}` stores: refused where it is nested too deep, or holds a namespace, in which it could then be stored
/// itself.
pub(crate) fn stored(state: &mut State, value: &Value) -> Result<Value, Error> {
    let mut walk = Walk { state, top: 0, nested: 0, holder: Holder::Name };
    walk.value(value, 0)?;
    Ok(value.clone())
}

/// [`stored`] for what becomes an attribute of a namespace, which may be nothing that could hold the namespace.
pub(crate) fn stored_in_namespace(state: &mut State, value: &Value) -> Result<Value, Error> {
    let mut walk = Walk { state, top: 0, nested: 0, holder: Holder::Namespace };
    walk.value(value, 0)?;
    Ok(value.clone())
}

/// Where a value is stored.
#[derive(PartialEq)]
enum Holder {
    Name,
    Namespace,
}

struct Walk<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    top: usize,
    nested: usize,
    holder: Holder,
}

impl Walk<'_, '_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        // What was read from JSON is bounded and holds nothing of the template's.
        if value.downcast_object_ref::<Dict>().is_some() || value.downcast_object_ref::<List>().is_some() {
            return Ok(());
        }
        if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::Plain) {
            return Ok(());
        }
        let is_within = depth > 0 || self.holder == Holder::Namespace;
        if is_within && is_namespace(value) {
            return Err(exception("a namespace cannot be stored in another value"));
        }
        if self.holder == Holder::Namespace && value.kind() == ValueKind::Plain {
            let what = type_name(value);
            return Err(exception(format!("a namespace holds texts, numbers, lists and dictionaries, not '{what}'")));
        }
        if depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        let Some(object) = value.as_object() else { return Ok(()) };
        match value.kind() {
            ValueKind::Map => {
                for (key, value) in object.try_iter_pairs().into_iter().flatten() {
                    self.count(depth)?;
                    self.value(&key, depth + 1)?;
                    self.value(&value, depth + 1)?;
                }
            }
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    self.count(depth)?;
                    self.value(&item, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, depth: usize) -> Result<(), Error> {
        let counted = if depth == 0 { &mut self.top } else { &mut self.nested };
        *counted += 1;
        if self.nested > MAX_NESTED {
            return Err(exception(format!(
                "the template makes a value with more than {MAX_NESTED} others nested in it"
            )));
        }
        if (self.top + self.nested).is_multiple_of(VALUES_PER_FUEL) { self.state.consume_fuel(1) } else { Ok(()) }
    }
}

/// Whether a value is a namespace, whose type the engine keeps to itself.
fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}
