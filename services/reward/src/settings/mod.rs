//! Settings `reward`: server, limits, and defaults for judging.

mod code;
mod functions;
mod http;

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_config::{ByteSize, Settings, resolved_threads};
use evenkeel_judge::JudgeSettings;
use evenkeel_math::{CheckLimits, Profile};
use evenkeel_proto::FieldError;
use evenkeel_rpc::items::ItemLimits;
use evenkeel_rpc::server::ServerSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use functions::{FunctionSettings, FunctionTables};
pub use http::HttpSettings;

pub use code::{CodeSettings, LimitSettings, ModeSetting, SandboxStart, UnsupportedSetting};

/// Maximum number of threads for judging.
const MAX_THREADS: usize = 512;

/// Default limit on the steps that a task may request: about a tenth of a second.
const MAX_FUEL: u64 = 4_000_000;

/// Minimum of `max_text`, which has to hold an ellipsis.
const MIN_TEXT: ByteSize = ByteSize::b(16);

/// The reward service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RewardSettings {
    /// The gRPC server.
    pub server: ServerSettings,
    /// Name of the worker in its verdicts and its status.
    pub name: String,
    /// Items of all streams that may be queued or in progress; further ones are answered OVERLOADED.
    pub max_items: usize,
    /// Memory for those items and for verdicts that clients have not read yet. Not below `server.max_message`.
    pub max_memory: ByteSize,
    /// Items that are judged at once, each on a thread; 0 for the number of cores. Programs have separate threads.
    pub threads: usize,
    /// Longest completion. Not above `server.max_message`, since longer ones would not arrive.
    pub max_completion: ByteSize,
    /// Longest gold answer, and longest answer or program that is already extracted.
    pub max_field: ByteSize,
    /// Longest answer, canonical form or detail in a verdict; longer ones are truncated.
    pub max_text: ByteSize,
    /// How mathematical answers are judged.
    pub math: MathDefaults,
    /// How programs are judged.
    pub code: CodeSettings,
    /// Programs over HTTP, for trainers that have a client of SandboxFusion.
    pub http: HttpSettings,
    /// Python files with reward functions, each by the name of the custom verifier that it is: `[functions.NAME]`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, FunctionSettings>,
    /// Where `functions` is from.
    #[serde(skip)]
    pub function_tables: FunctionTables,
    /// A judge: a model that scores answers by a rubric. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeSettings>,
    /// Where the judge's verdicts are recorded if `judge.records` is absent: the run directory.
    #[serde(skip)]
    pub judge_records: Option<PathBuf>,
}

/// How mathematical answers are judged, unless the task says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MathDefaults {
    /// Profile of tasks that name none.
    pub profile: Profile,
    /// Longest answer: a longer gold answer is a defect of the data, a longer submitted one is wrong.
    pub max_answer: ByteSize,
    /// Steps per check, unless the task sets them.
    pub fuel: u64,
    /// Maximum number of steps that a task may request.
    pub max_fuel: u64,
}

impl Default for RewardSettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            name: "reward".to_owned(),
            max_items: 4096,
            max_memory: ItemLimits::DEFAULT_MEMORY,
            threads: 0,
            max_completion: ByteSize::mib(16),
            max_field: ByteSize::mib(1),
            max_text: ByteSize::kib(4),
            math: MathDefaults::default(),
            code: CodeSettings::default(),
            http: HttpSettings::default(),
            functions: BTreeMap::new(),
            function_tables: FunctionTables::default(),
            judge: None,
            judge_records: None,
        }
    }
}

impl Default for MathDefaults {
    fn default() -> Self {
        let CheckLimits { max_answer_bytes, fuel } = CheckLimits::default();
        let max_answer = ByteSize::b(max_answer_bytes as u64);
        Self { profile: Profile::default(), max_answer, fuel, max_fuel: MAX_FUEL }
    }
}

impl RewardSettings {
    /// The defaults, listening on this address.
    pub fn on(listen: impl Into<String>) -> Self {
        Self { server: ServerSettings::on(listen), ..Self::default() }
    }

    /// The settings that affect verdicts; all others (server, threads, queues, caches) at their defaults.
    pub fn result_affecting(&self) -> Self {
        Self {
            max_completion: self.max_completion,
            max_field: self.max_field,
            math: self.math.clone(),
            code: self.code.result_affecting(),
            judge: self.judge.as_ref().map(JudgeSettings::result_affecting),
            ..Self::default()
        }
    }

    /// Names of the custom verifiers that the service is: files of reward functions, and the judge.
    pub fn custom_verifiers(&self) -> Vec<String> {
        let judge = self.judge.iter().map(|judge| &judge.verifier).filter(|name| !name.is_empty());
        self.functions.keys().chain(judge).cloned().collect()
    }

    /// Number of threads, with 0 resolved.
    pub(crate) fn thread_count(&self) -> usize {
        resolved_threads(self.threads).min(MAX_THREADS)
    }
}

impl Settings for RewardSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        if self.name.is_empty() {
            return Err(FieldError::new("name", "\"\"", "a name"));
        }
        if self.max_items == 0 {
            return Err(FieldError::new("max_items", 0, "at least 1"));
        }
        let minimum = [
            ("max_completion", self.max_completion, ByteSize::b(1)),
            ("max_field", self.max_field, ByteSize::b(1)),
            ("max_text", self.max_text, MIN_TEXT),
            ("math.max_answer", self.math.max_answer, ByteSize::b(1)),
        ];
        for (field, value, minimum) in minimum {
            if value < minimum {
                return Err(FieldError::new(field, value, format!("at least {minimum}")));
            }
        }
        if self.threads > MAX_THREADS {
            return Err(FieldError::new("threads", self.threads, format!("0 (the number of cores) to {MAX_THREADS}")));
        }
        let max_message = self.server.max_message;
        if self.max_completion > max_message {
            let allowed = format!("at most server.max_message, which is {max_message}");
            return Err(FieldError::new("max_completion", self.max_completion, allowed));
        }
        if self.max_memory < max_message {
            let allowed = format!("at least server.max_message, which is {max_message}");
            return Err(FieldError::new("max_memory", self.max_memory, allowed));
        }
        if self.math.fuel == 0 {
            return Err(FieldError::new("math.fuel", 0, "at least 1"));
        }
        if self.math.max_fuel < self.math.fuel {
            let allowed = format!("at least math.fuel, which is {}", self.math.fuel);
            return Err(FieldError::new("math.max_fuel", self.math.max_fuel, allowed));
        }
        self.http.validate().map_err(|error| error.within("http"))?;
        for (name, functions) in &self.functions {
            functions.validate().map_err(|error| error.within(format_args!("functions.{name}")))?;
        }
        if let Some(judge) = &self.judge {
            judge.validate().map_err(|error| error.within("judge"))?;
            let is_taken = self.functions.contains_key(&judge.verifier);
            let allowed = "a name that no file of reward functions has";
            FieldError::ensure(!is_taken, "judge.verifier", format_args!("{:?}", judge.verifier), allowed)?;
        }
        self.code.validate().map_err(|error| error.within("code"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evenkeel_config::Loader;

    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(RewardSettings::default().validate(), Ok(()));
        assert!(RewardSettings::default().thread_count() >= 1);
    }

    #[test]
    fn settings_load_from_toml() {
        let text = "threads = 3\nmax_field = '2MiB'\n[math]\nprofile = 'gsm8k'\n[code.limits]\ncpu = '2s 500ms'\n\
            program_cpu = '1m'\n[server]\nlisten = '0.0.0.0:50053'\ninsecure = true\n";
        let loaded = Loader::new().text("reward.toml", text).unwrap().load::<RewardSettings>().unwrap();
        assert_eq!(loaded.settings.math.profile, Profile::Gsm8k);
        assert_eq!(loaded.settings.thread_count(), 3);
        assert_eq!(loaded.settings.max_field, ByteSize::mib(2));
        let limits = loaded.settings.code.limits;
        assert_eq!((limits.cpu.as_millis(), limits.program_cpu.map(|limit| limit.as_secs())), (2500, Some(60)));
        // What is written loads again, with and without a limit over all tests.
        for loaded in [loaded, Loader::new().load::<RewardSettings>().unwrap()] {
            let written = loaded.to_toml().unwrap();
            let again = Loader::new().text("written.toml", &written).unwrap().load::<RewardSettings>().unwrap();
            assert_eq!(again.settings, loaded.settings, "{written}");
        }
    }

    #[test]
    fn a_misspelt_key_and_a_wrong_profile_are_refused() {
        let refused =
            |text| Loader::new().text("reward.toml", text).unwrap().load::<RewardSettings>().unwrap_err().to_string();
        let error = refused("max_item = 3");
        assert!(error.contains("max_item") && error.contains("nearest allowed: `max_items`"), "{error}");
        let error = refused("[math]\nprofile = 'aime'");
        assert!(error.contains("default, exact, gsm8k, dapo, unmarked"), "{error}");
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        let refused = |change: fn(&mut RewardSettings)| {
            let mut settings = RewardSettings::default();
            change(&mut settings);
            settings.validate().unwrap_err().to_string()
        };
        assert_eq!(refused(|settings| settings.max_items = 0), "max_items is 0, allowed: at least 1");
        assert_eq!(
            refused(|settings| settings.threads = 1000),
            "threads is 1000, allowed: 0 (the number of cores) to 512"
        );
        assert_eq!(
            refused(|settings| settings.max_completion = ByteSize::mib(64)),
            "max_completion is 64MiB, allowed: at most server.max_message, which is 32MiB"
        );
        assert_eq!(
            refused(|settings| settings.max_memory = ByteSize::b(1)),
            "max_memory is 1B, allowed: at least server.max_message, which is 32MiB"
        );
        assert_eq!(
            refused(|settings| settings.math.max_fuel = 1),
            "math.max_fuel is 1, allowed: at least math.fuel, which is 160000"
        );
        assert_eq!(
            refused(|settings| settings.code.limits.cpu = Duration::from_secs(90)),
            "code.limits.cpu is 1m 30s, allowed: 1ms to max_limits.cpu, which is 1m"
        );
        assert_eq!(
            refused(|settings| settings.server.listen = "x".into()),
            "server.listen is \"x\", allowed: HOST:PORT"
        );
        assert_eq!(refused(|settings| settings.name.clear()), "name is \"\", allowed: a name");
        assert_eq!(
            refused(|settings| settings.code.max_limits.program_cpu = Some(Duration::from_secs(5))),
            "code.limits.program_cpu is absent, required: 1ms to max_limits.program_cpu, which is 5s"
        );
        assert_eq!(
            refused(|settings| settings.code.tests_memory = ByteSize::gib(1)),
            "code.tests_memory is 1GiB, allowed: at least tests_cache and twice max_private_tests, which is 2GiB"
        );
    }
}
