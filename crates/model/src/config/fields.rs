//! Single values of a `config.json`.

use serde_json::Value;

use super::refused;
use crate::error::Result;

/// A size that has to be there.
pub(super) fn size(json: &Value, field: &str) -> Result<usize> {
    optional_size(json, field)?.ok_or_else(|| refused(field, "missing", "a whole number above 0"))
}

pub(super) fn optional_size(json: &Value, field: &str) -> Result<Option<usize>> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(n) => Ok(Some(n as usize)),
            None => Err(refused(field, value, "a whole number above 0")),
        },
    }
}

pub(super) fn number(json: &Value, field: &str) -> Result<Option<f64>> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| refused(field, value, "a number")),
    }
}

pub(super) fn flag(json: &Value, field: &str, default: bool) -> Result<bool> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value.as_bool().ok_or_else(|| refused(field, value, "true or false")),
    }
}

/// `head_dim`, or the width divided among the heads.
pub(super) fn head_dim(json: &Value) -> Result<usize> {
    if let Some(dim) = optional_size(json, "head_dim")? {
        return Ok(dim);
    }
    let hidden = size(json, "hidden_size")?;
    let heads = size(json, "num_attention_heads")?;
    if heads > 0 && hidden.is_multiple_of(heads) {
        Ok(hidden / heads)
    } else {
        Err(refused("hidden_size", hidden, format!("a multiple of num_attention_heads = {heads}")))
    }
}
