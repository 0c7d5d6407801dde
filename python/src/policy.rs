//! The rules of a check: a profile by its name, and single rules by theirs.

use std::borrow::Cow;
use std::sync::LazyLock;

use evenkeel_errors::FieldError;
use evenkeel_math::{Profile, Rules};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::{Map, Value};

use crate::arguments;
use crate::errors::{Exception, refused};
use crate::text::lossy;

static PROFILES: LazyLock<[(Profile, Rules); 5]> =
    LazyLock::new(|| Profile::ALL.map(|profile| (profile, profile.rules())));

/// The rules that are limits: they lie one level deeper.
const LIMITS: [&str; 2] = ["max_answer_bytes", "fuel"];

/// The rules of a profile with those that are named in `policy`.
///
/// # Errors
/// A profile or rule that does not exist; a value that is not allowed.
pub(crate) fn rules(
    py: Python<'_>,
    profile: Option<&Bound<'_, PyAny>>,
    policy: Option<&Bound<'_, PyDict>>,
) -> PyResult<Cow<'static, Rules>> {
    let profile = match profile {
        None => Profile::Default,
        Some(name) => {
            let name = arguments::text("profile", name)?;
            lossy(&name).parse::<Profile>().map_err(|error| refused(py, &error))?
        }
    };
    let rules = PROFILES.iter().find(|(named, _)| *named == profile).map(|(_, rules)| rules);
    let Some(rules) = rules else { return Ok(Cow::Owned(profile.rules())) };
    match policy {
        Some(policy) if !policy.is_empty() => changed(py, rules, policy).map(Cow::Owned),
        _ => Ok(Cow::Borrowed(rules)),
    }
}

fn changed(py: Python<'_>, rules: &Rules, policy: &Bound<'_, PyDict>) -> PyResult<Rules> {
    let mut rules = rules.clone();
    for (name, value) in policy.iter() {
        let name = lossy(&arguments::text("the name of a rule", &name)?).into_owned();
        rules = with(&rules, &name, json(&name, &value)?).map_err(|error| refused(py, &error))?;
    }
    rules.validate().map_err(|error| refused(py, &error))?;
    Ok(rules)
}

/// The rules with another value for one.
fn with(rules: &Rules, name: &str, value: Value) -> Result<Rules, FieldError> {
    let unreadable = |error: serde_json::Error| FieldError::new(name, "not readable", error.to_string());
    let mut all = match serde_json::to_value(rules).map_err(unreadable)? {
        Value::Object(all) => all,
        _ => Map::new(),
    };
    let shown = value.to_string();
    let place = if LIMITS.contains(&name) {
        all.get_mut("limits").and_then(Value::as_object_mut).and_then(|limits| limits.get_mut(name))
    } else {
        all.get_mut(name).filter(|_| name != "limits")
    };
    match place {
        Some(place) => *place = value,
        None => {
            let names = all.keys().map(String::as_str).filter(|name| *name != "limits").chain(LIMITS);
            let allowed = names.collect::<Vec<_>>().join(", ");
            return Err(FieldError::quoted("the name of a rule", name, allowed));
        }
    }
    serde_json::from_value(Value::Object(all)).map_err(|error| {
        let error = error.to_string();
        // What is allowed, without the value again: "unknown variant `x`, expected `a` or `b`".
        let allowed = error.split_once(", expected ").map_or(error.as_str(), |(_, allowed)| allowed);
        FieldError::new(name, shown, allowed)
    })
}

fn json(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(lossy(text).into_owned()));
    }
    if let Ok(number) = value.extract::<u64>() {
        return Ok(number.into());
    }
    let refuse = |_| {
        let message =
            format!("{name} has a value of another type, allowed: str, a sequence of str, or a number from 0 on");
        Exception::ArgumentType.with(value.py(), message)
    };
    let texts = arguments::gold(name, value).map_err(refuse)?;
    Ok(texts.iter().map(|text| Value::String(lossy(text).into_owned())).collect())
}
