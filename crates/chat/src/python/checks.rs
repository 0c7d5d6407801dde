//! Tests of Jinja (`is sequence`) on values that minijinja would treat differently.

use minijinja::Environment;
use minijinja::value::{ObjectRepr, Value, ValueKind};

pub(crate) fn add_tests(environment: &mut Environment) {
    environment.add_test("sequence", |value: &Value| is_sequence(value));
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("callable", |value: &Value| {
        value.as_object().is_some_and(|object| object.repr() == ObjectRepr::Plain)
    });
}

/// Whatever has a length and items, which strings and dictionaries have too.
fn is_sequence(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map
    )
}
