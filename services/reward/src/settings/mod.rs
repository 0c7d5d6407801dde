//! Settings `reward`: where it listens, how much it takes at once, and how it judges where a task does not say.

mod code;

use evenkeel_config::Settings;
use evenkeel_math::{Limits, Profile};
use evenkeel_proto::FieldError;
use evenkeel_rpc::items::ItemLimits;
use evenkeel_rpc::server::ServerSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use code::{CodeConfig, LimitsConfig, ModeConfig, SandboxStart, UnsupportedConfig};

/// Most threads that judge.
const MAX_THREADS: usize = 512;

/// Steps that a task may ask for by default: a tenth of a second.
const MAX_FUEL: u64 = 4_000_000;

/// The reward service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RewardConfig {
    /// How it listens.
    pub server: ServerSettings,
    /// Name of the worker in its verdicts.
    pub name: String,
    /// Items of all streams that may wait or be in work; one more is answered OVERLOADED.
    pub max_items: usize,
    /// Bytes of those items, and of verdicts that are not read yet. Not below `server.max_message`.
    pub max_bytes: usize,
    /// Items that are judged at once, each on a thread; 0 takes as many as the machine has. Programs have threads of their own.
    pub threads: usize,
    /// Longest completion that is taken. Not above `server.max_message`, which a longer one could never pass.
    pub max_completion_bytes: usize,
    /// Longest gold answer, and longest answer or program that comes extracted.
    pub max_field_bytes: usize,
    /// Longest answer, canonical form or detail that a verdict repeats; longer ones are cut.
    pub max_text_bytes: usize,
    /// How mathematics is judged.
    pub math: MathConfig,
    /// How programs are judged.
    pub code: CodeConfig,
}

/// How mathematics is judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MathConfig {
    /// Rules of tasks that name none.
    pub profile: Profile,
    /// Longest answer that is read: a longer gold answer is a defect of the data, a longer given one is wrong.
    pub max_answer_bytes: usize,
    /// Steps that one check may take where the task does not say.
    pub fuel: u64,
    /// Steps that a task may ask for.
    pub max_fuel: u64,
}

impl Default for RewardConfig {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            name: "reward".to_owned(),
            max_items: 4096,
            max_bytes: ItemLimits::DEFAULT_MEMORY.bytes_usize(),
            threads: 0,
            max_completion_bytes: 16 << 20,
            max_field_bytes: 1 << 20,
            max_text_bytes: 4096,
            math: MathConfig::default(),
            code: CodeConfig::default(),
        }
    }
}

impl Default for MathConfig {
    fn default() -> Self {
        let Limits { max_answer_bytes, fuel } = Limits::default();
        Self { profile: Profile::default(), max_answer_bytes, fuel, max_fuel: MAX_FUEL }
    }
}

impl RewardConfig {
    /// The defaults, listening on this address.
    pub fn on(listen: impl Into<String>) -> Self {
        Self { server: ServerSettings::on(listen), ..Self::default() }
    }

    /// The settings that decide verdicts; all others (where it listens, threads, queues, caches) as by default.
    pub fn rules(&self) -> Self {
        Self {
            max_completion_bytes: self.max_completion_bytes,
            max_field_bytes: self.max_field_bytes,
            math: self.math.clone(),
            code: self.code.rules(),
            ..Self::default()
        }
    }

    /// Threads, with the machine's own number in place of 0.
    pub(crate) fn thread_count(&self) -> usize {
        thread_count(self.threads)
    }
}

/// The machine's own number in place of 0.
fn thread_count(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
        threads => threads,
    }
}

impl Settings for RewardConfig {
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        if self.name.is_empty() {
            return Err(FieldError::new("name", "\"\"", "a name"));
        }
        let least = [
            ("max_items", self.max_items, 1),
            ("max_completion_bytes", self.max_completion_bytes, 1),
            ("max_field_bytes", self.max_field_bytes, 1),
            ("max_text_bytes", self.max_text_bytes, 16),
            ("math.max_answer_bytes", self.math.max_answer_bytes, 1),
        ];
        for (field, value, least) in least {
            if value < least {
                return Err(FieldError::new(field, value, format!("at least {least}")));
            }
        }
        if self.threads > MAX_THREADS {
            let allowed = format!("0 (as many as the machine has) to {MAX_THREADS}");
            return Err(FieldError::new("threads", self.threads, allowed));
        }
        if self.max_completion_bytes > self.server.max_message.bytes_usize() {
            let allowed = format!("at most server.max_message, which is {}", self.server.max_message);
            return Err(FieldError::new("max_completion_bytes", self.max_completion_bytes, allowed));
        }
        if self.max_bytes < self.server.max_message.bytes_usize() {
            let allowed = format!("at least server.max_message, which is {}", self.server.max_message);
            return Err(FieldError::new("max_bytes", self.max_bytes, allowed));
        }
        if self.math.fuel == 0 {
            return Err(FieldError::new("math.fuel", 0, "at least 1"));
        }
        if self.math.max_fuel < self.math.fuel {
            let allowed = format!("at least math.fuel, which is {}", self.math.fuel);
            return Err(FieldError::new("math.max_fuel", self.math.max_fuel, allowed));
        }
        self.code.validate().map_err(|error| error.within("code"))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_config::Loader;

    use super::*;

    #[test]
    fn the_defaults_can_be() {
        assert_eq!(RewardConfig::default().validate(), Ok(()));
        assert!(RewardConfig::default().thread_count() >= 1);
    }

    #[test]
    fn settings_are_written_as_toml() {
        let text = "threads = 3\n[math]\nprofile = 'gsm8k'\n[server]\nlisten = '0.0.0.0:50053'\n";
        let loaded = Loader::new().text("reward.toml", text).unwrap().load::<RewardConfig>().unwrap();
        assert_eq!(loaded.settings.math.profile, Profile::Gsm8k);
        assert_eq!(loaded.settings.thread_count(), 3);
    }

    #[test]
    fn a_misspelt_key_and_a_wrong_profile_are_refused() {
        let refused =
            |text| Loader::new().text("reward.toml", text).unwrap().load::<RewardConfig>().unwrap_err().to_string();
        let error = refused("max_item = 3");
        assert!(error.contains("max_item") && error.contains("nearest allowed: `max_items`"), "{error}");
        let error = refused("[math]\nprofile = 'aime'");
        assert!(error.contains("default, exact, gsm8k, dapo, unmarked"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let refused = |change: fn(&mut RewardConfig)| {
            let mut config = RewardConfig::default();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert_eq!(refused(|config| config.max_items = 0), "max_items is 0, allowed: at least 1");
        assert_eq!(
            refused(|config| config.threads = 1000),
            "threads is 1000, allowed: 0 (as many as the machine has) to 512"
        );
        assert_eq!(
            refused(|config| config.max_completion_bytes = 64 << 20),
            "max_completion_bytes is 67108864, allowed: at most server.max_message, which is 32MiB"
        );
        assert_eq!(
            refused(|config| config.max_bytes = 1),
            "max_bytes is 1, allowed: at least server.max_message, which is 32MiB"
        );
        assert_eq!(
            refused(|config| config.math.max_fuel = 1),
            "math.max_fuel is 1, allowed: at least math.fuel, which is 160000"
        );
        assert_eq!(
            refused(|config| config.code.limits.cpu_ms = 90_000),
            "code.limits.cpu_ms is 90000, allowed: 1 to max_limits.cpu_ms, which is 60000"
        );
        assert_eq!(refused(|config| config.server.listen = "x".into()), "server.listen is \"x\", allowed: HOST:PORT");
        assert_eq!(refused(|config| config.name.clear()), "name is \"\", allowed: a name");
    }
}
