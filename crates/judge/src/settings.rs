//! Settings `reward.judge`.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_child::has_secret_name;
use evenkeel_config::{HumanDuration, at_least_1ms, at_least_one, human};
use evenkeel_host::FileDigest;
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reply::Parser;

/// Most calls at once.
const MAX_CONCURRENCY: usize = 1024;
/// Longest call, and longest time for its retries.
const MAX_WAIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A judge: a model behind an OpenAI-compatible endpoint that scores answers by a rubric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeSettings {
    /// Base URL of an OpenAI-compatible API, up to and with `/v1`. Calls go to `/chat/completions` below it.
    pub endpoint: String,
    /// Name of the model at the endpoint.
    pub model: String,
    /// TOML file with the criteria and their weights.
    pub rubric: PathBuf,
    /// TOML file with the messages `system` and `user`. Absent: the built-in template.
    pub template: Option<PathBuf>,
    /// How replies are read: `json`, the whole reply is one JSON object; `last-line`, an explanation comes before it.
    pub parser: Parser,
    /// Name of the custom verifier that the judge is, for a reward worker; empty: none. A recipe declares it as
    /// `data.verifiers.NAME.judge` instead.
    pub verifier: String,
    /// Whether the judge also decides mathematical answers whose rule says *undecided*. It never changes *equal* or
    /// *not equal*.
    pub undecided: bool,
    /// Column with the task's text, with dots for inner fields. Empty: `prompt`, `problem` or `question`, whichever the
    /// row has.
    pub prompt_column: String,
    /// Column with the reference answer, likewise. Empty: `reference`, `answer`, `gold`, `solution` or
    /// `reward_model.ground_truth`, whichever the row has.
    pub reference_column: String,
    /// How replies are sampled.
    pub sampling: SamplingSettings,
    /// What the judge may cost.
    pub budget: BudgetSettings,
    /// Environment variable with the API key. The name has to mark a secret, as `JUDGE_API_KEY` does, so that programs
    /// of the user do not get it. Empty: none.
    pub key_variable: String,
    /// File with the API key. Absent: the key is that of `key_variable`, or none is sent.
    pub key_file: Option<PathBuf>,
    /// Calls at once.
    pub concurrency: usize,
    /// The longest that one call may take.
    #[serde(with = "HumanDuration")]
    #[schemars(with = "HumanDuration")]
    pub timeout: Duration,
    /// How long a call is tried again that the endpoint does not take, because of its rate limit or a failure. Pauses
    /// follow `Retry-After`. 0 tries once.
    #[serde(with = "HumanDuration")]
    #[schemars(with = "HumanDuration")]
    pub retry_for: Duration,
    /// Folder with the record of verdicts, which runs may share. Absent: `judge.jsonl` in the run directory; a reward
    /// worker needs one.
    pub records: Option<PathBuf>,
    /// Whether only recorded verdicts count. No call is made, and an answer without a record has no verdict.
    pub record_only: bool,
    /// Whether a dry run calls the judge once and times steps with it. Otherwise it checks the files and the key alone.
    pub try_in_dry_run: bool,
}

/// How a judge's replies are sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingSettings {
    /// Temperature, 0 to 2.
    pub temperature: f64,
    /// Share of the probability that is sampled from, above 0 to 1.
    pub top_p: f64,
    /// Longest reply in tokens, thinking included. A reply that is cut off is no verdict.
    pub max_tokens: u32,
    /// Seed of the endpoint. Absent: none is sent.
    pub seed: Option<u64>,
    /// Whether the endpoint is told to write a JSON object (`response_format`). Not with the parser `last-line`.
    pub json_mode: bool,
}

/// What a judge may cost over a whole record, earlier runs and resumed ones included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetSettings {
    /// Most calls; 0 for no limit. At the limit the run stops with a checkpoint.
    pub calls: u64,
    /// Most tokens of prompts and replies together, as the endpoint counts them; 0 for no limit. Calls in flight may
    /// exceed it.
    pub tokens: u64,
}

impl Default for JudgeSettings {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            model: String::new(),
            rubric: PathBuf::new(),
            template: None,
            parser: Parser::default(),
            verifier: String::new(),
            undecided: false,
            prompt_column: String::new(),
            reference_column: String::new(),
            sampling: SamplingSettings::default(),
            budget: BudgetSettings::default(),
            key_variable: String::new(),
            key_file: None,
            concurrency: 16,
            timeout: Duration::from_secs(60),
            retry_for: Duration::from_secs(300),
            records: None,
            record_only: false,
            try_in_dry_run: false,
        }
    }
}

impl Default for SamplingSettings {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, max_tokens: 1024, seed: None, json_mode: false }
    }
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self { calls: 100_000, tokens: 0 }
    }
}

impl JudgeSettings {
    /// Refuses values of the right type that cannot be. Reads no file.
    ///
    /// # Errors
    /// The first such setting.
    pub fn validate(&self) -> Result<(), FieldError> {
        self.validate_endpoint()?;
        let allowed = "the name of a model at the endpoint";
        FieldError::ensure(!self.model.trim().is_empty(), "model", format_args!("{:?}", self.model), allowed)?;
        let allowed = "a TOML file with criteria";
        FieldError::ensure(!self.rubric.as_os_str().is_empty(), "rubric", "\"\"", allowed)?;
        self.validate_sampling().map_err(|error| error.within("sampling"))?;
        let keys = !self.key_variable.is_empty() && self.key_file.is_some();
        FieldError::ensure(!keys, "key_file", "present", "absent where key_variable is set")?;
        let allowed = "the name of an environment variable: letters, digits and `_`";
        let is_name = self.key_variable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        // Not the value: it may be the key itself.
        FieldError::ensure(is_name, "key_variable", "no name of a variable", allowed)?;
        let is_withheld = self.key_variable.is_empty() || has_secret_name(self.key_variable.as_ref());
        let allowed = "one that marks a secret, such as JUDGE_API_KEY";
        FieldError::ensure(is_withheld, "key_variable", "a name that programs of the user would get", allowed)?;
        let fits = (1..=MAX_CONCURRENCY).contains(&self.concurrency);
        FieldError::ensure(fits, "concurrency", self.concurrency, format!("1 to {MAX_CONCURRENCY}"))?;
        at_least_1ms(&[("timeout", self.timeout)])?;
        for (field, value) in [("timeout", self.timeout), ("retry_for", self.retry_for)] {
            FieldError::ensure(value <= MAX_WAIT, field, human(value), format!("at most {}", human(MAX_WAIT)))?;
        }
        Ok(())
    }

    fn validate_endpoint(&self) -> Result<(), FieldError> {
        let host = self.endpoint.strip_prefix("https://").or_else(|| self.endpoint.strip_prefix("http://"));
        let is_plain = |host: &str| {
            !host.is_empty()
                && !host.starts_with('/')
                && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#".contains(&byte))
        };
        let allowed = "http:// or https://, a host and a path such as /v1, without a name, a key or a query";
        // Not the value: it may have a password.
        FieldError::ensure(host.is_some_and(is_plain), "endpoint", "no such URL", allowed)
    }

    fn validate_sampling(&self) -> Result<(), FieldError> {
        let SamplingSettings { temperature, top_p, max_tokens, json_mode, .. } = self.sampling;
        FieldError::ensure((0.0..=2.0).contains(&temperature), "temperature", temperature, "0 to 2")?;
        FieldError::ensure(top_p > 0.0 && top_p <= 1.0, "top_p", top_p, "above 0 to 1")?;
        at_least_one(&[("max_tokens", max_tokens.into())])?;
        let fits = !json_mode || self.parser == Parser::Json;
        FieldError::ensure(
            fits,
            "json_mode",
            json_mode,
            "false with the parser last-line, which asks for words as well",
        )
    }

    /// What decides verdicts, without where the judge is, what it may take, and which files it reads: those are inputs
    /// of a run by their content.
    pub fn result_affecting(&self) -> Self {
        Self {
            model: self.model.clone(),
            parser: self.parser,
            undecided: self.undecided,
            prompt_column: self.prompt_column.clone(),
            reference_column: self.reference_column.clone(),
            sampling: self.sampling.clone(),
            ..Self::default()
        }
    }

    /// Digest of what decides verdicts, with what is in the files.
    ///
    /// # Errors
    /// A file that cannot be read, by its field.
    pub fn digest(&self) -> Result<String, FieldError> {
        let mut text = serde_json::to_string(&self.result_affecting()).expect("numbers and names serialise");
        for (field, file) in [("rubric", Some(&self.rubric)), ("template", self.template.as_ref())] {
            let Some(file) = file else { continue };
            let found = FileDigest::of(file).map_err(|error| {
                FieldError::new(field, file.display(), format!("a file that can be read ({error})"))
            })?;
            text += &format!("\n{field} {found}");
        }
        Ok(evenkeel_host::sha256(text))
    }

    /// How long a verdict may take: a call and its retries, and as long again for calls that are waited for.
    pub fn longest_verdict(&self) -> Duration {
        self.timeout.saturating_add(self.retry_for).saturating_mul(2)
    }

    /// The files that the judge reads, besides the one with the key.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.rubric).chain(&self.template)
    }

    /// `timeout` for messages.
    pub(crate) fn shown_timeout(&self) -> String {
        format!("{} (reward.judge.timeout)", human(self.timeout))
    }

    /// `retry_for` for messages.
    pub(crate) fn shown_retries(&self) -> String {
        format!("{} (reward.judge.retry_for)", human(self.retry_for))
    }
}

impl SamplingSettings {
    /// The settings as one text, the same for the same replies.
    pub(crate) fn identity(&self) -> String {
        let Self { temperature, top_p, max_tokens, seed, json_mode } = self;
        let seed = seed.map_or_else(|| "none".to_owned(), |seed| seed.to_string());
        format!("temperature {temperature:?} top_p {top_p:?} max_tokens {max_tokens} seed {seed} json {json_mode}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> JudgeSettings {
        let (endpoint, model) = ("http://127.0.0.1:1/v1".to_owned(), "judge".to_owned());
        JudgeSettings { endpoint, model, rubric: "rubric.toml".into(), ..JudgeSettings::default() }
    }

    #[test]
    fn settings_that_cannot_be_are_refused_by_name() {
        let refused = |change: fn(&mut JudgeSettings)| {
            let mut settings = good();
            change(&mut settings);
            settings.validate().unwrap_err().to_string()
        };
        assert_eq!(good().validate(), Ok(()));
        assert!(refused(|settings| settings.endpoint = "ftp://a".to_owned()).starts_with("endpoint is no such URL"));
        assert!(refused(|settings| settings.endpoint.clear()).starts_with("endpoint is no such URL"));
        assert!(refused(|settings| settings.model.clear()).starts_with("model is \"\""));
        assert!(refused(|settings| settings.rubric = PathBuf::new()).starts_with("rubric is \"\""));
        assert_eq!(refused(|settings| settings.concurrency = 0), "concurrency is 0, allowed: 1 to 1024");
        assert_eq!(
            refused(|settings| settings.sampling.temperature = 2.5),
            "sampling.temperature is 2.5, allowed: 0 to 2"
        );
        assert!(refused(|settings| settings.sampling.temperature = f64::NAN).starts_with("sampling.temperature"));
        assert_eq!(refused(|settings| settings.sampling.top_p = 0.0), "sampling.top_p is 0, allowed: above 0 to 1");
        assert!(refused(|settings| settings.sampling.max_tokens = 0).starts_with("sampling.max_tokens is 0"));
        assert!(refused(|settings| settings.timeout = Duration::ZERO).starts_with("timeout is 0"));
        assert!(refused(|settings| settings.timeout = Duration::MAX).starts_with("timeout is "));
        assert!(refused(|settings| settings.retry_for = Duration::MAX).contains("allowed: at most 7"));
        let endless = JudgeSettings { timeout: Duration::MAX, retry_for: Duration::MAX, ..good() };
        assert_eq!(endless.longest_verdict(), Duration::MAX);
        let error = refused(|settings| settings.key_variable = "JUDGE".to_owned());
        assert!(error.starts_with("key_variable is a name that programs of the user would get"), "{error}");
        for name in ["JUDGE_API_KEY", "JUDGE_TOKEN"] {
            assert_eq!(JudgeSettings { key_variable: name.to_owned(), ..good() }.validate(), Ok(()));
        }
        let error = refused(|settings| {
            settings.parser = Parser::LastLine;
            settings.sampling.json_mode = true;
        });
        assert!(error.starts_with("sampling.json_mode is true"), "{error}");
    }

    #[test]
    fn a_key_in_the_wrong_place_is_refused_and_not_repeated() {
        let planted = "sk-planted-0123456789";
        for settings in [
            JudgeSettings { key_variable: planted.to_owned(), ..good() },
            JudgeSettings { endpoint: format!("https://me:{planted}@judge/v1"), ..good() },
            JudgeSettings { endpoint: format!("https://judge/v1?key={planted}"), ..good() },
        ] {
            let error = settings.validate().unwrap_err().to_string();
            assert!(!error.contains("planted"), "{error}");
        }
        let both = JudgeSettings { key_variable: "KEY".to_owned(), key_file: Some("key".into()), ..good() };
        assert!(both.validate().unwrap_err().to_string().starts_with("key_file is present"));
    }

    #[test]
    fn where_a_judge_is_and_what_it_may_cost_decides_no_verdict() {
        let elsewhere = JudgeSettings {
            endpoint: "https://other/v1".to_owned(),
            budget: BudgetSettings { calls: 1, tokens: 1 },
            records: Some("records".into()),
            timeout: Duration::from_secs(1),
            ..good()
        };
        assert_eq!(elsewhere.result_affecting(), good().result_affecting());
        assert_ne!(JudgeSettings { undecided: true, ..good() }.result_affecting(), good().result_affecting());
    }

    #[test]
    fn the_digest_is_of_what_is_in_the_rubric_and_not_of_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let digest = |name: &str, text: &str| {
            let rubric = dir.path().join(name);
            std::fs::write(&rubric, text).unwrap();
            JudgeSettings { rubric, ..good() }.digest().unwrap()
        };
        let one = digest("a.toml", "one");
        assert_eq!(digest("b.toml", "one"), one);
        assert_ne!(digest("a.toml", "other"), one);
        let absent = JudgeSettings { rubric: dir.path().join("absent"), ..good() };
        assert_eq!(absent.digest().unwrap_err().field, "rubric");
    }
}
