//! Filters of Jinja on values that minijinja would treat differently.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, State};

use super::call::{Call, type_name};
use super::exception::exception;
use super::strings::{self, Side};
use super::text::str_of;
use super::{json, limits, methods};

pub(crate) fn add_filters(environment: &mut Environment) {
    environment.add_filter("tojson", |args: Rest<Value>, named: Kwargs| json::tojson(&all(args, named)));
    environment.add_filter("string", |value: &Value| str_of(value));
    environment.add_filter("trim", |args: Rest<Value>, named: Kwargs| trim(&all(args, named)));
    environment.add_filter("upper", |value: &Value| str_of(value).map(|text| text.to_uppercase()));
    environment.add_filter("lower", |value: &Value| str_of(value).map(|text| text.to_lowercase()));
    for name in ["default", "d"] {
        environment.add_filter(name, |args: Rest<Value>, named: Kwargs| default(&all(args, named)));
    }
    environment.add_filter("wordcount", |value: &Value| {
        str_of(value).map(|text| strings::split(&text, None, -1, false).len())
    });
    environment.add_filter("title", |value: &Value| str_of(value).map(|text| title(&text)));
    for method in ["replace", "capitalize"] {
        let on_text =
            move |state: &mut State, args: Rest<Value>, named: Kwargs| on_text(state, method, &all(args, named));
        environment.add_filter(method, on_text);
    }
    environment.add_filter("length", |value: &Value| length(value));
    environment.add_filter("count", |value: &Value| length(value));
    environment.add_filter("list", |value: &Value| items(value).map(Value::from));
    environment.add_filter("join", |args: Rest<Value>, named: Kwargs| join(&all(args, named)));
}

/// Arguments as they are given to methods: those with names are the last.
fn all(Rest(mut args): Rest<Value>, named: Kwargs) -> Vec<Value> {
    args.push(Value::from(named));
    args
}

/// Jinja's `default(value, default_value="", boolean=False)`.
fn default(args: &[Value]) -> Result<Value, Error> {
    let mut call = Call::new("default", args);
    let value = call.required("value")?;
    let other = call.optional("default_value").unwrap_or_else(|| Value::from(""));
    let replaces_false = call.optional("boolean").is_some_and(|boolean| boolean.is_true());
    call.finish()?;
    Ok(if value.is_undefined() || (replaces_false && !value.is_true()) { other } else { value })
}

/// Jinja's own title case, which differs from that of Python's strings.
fn title(text: &str) -> String {
    let begins = |character: char| strings::is_space(character) || matches!(character, '-' | '(' | '{' | '[' | '<');
    let mut out = String::with_capacity(text.len());
    let mut is_first = true;
    for character in text.chars() {
        if is_first {
            out.extend(character.to_uppercase());
        } else {
            out.extend(character.to_lowercase());
        }
        is_first = begins(character);
    }
    out
}

/// Jinja's `trim(value, chars=None)`.
fn trim(args: &[Value]) -> Result<String, Error> {
    let mut call = Call::new("trim", args);
    let value = call.required("value")?;
    let characters = call.optional_text("chars")?;
    call.finish()?;
    Ok(strings::strip_side(&str_of(&value)?, Side::Both, characters.as_deref()).to_owned())
}

/// A method of strings on the text of any value.
fn on_text(state: &mut State, method: &str, args: &[Value]) -> Result<Value, Error> {
    match args.split_first() {
        Some((value, rest)) => methods::call_method(state, &Value::from(str_of(value)?), method, rest),
        None => Err(exception(format!("{method}() missing required argument: 's'"))),
    }
}

fn length(value: &Value) -> Result<usize, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(0),
        ValueKind::String => Ok(value.as_str().unwrap_or_default().chars().count()),
        _ => match value.len() {
            Some(length) => Ok(length),
            None if matches!(value.kind(), ValueKind::Iterable) => Ok(limits::items(value)?.len()),
            None => Err(exception(format!("object of type '{}' has no len()", type_name(value)))),
        },
    }
}

/// The items of what Python can iterate over; None is nothing of that kind.
fn items(value: &Value) -> Result<Vec<Value>, Error> {
    if value.is_none() {
        return Err(exception("'NoneType' object is not iterable"));
    }
    limits::items(value)
}

/// Jinja's `join(value, d="", attribute=None)`.
fn join(args: &[Value]) -> Result<String, Error> {
    let mut call = Call::new("join", args);
    let value = call.required("value")?;
    let separator = call.optional("d").map(|separator| str_of(&separator)).transpose()?.unwrap_or_default();
    let attribute = call.optional("attribute").filter(|attribute| !attribute.is_none());
    call.finish()?;
    let mut parts = Vec::new();
    let mut length = 0;
    for item in items(&value)? {
        let part = match &attribute {
            Some(attribute) => item.get_item(attribute)?,
            None => item,
        };
        let part = str_of(&part)?;
        length += part.len() + separator.len();
        limits::check_length(length)?;
        parts.push(part);
    }
    Ok(parts.join(&separator))
}
