//! Settings `reward.code`: the sandbox and its limits.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, OptionalHumanDuration, human, resolved_threads};
use evenkeel_proto::FieldError;
use evenkeel_sandbox::compare::Tolerance;
use evenkeel_sandbox::rows::MAX_PRIVATE_BYTES;
use evenkeel_sandbox::{Mode, ProgramLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_THREADS;

/// Minimum of limits on time, which the protocol counts in milliseconds.
const MIN_TIME: Duration = Duration::from_millis(1);

/// How programs are judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CodeSettings {
    /// When the sandbox is prepared.
    pub sandbox: SandboxStart,
    /// Folder of the interpreter [default: EVENKEEL_GUEST_DIR, or `evenkeel` in the user's cache folder].
    pub guest_dir: Option<PathBuf>,
    /// Tests that run at once; 0 for the number of cores. As many again may continue to run once they have run for more
    /// than a second.
    pub threads: usize,
    /// Memory for all programs together [default: nine tenths of what is available to the machine or its control
    /// group].
    pub memory: Option<ByteSize>,
    /// Mode of tasks that name none.
    pub mode: ModeSetting,
    /// Limits on a test, unless the task sets them.
    pub limits: LimitSettings,
    /// Highest limits that a task may request.
    pub max_limits: LimitSettings,
    /// Count instructions instead of time, unless the task sets it.
    pub deterministic: bool,
    /// Largest error, absolute or relative, of a number whose expected value is written as a float, unless the task
    /// sets it; 0 for none. No effect in the mode `livecodebench`.
    pub float_tolerance: f64,
    /// Outcome of programs that need something that the sandbox lacks (numpy, 64-bit lengths).
    pub unsupported: UnsupportedSetting,
    /// Maximum decompressed size of the private tests of a LiveCodeBench row, and maximum memory of the tests of a
    /// task.
    pub max_private_tests: ByteSize,
    /// Memory for all tests together: cached, in use, or being decompressed. A row for which it does not suffice is
    /// answered OVERLOADED.
    pub tests_memory: ByteSize,
    /// Memory for cached tests, which tasks refer to by their digest.
    pub tests_cache: ByteSize,
}

/// When the sandbox is prepared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxStart {
    /// When the first program arrives.
    #[default]
    OnFirstUse,
    /// Before anything is served. The service does not start if something is missing.
    AtStart,
    /// Never: programs are answered UNIMPLEMENTED.
    Off,
}

/// Outcome of programs that need something that the sandbox lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnsupportedSetting {
    /// A runtime error.
    #[default]
    Wrong,
    /// INVALID, and therefore left out of training. A model can learn to fail in this way on purpose.
    Invalid,
}

/// The rules under which a program is run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeSetting {
    /// As a separate process would run it.
    #[default]
    Strict,
    /// As LiveCodeBench's grader judges, with its quirks, but without its loopholes.
    Livecodebench,
}

impl From<ModeSetting> for Mode {
    fn from(mode: ModeSetting) -> Self {
        match mode {
            ModeSetting::Strict => Self::Strict,
            ModeSetting::Livecodebench => Self::LiveCodeBench,
        }
    }
}

/// Limits on a test, and on the CPU time of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// CPU time.
    #[serde(with = "HumanDuration")]
    pub cpu: Duration,
    /// CPU time of a program over all its tests. Absent: no limit.
    #[serde(with = "OptionalHumanDuration")]
    pub program_cpu: Option<Duration>,
    /// Wall clock time: a backstop, after which there is no verdict.
    #[serde(with = "HumanDuration")]
    pub wall: Duration,
    /// Memory above the interpreter's own.
    pub memory: ByteSize,
    /// Standard output and standard error together.
    pub output: ByteSize,
    /// Length of the program.
    pub source: ByteSize,
}

impl Default for LimitSettings {
    fn default() -> Self {
        let ProgramLimits { cpu, program_cpu, wall, memory_bytes, output_bytes, source_bytes, .. } =
            ProgramLimits::default();
        let [memory, output, source] = [memory_bytes, output_bytes, source_bytes].map(ByteSize::b);
        Self { cpu, program_cpu, wall, memory, output, source }
    }
}

impl LimitSettings {
    /// Default maxima. No program can use more memory: the interpreter has 32-bit addresses.
    const MAX: Self = Self {
        cpu: Duration::from_secs(60),
        program_cpu: None,
        wall: Duration::from_secs(600),
        memory: ByteSize::gib(3),
        output: ByteSize::mib(64),
        source: ByteSize::mib(1),
    };
}

impl Default for CodeSettings {
    fn default() -> Self {
        Self {
            sandbox: SandboxStart::default(),
            guest_dir: None,
            threads: 0,
            memory: None,
            mode: ModeSetting::default(),
            limits: LimitSettings::default(),
            max_limits: LimitSettings::MAX,
            deterministic: false,
            float_tolerance: Tolerance::default().0,
            unsupported: UnsupportedSetting::default(),
            max_private_tests: ByteSize::b(MAX_PRIVATE_BYTES as u64),
            tests_memory: ByteSize::gib(3),
            tests_cache: ByteSize::gib(1),
        }
    }
}

impl CodeSettings {
    /// The settings that affect verdicts; all others at their defaults.
    pub(super) fn result_affecting(&self) -> Self {
        let Self { mode, limits, max_limits, deterministic, float_tolerance, unsupported, max_private_tests, .. } =
            *self;
        Self {
            mode,
            limits,
            max_limits,
            deterministic,
            float_tolerance,
            unsupported,
            max_private_tests,
            ..Self::default()
        }
    }

    /// Number of threads, with 0 resolved.
    pub(crate) fn thread_count(&self) -> usize {
        resolved_threads(self.threads).min(MAX_THREADS)
    }

    pub(super) fn validate(&self) -> Result<(), FieldError> {
        if self.threads > MAX_THREADS {
            return Err(FieldError::new("threads", self.threads, format!("0 (the number of cores) to {MAX_THREADS}")));
        }
        let limits = &self.limits;
        let max = &self.max_limits;
        let refused = |field: &str, value: &dyn fmt::Display, minimum: &dyn fmt::Display, max: &dyn fmt::Display| {
            let allowed = format!("{minimum} to max_limits.{field}, which is {max}");
            Err(FieldError::new(format!("limits.{field}"), value, allowed))
        };
        for (field, value, max) in [("cpu", limits.cpu, max.cpu), ("wall", limits.wall, max.wall)] {
            if !(MIN_TIME..=max).contains(&value) {
                return refused(field, &human(value), &human(MIN_TIME), &human(max));
            }
        }
        for (field, value, max) in [
            ("memory", limits.memory, max.memory),
            ("output", limits.output, max.output),
            ("source", limits.source, max.source),
        ] {
            if !(ByteSize::b(1)..=max).contains(&value) {
                return refused(field, &value, &ByteSize::b(1), &max);
            }
        }
        match (limits.program_cpu, max.program_cpu) {
            (Some(value), max) if value < MIN_TIME || max.is_some_and(|max| value > max) => {
                let max = max.map_or_else(|| "absent".to_owned(), |max| human(max).to_string());
                return refused("program_cpu", &human(value), &human(MIN_TIME), &max);
            }
            (None, Some(max)) => return refused("program_cpu", &"absent", &human(MIN_TIME), &human(max)),
            _ => {}
        }
        if !(0.0..=1.0).contains(&self.float_tolerance) {
            return Err(FieldError::new("float_tolerance", self.float_tolerance, "0 to 1"));
        }
        if self.memory == Some(ByteSize::b(0)) {
            return Err(FieldError::new("memory", ByteSize::b(0), "at least 1B"));
        }
        if max.memory > LimitSettings::MAX.memory {
            let allowed = format!("at most {}: the interpreter has 32-bit addresses", LimitSettings::MAX.memory);
            return Err(FieldError::new("max_limits.memory", max.memory, allowed));
        }
        if self.max_private_tests == ByteSize::b(0) {
            return Err(FieldError::new("max_private_tests", ByteSize::b(0), "at least 1B"));
        }
        // A row may take twice its size while it is decompressed, in addition to the cache.
        let minimum = self.max_private_tests.bytes().saturating_mul(2).saturating_add(self.tests_cache.bytes());
        if self.tests_memory.bytes() < minimum {
            let minimum = ByteSize::b(minimum);
            let allowed = format!("at least tests_cache and twice max_private_tests, which is {minimum}");
            return Err(FieldError::new("tests_memory", self.tests_memory, allowed));
        }
        Ok(())
    }
}
