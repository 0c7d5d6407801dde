//! An adapter in place of a model: it is computed beside the model that it belongs to.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use evenkeel_hub::ModelName;
use evenkeel_model_folder::{AdapterConfig, Folder};
use evenkeel_proto::FieldError;

use crate::arguments::EvalOptions;

/// The folder of the model, and that of the adapter beside it, if one is meant.
///
/// # Errors
/// A model that cannot be had; an adapter that does not say what it belongs to.
pub(super) fn folders(options: &EvalOptions) -> Result<(PathBuf, Option<PathBuf>)> {
    let folder = crate::hub::folder("--model", &options.model)?;
    if !AdapterConfig::is_in(&folder) {
        if let Some(base) = &options.base {
            let allowed = "absent, since --model holds no adapter (adapter_config.json)";
            return Err(FieldError::new("--base", base.display(), allowed).into());
        }
        return Ok((folder, None));
    }
    let base = match &options.base {
        Some(base) => base.clone(),
        None => named_base(&folder)?,
    };
    let adapter = std::fs::canonicalize(&folder).with_context(|| format!("--model {}", folder.display()))?;
    Ok((crate::hub::folder("--base", &base)?, Some(adapter)))
}

/// The base that an adapter names: a folder, or a model of the hub.
fn named_base(adapter: &Path) -> Result<PathBuf> {
    let named = AdapterConfig::read(&Folder::new(adapter))?.base;
    if named.is_empty() {
        let allowed = format!("the model that {} belongs to, which it does not name", adapter.display());
        return Err(FieldError::missing("--base", allowed).into());
    }
    let on_hub = PathBuf::from(format!("hf:{named}"));
    Ok(if !Path::new(&named).exists() && ModelName::parse("--base", &on_hub.to_string_lossy()).is_ok() {
        on_hub
    } else {
        named.into()
    })
}
