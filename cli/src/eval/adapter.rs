//! An adapter in place of a model: it is computed beside the model that it belongs to.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use evenkeel_hub::ModelName;
use evenkeel_model::Config;
use evenkeel_model::folder::{AdapterBase, StoredAdapter};
use evenkeel_model_folder::{AdapterConfig, Folder};
use evenkeel_proto::FieldError;

use crate::arguments::EvalOptions;
use crate::terminal::note;

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
    let base = crate::hub::folder("--base", &base)?;
    check(&adapter, &base).with_context(|| format!("--model {}", folder.display()))?;
    Ok((base, Some(adapter)))
}

/// Refuses an adapter that no engine would compute beside this base; a service would be asked for it again and again.
fn check(adapter: &Path, base: &Path) -> Result<()> {
    let (config, _) = Config::load(base)?;
    let stored = StoredAdapter::open(adapter, &config)?;
    match stored.base().note() {
        Some(unknown) => note(&format!("note: --model: {unknown}")),
        None => AdapterBase::of_folder(base)?.validate(&stored)?,
    }
    Ok(())
}

/// The base that an adapter names: a folder, or a model of the hub.
fn named_base(adapter: &Path) -> Result<PathBuf> {
    let AdapterConfig { base: named, revision, .. } = AdapterConfig::read(&Folder::new(adapter))?;
    if named.is_empty() {
        let allowed = format!("the model that {} belongs to, which it does not name", adapter.display());
        return Err(FieldError::missing("--base", allowed).into());
    }
    let revision = if revision.is_empty() { revision } else { format!("@{revision}") };
    let on_hub = PathBuf::from(format!("hf:{named}{revision}"));
    Ok(if !Path::new(&named).exists() && ModelName::parse("--base", &on_hub.to_string_lossy()).is_ok() {
        on_hub
    } else {
        named.into()
    })
}
