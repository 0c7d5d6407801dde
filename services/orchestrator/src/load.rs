//! Limits on what a recipe points at, and giving up once nobody waits for it. A recipe may come over the network.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_files::{open, read_optional};
use evenkeel_hf::Folder;
use evenkeel_proto::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::RunError;
use crate::recipe::Recipe;
use crate::settings::FreshShape;

/// Largest JSON file of a run directory or model folder, in bytes.
const MAX_JSON_BYTES: u64 = 16 << 20;
/// Largest token or certificate file, in bytes.
const MAX_SECRET_BYTES: u64 = 1 << 20;

/// What a run may cost to load. A server sets it, since its recipes are its clients'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadLimits {
    /// Largest file of problems (`data.path`, `data.held_out_path`), in bytes.
    pub max_data_bytes: u64,
    /// Longest line in it, in bytes.
    pub max_row_bytes: u64,
    /// Most problems in it.
    pub max_problems: usize,
    /// Largest `tokenizer.json`, in bytes.
    pub max_tokenizer_bytes: u64,
    /// Most parameters of a fresh model (`model.fresh`), which are drawn and written by the orchestrator itself.
    pub max_fresh_parameters: u64,
    /// Most samples of a step (prompts times group), most examples of a warm-start step.
    pub max_step_samples: u64,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self {
            max_data_bytes: 256 << 20,
            max_row_bytes: 16 << 20,
            max_problems: 1_000_000,
            max_tokenizer_bytes: 128 << 20,
            max_fresh_parameters: 100_000_000,
            max_step_samples: 1_000_000,
        }
    }
}

impl LoadLimits {
    /// No bounds but those of the recipe itself: for runs whose recipe is their user's own.
    pub fn unbounded() -> Self {
        Self {
            max_data_bytes: u64::MAX,
            max_row_bytes: u64::MAX,
            max_problems: usize::MAX,
            max_tokenizer_bytes: u64::MAX,
            max_fresh_parameters: u64::MAX,
            max_step_samples: u64::MAX,
        }
    }

    /// Refuses limits with which nothing could be loaded.
    pub(crate) fn validate(&self) -> Result<(), FieldError> {
        let all = [
            ("max_data_bytes", self.max_data_bytes),
            ("max_row_bytes", self.max_row_bytes),
            ("max_problems", self.max_problems as u64),
            ("max_tokenizer_bytes", self.max_tokenizer_bytes),
            ("max_fresh_parameters", self.max_fresh_parameters),
            ("max_step_samples", self.max_step_samples),
        ];
        match all.into_iter().find(|(_, value)| *value == 0) {
            Some((field, _)) => Err(FieldError::new(field, 0, "at least 1")),
            None => Ok(()),
        }
    }
}

/// Takes the start of a run back while it is being loaded. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks for it; loading ends soon after.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.0.load(Ordering::Acquire) { Err(RunError::Cancelled) } else { Ok(()) }
    }
}

/// The limits of one start, and whether it is still wanted.
#[derive(Debug, Clone)]
pub(crate) struct Loading {
    pub(crate) limits: LoadLimits,
    pub(crate) cancel: Cancel,
}

impl Default for Loading {
    fn default() -> Self {
        Self { limits: LoadLimits::unbounded(), cancel: Cancel::default() }
    }
}

impl Loading {
    /// Refuses a recipe that asks for more than the limits allow, before anything is read or written.
    pub(crate) fn check(&self, recipe: &Recipe) -> Result<(), FieldError> {
        let (limits, sampling) = (&self.limits, &recipe.sampling);
        let refuse = |field: &str, value: u64, limit: u64, what: &str| match value <= limit {
            true => Ok(()),
            false => Err(FieldError::new(field, value, format!("at most {limit} {what}"))),
        };
        let prompts = sampling.prompts_per_step.max(sampling.max_prompts_per_step);
        let samples = u64::from(prompts).saturating_mul(sampling.group_size.into());
        refuse("samples of a step", samples, limits.max_step_samples, "(limits.max_step_samples)")?;
        let examples = recipe.warm_start.examples_per_step.into();
        refuse("warm_start.examples_per_step", examples, limits.max_step_samples, "(limits.max_step_samples)")?;
        if recipe.model.path.is_none() {
            let parameters = parameters_of(&recipe.model.fresh);
            let limit = limits.max_fresh_parameters;
            refuse("model.fresh", parameters, limit, "parameters (limits.max_fresh_parameters)")?;
        }
        let client = &recipe.services.client;
        let secrets = client.tls.iter().flat_map(|tls| {
            let own = [("tls.certificate_file", &tls.certificate_file), ("tls.key_file", &tls.key_file)];
            let own = own.into_iter().filter_map(|(field, path)| Some((field, path.as_ref()?)));
            std::iter::once(("tls.ca_file", &tls.ca_file)).chain(own)
        });
        for (field, path) in secrets.chain(client.token_file.iter().map(|path| ("token_file", path))) {
            open(path, MAX_SECRET_BYTES).map_err(|error| {
                let allowed = format!("a regular file of at most {MAX_SECRET_BYTES} bytes");
                FieldError::new(
                    format!("services.client.{field}"),
                    format_args!("{}, which {error}", path.display()),
                    allowed,
                )
            })?;
        }
        Ok(())
    }

    /// A model folder that is read within the limits, and while the run is wanted.
    pub(crate) fn model_folder(&self, path: &Path) -> Folder {
        let cancel = self.cancel.clone();
        Folder::new(path)
            .with_max_tokenizer_bytes(self.limits.max_tokenizer_bytes)
            .read_while(move || cancel.check().is_ok())
    }
}

/// A small JSON file; `None` where nothing has that name.
pub(crate) fn optional_json(path: &Path) -> Result<Option<Value>, RunError> {
    let Some(bytes) = read_optional(path, MAX_JSON_BYTES).map_err(|error| RunError::model(path, error))? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| RunError::model(path, format!("is not JSON: {error}")))
}

/// Parameters of a fresh model of this shape; the largest number where there are more.
pub(crate) fn parameters_of(shape: &FreshShape) -> u64 {
    let wide = |number: usize| number as u128;
    let times = u128::saturating_mul;
    let hidden = wide(shape.hidden_size);
    let heads = times(wide(shape.heads), wide(shape.head_dim));
    let kv_heads = times(wide(shape.kv_heads), wide(shape.head_dim));
    let matrices = [
        times(times(hidden, heads), 2),
        times(times(hidden, kv_heads), 2),
        times(times(hidden, wide(shape.intermediate_size)), 3),
        times(hidden, 2),
        times(wide(shape.head_dim), 2),
    ];
    let layer = matrices.into_iter().fold(0, u128::saturating_add);
    let embeddings = if shape.tied { 1 } else { 2 };
    let embedding = times(times(wide(shape.vocabulary_size), hidden), embeddings);
    let all = embedding.saturating_add(times(layer, wide(shape.layers))).saturating_add(hidden);
    u64::try_from(all).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(most: u64) -> Loading {
        let limits = LoadLimits { max_tokenizer_bytes: most, ..LoadLimits::default() };
        Loading { limits, cancel: Cancel::default() }
    }

    #[test]
    fn a_tokenizer_is_read_within_the_limits_and_while_the_run_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), "{\"version\": 1}").unwrap();
        let read =
            |loading: &Loading| evenkeel_hf::Tokenizer::read(&loading.model_folder(dir.path())).map_err(RunError::from);
        let error = read(&limited(3)).unwrap_err().to_string();
        assert!(error.ends_with("allowed: at most 3"), "{error}");
        let loading = limited(100);
        loading.cancel.cancel();
        assert!(matches!(read(&loading), Err(RunError::Cancelled)));
    }

    #[test]
    fn parameters_are_counted_as_they_are_written_and_never_overflow() {
        assert_eq!(parameters_of(&FreshShape::default()), 320_352);
        let tied = FreshShape { tied: true, ..FreshShape::default() };
        assert_eq!(parameters_of(&tied), 320_352 - 128 * 96);
        let huge = FreshShape { hidden_size: usize::MAX, layers: usize::MAX, ..FreshShape::default() };
        assert_eq!(parameters_of(&huge), u64::MAX);
    }

    #[test]
    fn what_a_recipe_asks_for_is_bounded_before_anything_is_read() {
        let refused = |change: &dyn Fn(&mut Recipe)| {
            let mut recipe = Recipe::default();
            change(&mut recipe);
            Loading { limits: LoadLimits::default(), cancel: Cancel::default() }.check(&recipe).unwrap_err().to_string()
        };
        type Change = dyn Fn(&mut Recipe);
        let cases: [(&Change, &str); 4] = [
            (&|recipe| recipe.model.fresh.hidden_size = 1_000_000_000, "at most 100000000 parameters"),
            (&|recipe| recipe.sampling.prompts_per_step = u32::MAX, "samples of a step is"),
            (&|recipe| recipe.warm_start.examples_per_step = u32::MAX, "warm_start.examples_per_step is 4294967295"),
            (
                &|recipe| recipe.services.client.token_file = Some("/dev/zero".into()),
                "services.client.token_file is /dev/zero, which is a device",
            ),
        ];
        for (change, words) in cases {
            let error = refused(change);
            assert!(error.contains(words), "{error}");
        }
    }
}
