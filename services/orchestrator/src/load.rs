//! Limits on the files that a recipe names, and cancellation while they are loaded. A recipe may come over the network.

use std::path::{Path, PathBuf};

use evenkeel_config::{ByteSize, at_least_one};
use evenkeel_data::read::ReadLimits;
use evenkeel_host::open;
use evenkeel_model_folder::Folder;
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientSettings;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::settings::LoopSettings;

/// Largest token or certificate file, in bytes.
const MAX_SECRET_BYTES: u64 = 1 << 20;

/// Limits on what a recipe may load. The server sets them, since recipes come from its clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoadLimits {
    /// Largest data file (`data.files` and the like).
    pub max_data: ByteSize,
    /// Longest row of a data file.
    pub max_row: ByteSize,
    /// Largest number of rows in a data file.
    pub max_rows: usize,
    /// Largest number of problems in a data set, without duplicates.
    pub max_problems: usize,
    /// Largest `tokenizer.json`.
    pub max_tokenizer: ByteSize,
    /// Largest number of parameters of a fresh model (`model.fresh`), which is created before the run.
    pub max_fresh_parameters: u64,
    /// Largest number of samples in a step (prompts times group size), and of examples in a warm-start step.
    pub max_step_samples: u64,
    /// Folders below which the files that a client's recipe names must be: data sets, models, tokens and certificates.
    /// Empty: anywhere where the server listens on a loopback address, and nowhere otherwise. The run that the server's
    /// own settings start is not limited.
    pub roots: Vec<PathBuf>,
    /// Whether custom verifiers may be at addresses that the recipe names: the server sends them answers, and its
    /// token.
    pub verifier_addresses: bool,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self {
            max_data: ByteSize::gib(1),
            max_row: ByteSize::mib(16),
            max_rows: 10_000_000,
            max_problems: 1_000_000,
            max_tokenizer: ByteSize::mib(128),
            max_fresh_parameters: 100_000_000,
            max_step_samples: 1_000_000,
            roots: Vec::new(),
            verifier_addresses: false,
        }
    }
}

impl LoadLimits {
    /// No bounds but those of the recipe itself: for runs whose recipe is their user's own.
    pub fn unbounded() -> Self {
        Self {
            max_data: ByteSize::b(u64::MAX),
            max_row: ByteSize::b(u64::MAX),
            max_rows: usize::MAX,
            max_problems: usize::MAX,
            max_tokenizer: ByteSize::b(u64::MAX),
            max_fresh_parameters: u64::MAX,
            max_step_samples: u64::MAX,
            roots: Vec::new(),
            verifier_addresses: true,
        }
    }

    /// Limits of data files.
    pub(crate) fn data(&self) -> ReadLimits {
        ReadLimits {
            max_bytes: self.max_data.bytes(),
            max_row_bytes: self.max_row.bytes_usize(),
            max_rows: self.max_rows,
            max_problems: self.max_problems,
        }
    }

    /// Refuses settings that ask for more than the limits allow, before anything is read or written.
    pub(crate) fn validate_run(&self, settings: &LoopSettings) -> Result<(), FieldError> {
        let sampling = &settings.sampling;
        let most = self.max_step_samples;
        let at_most = |field: &str, value: u64| match value <= most {
            true => Ok(()),
            false => Err(FieldError::new(field, value, format!("at most {most} (limits.max_step_samples)"))),
        };
        let prompts = sampling.prompts_per_step.max(sampling.max_prompts_per_step);
        at_most("samples of a step", u64::from(prompts).saturating_mul(sampling.group_size.into()))?;
        let evaluation = &settings.evaluation;
        at_most(
            "samples of held-out problems",
            u64::from(evaluation.problems).saturating_mul(evaluation.samples.into()),
        )?;
        for benchmark in &evaluation.benchmarks {
            at_most("evaluation.benchmarks[].samples", benchmark.samples.unwrap_or(evaluation.samples).into())?;
        }
        at_most("warm_start.examples_per_step", settings.warm_start.examples_per_step.into())?;
        validate_secrets(&settings.services.client).map_err(|error| error.within("services.client"))
    }

    /// Refuses limits with which nothing could be loaded.
    pub(crate) fn validate(&self) -> Result<(), FieldError> {
        let sizes = [("max_data", self.max_data), ("max_row", self.max_row), ("max_tokenizer", self.max_tokenizer)];
        if let Some((field, size)) = sizes.into_iter().find(|(_, size)| size.bytes() == 0) {
            return Err(FieldError::new(field, size, "at least 1B"));
        }
        at_least_one(&[
            ("max_rows", self.max_rows as u64),
            ("max_problems", self.max_problems as u64),
            ("max_fresh_parameters", self.max_fresh_parameters),
            ("max_step_samples", self.max_step_samples),
        ])
    }
}

/// The limits of one start, and whether it is still wanted.
#[derive(Debug, Clone)]
pub(crate) struct Loading {
    pub(crate) limits: LoadLimits,
    pub(crate) cancel: CancellationToken,
}

impl Default for Loading {
    fn default() -> Self {
        Self { limits: LoadLimits::unbounded(), cancel: CancellationToken::new() }
    }
}

impl Loading {
    /// A model folder that is read within the limits, and while the run is wanted.
    pub(crate) fn model_folder(&self, path: &Path) -> Folder {
        let cancel = self.cancel.clone();
        Folder::new(path)
            .with_max_tokenizer_bytes(self.limits.max_tokenizer.bytes())
            .read_while(move || !cancel.is_cancelled())
    }
}

/// Refuses files of a client's settings that are no regular files, or too large to be secrets.
fn validate_secrets(client: &ClientSettings) -> Result<(), FieldError> {
    let tls = client.tls.iter().flat_map(|tls| {
        let own = [("tls.certificate_file", &tls.certificate_file), ("tls.key_file", &tls.key_file)];
        let own = own.into_iter().filter_map(|(field, path)| Some((field, path.as_ref()?)));
        std::iter::once(("tls.ca_file", &tls.ca_file)).chain(own)
    });
    for (field, path) in tls.chain(client.token_file.iter().map(|path| ("token_file", path))) {
        open(path, MAX_SECRET_BYTES).map_err(|error| {
            let allowed = format!("a regular file of at most {MAX_SECRET_BYTES} bytes");
            FieldError::new(field, format_args!("{}, which {error}", path.display()), allowed)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RunError;

    fn limited(most: u64) -> Loading {
        let limits = LoadLimits { max_tokenizer: ByteSize::b(most), ..LoadLimits::default() };
        Loading { limits, cancel: CancellationToken::new() }
    }

    #[test]
    fn a_tokenizer_is_read_within_the_limits_and_while_the_run_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), "{\"version\": 1}").unwrap();
        let read = |loading: &Loading| {
            evenkeel_model_folder::Tokenizer::read(&loading.model_folder(dir.path())).map_err(RunError::from)
        };
        let error = read(&limited(3)).unwrap_err().to_string();
        assert!(error.ends_with("allowed: at most 3"), "{error}");
        let loading = limited(100);
        loading.cancel.cancel();
        assert!(matches!(read(&loading), Err(RunError::Cancelled)));
    }

    #[test]
    fn what_a_recipe_asks_for_is_bounded_before_anything_is_read() {
        type Change = dyn Fn(&mut LoopSettings);
        let cases: [(&Change, &str); 3] = [
            (&|settings| settings.sampling.prompts_per_step = u32::MAX, "samples of a step is"),
            (
                &|settings| settings.warm_start.examples_per_step = u32::MAX,
                "warm_start.examples_per_step is 4294967295",
            ),
            (
                &|settings| settings.services.client.token_file = Some("/dev/zero".into()),
                "services.client.token_file is /dev/zero, which is a device",
            ),
        ];
        for (change, words) in cases {
            let mut settings = LoopSettings::default();
            change(&mut settings);
            let error = LoadLimits::default().validate_run(&settings).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
