//! Methods of `str`, `dict` and `list`.

use minijinja::value::{Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::call::{Call, type_name};
use super::exception::exception;
use super::limits::{self, MAX_TEXT};
use super::strings::{self, Side};
use super::text;

/// The methods that Python's `dict` has; those that change it are refused when they are called.
pub(super) const DICT: &[&str] =
    &["clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

/// Calls a method of a value that the engine does not know itself.
pub(crate) fn call_method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    limits::charge(state, value, args)?;
    let found = match value.kind() {
        ValueKind::String => string(value.as_str().unwrap_or_default(), method, args),
        ValueKind::Map if DICT.contains(&method) => dict(value, method, args),
        ValueKind::Seq | ValueKind::Iterable => list(value, method, args),
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    };
    let is_unknown = |found: &Result<_, Error>| matches!(found, Err(error) if error.kind() == ErrorKind::UnknownMethod);
    if !is_unknown(&found) {
        return found;
    }
    if method == "format" {
        check_format(value.as_str().unwrap_or_default(), args)?;
    }
    let found = unknown_method_callback(state, value, method, args);
    if is_unknown(&found) {
        return Err(exception(format!("'{} object' has no attribute '{method}'", type_name(value))));
    }
    found
}

/// Refuses a format whose text may be too long: each of its fields may have a width, a precision, or the longest
/// argument.
fn check_format(format: &str, args: &[Value]) -> Result<(), Error> {
    let widths = format.split(|character: char| !character.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let written = widths.map(|digits| digits.parse().unwrap_or(usize::MAX)).fold(0, usize::saturating_add);
    let fields = format.matches('{').count();
    let mut longest = 0;
    let named = args.last().filter(|last| last.is_kwargs()).and_then(Value::as_object);
    let named = named.and_then(|named| named.try_iter_pairs()).into_iter().flatten().map(|(_, value)| value);
    for value in args.iter().filter(|value| !value.is_kwargs()).cloned().chain(named) {
        longest = longest.max(text::str_of(&value)?.len());
        // A width may be an argument, too: `{:{}}`.
        let is_nested = format.split('{').any(|part| part.contains(':') && !part.contains('}'));
        longest = longest.max(value.as_usize().filter(|_| is_nested).unwrap_or_default());
    }
    // Numbers that are meant to be read have digits of their own.
    const DIGITS: usize = 400;
    let most = fields.saturating_mul(longest.saturating_add(DIGITS));
    limits::check_length(format.len().saturating_add(written).saturating_add(most))
}

pub(super) fn dict(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let mut call = Call::new(method, args);
    let pairs = || value.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten();
    let found = match method {
        "keys" => Value::from(pairs().map(|(key, _)| key).collect::<Vec<_>>()),
        "values" => Value::from(pairs().map(|(_, value)| value).collect::<Vec<_>>()),
        "items" => pairs().map(|(key, value)| Value::from(Tuple::from([key, value]))).collect::<Vec<_>>().into(),
        "copy" => value.clone(),
        "get" => {
            let key = call.required("key")?;
            let default = call.optional("default").unwrap_or_else(|| Value::from(()));
            value.as_object().and_then(|object| object.get_value(&key)).unwrap_or(default)
        }
        _ => return Err(unsafe_access(method, "dict")),
    };
    call.finish()?;
    Ok(found)
}

fn list(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let mut call = Call::new(method, args);
    let found = match method {
        "count" => {
            let wanted = call.required("value")?;
            Value::from(limits::items(value)?.iter().filter(|item| **item == wanted).count())
        }
        "index" => {
            let wanted = call.required("value")?;
            let index = limits::items(value)?.iter().position(|item| *item == wanted);
            Value::from(index.ok_or_else(|| exception(format!("{} is not in list", text::shown(&wanted))))?)
        }
        "copy" => Value::from(limits::items(value)?),
        "append" | "clear" | "extend" | "insert" | "pop" | "remove" | "reverse" | "sort" => {
            return Err(unsafe_access(method, "list"));
        }
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    };
    call.finish()?;
    Ok(found)
}

/// transformers runs templates in a sandbox in which nothing is changed.
fn unsafe_access(method: &str, kind: &str) -> Error {
    exception(format!("access to attribute '{method}' of '{kind}' object is unsafe."))
}

fn string(value: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let mut call = Call::new(method, args);
    let found = match method {
        "strip" | "lstrip" | "rstrip" => {
            let side = match method {
                "lstrip" => Side::Left,
                "rstrip" => Side::Right,
                _ => Side::Both,
            };
            let characters = call.optional_text("chars")?;
            Value::from(strings::strip_side(value, side, characters.as_deref()))
        }
        "split" | "rsplit" => {
            let separator = call.optional_text("sep")?;
            let limit = call.optional_int("maxsplit")?.unwrap_or(-1);
            if separator.as_deref() == Some("") {
                return Err(exception("empty separator"));
            }
            texts(strings::split(value, separator.as_deref(), limit, method == "rsplit"))
        }
        "splitlines" => {
            let keep_ends = call.optional("keepends").is_some_and(|keep| keep.is_true());
            texts(strings::split_lines(value, keep_ends))
        }
        "partition" | "rpartition" => {
            let separator = call.text("sep")?;
            let is_left = method == "partition";
            let parts = if is_left { value.split_once(&separator) } else { value.rsplit_once(&separator) };
            let parts = match parts {
                Some((before, after)) => [before, &separator, after],
                None if is_left => [value, "", ""],
                None => ["", "", value],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "removeprefix" => Value::from(value.strip_prefix(&call.text("prefix")?).unwrap_or(value)),
        "removesuffix" => Value::from(value.strip_suffix(&call.text("suffix")?).unwrap_or(value)),
        "replace" => {
            let old = call.text("old")?;
            let new = call.text("new")?;
            let count = call.optional_int("count")?.unwrap_or(-1);
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            // Only one that becomes longer can become too long.
            if new.len() > old.len() {
                let places = value.matches(&old).take(count.min(MAX_TEXT + 1)).count();
                limits::check_length(value.len().saturating_add(places.saturating_mul(new.len() - old.len())))?;
            }
            Value::from(value.replacen(&old, &new, count))
        }
        "startswith" | "endswith" => {
            let affix = call.required("prefix")?;
            let start = call.optional_int("start")?;
            let end = call.optional_int("end")?;
            Value::from(has_affix(strings::between(value, start, end), method, &affix)?)
        }
        "find" | "rfind" | "index" | "rindex" | "count" => {
            let wanted = call.text("sub")?;
            let start = call.optional_int("start")?;
            let end = call.optional_int("end")?;
            search(strings::between(value, start, end), method, &wanted)?
        }
        "join" => {
            let parts = call.required("iterable")?;
            let mut joined = Vec::new();
            let mut length = 0;
            for (index, part) in parts.try_iter()?.enumerate() {
                length += value.len() + part.as_str().map_or(0, str::len) + 1;
                limits::check_length(length)?;
                let wrong = || {
                    let name = type_name(&part);
                    exception(format!("sequence item {index}: expected str instance, {name} found"))
                };
                joined.push(part.as_str().ok_or_else(wrong)?.to_owned());
            }
            Value::from(joined.join(value))
        }
        "title" => Value::from(titled(value)),
        "capitalize" => {
            let mut characters = value.chars();
            let first = characters.next().map(title_of).unwrap_or_default();
            Value::from(first + &characters.as_str().to_lowercase())
        }
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    };
    call.finish()?;
    Ok(found)
}

fn texts(parts: Vec<&str>) -> Value {
    parts.into_iter().map(Value::from).collect::<Vec<_>>().into()
}

fn has_affix(part: Option<(&str, usize)>, method: &str, affix: &Value) -> Result<bool, Error> {
    let Some((part, _)) = part else { return Ok(false) };
    let is_start = method == "startswith";
    let has = |affix: &str| if is_start { part.starts_with(affix) } else { part.ends_with(affix) };
    if let Some(affix) = affix.as_str() {
        return Ok(has(affix));
    }
    if !affix.is_tuple() {
        let name = type_name(affix);
        return Err(exception(format!("{method} first arg must be str or a tuple of str, not {name}")));
    }
    Ok(affix.try_iter()?.any(|affix| affix.as_str().is_some_and(has)))
}

fn search(part: Option<(&str, usize)>, method: &str, wanted: &str) -> Result<Value, Error> {
    if method == "count" {
        return Ok(Value::from(part.map_or(0, |(part, _)| part.matches(wanted).count())));
    }
    let at = part.and_then(|(part, start)| {
        let byte = if method.starts_with('r') { part.rfind(wanted) } else { part.find(wanted) };
        byte.map(|byte| start + part[..byte].chars().count())
    });
    match at {
        Some(at) => Ok(Value::from(at)),
        None if method.ends_with("index") => Err(exception("substring not found")),
        None => Ok(Value::from(-1)),
    }
}

/// `str.title`: letters after letters are lower case, all others upper case.
fn titled(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut is_inside = false;
    for character in value.chars() {
        if is_inside {
            out.extend(character.to_lowercase());
        } else {
            out.push_str(&title_of(character));
        }
        is_inside = character.is_lowercase() || character.is_uppercase();
    }
    out
}

/// A capital; of a ligature the first letter alone.
fn title_of(character: char) -> String {
    let mut capitals = character.to_uppercase();
    capitals.next().into_iter().chain(capitals.flat_map(char::to_lowercase)).collect()
}
