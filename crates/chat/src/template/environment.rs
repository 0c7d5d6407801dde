//! What a template may use: transformers' environment of Jinja.

use std::fmt::Write;

use chrono::{Local, NaiveDateTime};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Value};
use minijinja::{Environment, Error, Output, State};
use minijinja_contrib::globals;

use super::source;
use crate::python;

pub(super) fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax());
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(print);
    environment.set_unknown_method_callback(python::call_method);
    python::add_filters(&mut environment);
    python::add_tests(&mut environment);
    environment.remove_global("debug");
    environment.set_fuel(Some(python::FUEL));
    environment.add_function(source::STORED, python::stored);
    environment.add_function(source::STORED_IN_NAMESPACE, python::stored_in_namespace);
    environment.add_filter(source::STORED_IN_NAMESPACE, python::stored_in_namespace);
    environment.add_function("cycler", |Rest(items): Rest<Value>| globals::cycler(items));
    environment.add_function("joiner", globals::joiner);
    environment.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        Err(python::exception(python::str_of(message)?))
    });
    environment.add_function("strftime_now", |format: &str| strftime(Local::now().naive_local(), format));
    environment
}

fn syntax() -> SyntaxConfig {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    // The delimiters are Jinja's own, which cannot be in conflict.
    syntax.build().unwrap_or_default()
}

fn print(out: &mut Output, _state: &mut State, value: &Value) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => out.write_str(text),
        None => out.write_str(&python::str_of(value)?),
    };
    written.map_err(Error::from)
}

/// Python's `datetime.strftime`. The time has no zone, so that `%z` and `%Z` are nothing.
fn strftime(now: NaiveDateTime, format: &str) -> Result<String, Error> {
    let mut zoneless = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        match (character, character == '%') {
            (_, false) => zoneless.push(character),
            (_, true) => match characters.next() {
                Some('z' | 'Z') => {}
                // Microseconds in Python, nanoseconds here.
                Some('f') => zoneless.push_str("%6f"),
                other => zoneless.extend(std::iter::once('%').chain(other)),
            },
        }
    }
    let mut printed = String::new();
    let refused = |_| python::exception(format!("strftime_now cannot print {format:?}: it has an unknown specifier"));
    write!(printed, "{}", now.format(&zoneless)).map_err(refused)?;
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_print_as_pythons_strftime_prints_them() {
        let now = chrono::NaiveDate::from_ymd_opt(2024, 7, 4).unwrap().and_hms_micro_opt(9, 5, 7, 1200).unwrap();
        assert_eq!(strftime(now, "%d %b %Y").unwrap(), "04 Jul 2024");
        assert_eq!(
            strftime(now, "%A, %B %-d, %Y %H:%M:%S %j %I %p%Z%z %%z").unwrap(),
            "Thursday, July 4, 2024 09:05:07 186 09 AM %z"
        );
        assert_eq!(strftime(now, "%S.%f, 100 %%").unwrap(), "07.001200, 100 %");
        let refused = strftime(now, "%d %Q").unwrap_err().to_string();
        assert!(refused.contains("unknown specifier"), "{refused}");
    }
}
