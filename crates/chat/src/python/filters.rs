//! Filters of Jinja on values that minijinja would treat differently.

use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{Environment, Error, State};

use super::call::{Call, type_error, type_name};
use super::strings::{self, Side};
use super::text::str_of;
use super::{json, methods};

pub(crate) fn add_filters(environment: &mut Environment) {
    environment.add_filter("tojson", |args: Rest<Value>| json::tojson(&args));
    environment.add_filter("string", |value: &Value| str_of(value));
    environment.add_filter("trim", |args: Rest<Value>| trim(&args));
    environment.add_filter("upper", |value: &Value| str_of(value).to_uppercase());
    environment.add_filter("lower", |value: &Value| str_of(value).to_lowercase());
    environment.add_filter("replace", |state: &mut State, args: Rest<Value>| on_text(state, "replace", &args));
    environment.add_filter("capitalize", |state: &mut State, args: Rest<Value>| on_text(state, "capitalize", &args));
    environment.add_filter("length", |value: &Value| length(value));
    environment.add_filter("count", |value: &Value| length(value));
    environment.add_filter("list", |value: &Value| items(value).map(Value::from));
    environment.add_filter("join", |args: Rest<Value>| join(&args));
}

/// `trim(value, chars=None)`.
fn trim(args: &[Value]) -> Result<String, Error> {
    let mut call = Call::new("trim", args);
    let value = call.required("value")?;
    let characters = call.optional_text("chars")?;
    call.finish()?;
    Ok(strings::strip_side(&str_of(&value), Side::Both, characters.as_deref()).to_owned())
}

/// A method of strings on the text of any value.
fn on_text(state: &mut State, method: &str, args: &[Value]) -> Result<Value, Error> {
    match args.split_first() {
        Some((value, rest)) => methods::call_method(state, &Value::from(str_of(value)), method, rest),
        None => Err(type_error(format!("{method}() missing required argument: 's'"))),
    }
}

fn length(value: &Value) -> Result<usize, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(0),
        ValueKind::String => Ok(value.as_str().unwrap_or_default().chars().count()),
        _ => match value.len() {
            Some(length) => Ok(length),
            None if matches!(value.kind(), ValueKind::Iterable) => Ok(value.try_iter()?.count()),
            None => Err(type_error(format!("object of type '{}' has no len()", type_name(value)))),
        },
    }
}

/// The items of what Python can iterate over; None is nothing of that kind.
fn items(value: &Value) -> Result<Vec<Value>, Error> {
    if value.is_none() {
        return Err(type_error("'NoneType' object is not iterable"));
    }
    Ok(value.try_iter()?.collect())
}

/// `join(value, d="", attribute=None)`.
fn join(args: &[Value]) -> Result<String, Error> {
    let mut call = Call::new("join", args);
    let value = call.required("value")?;
    let separator = call.optional("d").map(|separator| str_of(&separator)).unwrap_or_default();
    let attribute = call.optional("attribute").filter(|attribute| !attribute.is_none());
    call.finish()?;
    let mut parts = Vec::new();
    for item in items(&value)? {
        let part = match &attribute {
            Some(attribute) => item.get_item(attribute)?,
            None => item,
        };
        parts.push(str_of(&part));
    }
    Ok(parts.join(&separator))
}
