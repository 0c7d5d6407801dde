//! Settings `reward.code`: the sandbox, and what a program may use.

use std::path::PathBuf;

use evenkeel_proto::FieldError;
use evenkeel_sandbox::rows::MAX_PRIVATE_BYTES;
use evenkeel_sandbox::{Limits, Mode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_THREADS;

/// How programs are judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CodeConfig {
    /// When the sandbox is made ready.
    pub sandbox: SandboxStart,
    /// Where the interpreter lies or is put [default: EVENKEEL_GUEST_DIR, or `evenkeel` in the user's cache folder].
    pub guest_dir: Option<PathBuf>,
    /// Tests that run at once, beside threads that judge mathematics; 0 takes as many as the machine has. As many again may go on that
    /// have run for more than a second.
    pub threads: usize,
    /// Bytes of memory that all programs together may have [default: nine tenths of what the machine or its control group has left].
    pub memory_bytes: Option<u64>,
    /// Rules of tasks that name none.
    pub mode: ModeConfig,
    /// What one test may use where the task does not say.
    pub limits: LimitsConfig,
    /// What a task may ask for.
    pub max_limits: LimitsConfig,
    /// Count instructions instead of time where the task does not say.
    pub deterministic: bool,
    /// What a program is worth that needs what the sandbox lacks (numpy, a length of 64 bits).
    pub unsupported: UnsupportedConfig,
    /// Most bytes that the private tests of one LiveCodeBench row may inflate to, and most that tests may hold once they are read.
    pub max_private_bytes: usize,
    /// Bytes that all tests together may hold, whether kept, in work or being unpacked. A row that finds no room is answered OVERLOADED.
    pub max_tests_bytes: usize,
    /// Bytes of tests that are kept for tasks that name them by their digest.
    pub tests_cache_bytes: u64,
}

/// When the sandbox is made ready.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxStart {
    /// When the first program comes.
    #[default]
    OnFirstUse,
    /// Before anything is served; what is missing is then an error of the start.
    AtStart,
    /// Never: programs are answered UNIMPLEMENTED.
    Off,
}

/// What a program is worth that needs what the sandbox lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnsupportedConfig {
    /// What any other that raises is worth.
    #[default]
    Wrong,
    /// Nothing: INVALID, and left out. A policy can learn to fail that way on purpose.
    Invalid,
}

/// Which rules a program is run under.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeConfig {
    /// As a process of its own would run.
    #[default]
    Strict,
    /// As LiveCodeBench's grader judges, oddities included and holes closed.
    Livecodebench,
}

impl From<ModeConfig> for Mode {
    fn from(mode: ModeConfig) -> Self {
        match mode {
            ModeConfig::Strict => Self::Strict,
            ModeConfig::Livecodebench => Self::LiveCodeBench,
        }
    }
}

/// What one test may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// CPU time, milliseconds.
    pub cpu_ms: u64,
    /// CPU time of a program over all its tests, milliseconds; 0 for any.
    pub program_cpu_ms: u64,
    /// Wall time, milliseconds: a backstop, after which there is no verdict.
    pub wall_ms: u64,
    /// Memory above the interpreter's own.
    pub memory_bytes: u64,
    /// Standard output and standard error together.
    pub output_bytes: u64,
    /// Length of the program.
    pub source_bytes: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let Limits { cpu, program_cpu, wall, memory_bytes, output_bytes, source_bytes, .. } = Limits::default();
        let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let program_cpu_ms = program_cpu.map_or(0, ms);
        Self { cpu_ms: ms(cpu), program_cpu_ms, wall_ms: ms(wall), memory_bytes, output_bytes, source_bytes }
    }
}

impl LimitsConfig {
    /// What the largest worker takes: the interpreter has addresses of 32 bits.
    const MOST: Self = Self {
        cpu_ms: 60_000,
        program_cpu_ms: 0,
        wall_ms: 600_000,
        memory_bytes: 3 << 30,
        output_bytes: 64 << 20,
        source_bytes: 1 << 20,
    };
}

impl Default for CodeConfig {
    fn default() -> Self {
        Self {
            sandbox: SandboxStart::default(),
            guest_dir: None,
            threads: 0,
            memory_bytes: None,
            mode: ModeConfig::default(),
            limits: LimitsConfig::default(),
            max_limits: LimitsConfig::MOST,
            deterministic: false,
            unsupported: UnsupportedConfig::default(),
            max_private_bytes: MAX_PRIVATE_BYTES,
            max_tests_bytes: 3 << 30,
            tests_cache_bytes: 1 << 30,
        }
    }
}

impl CodeConfig {
    /// The settings that decide verdicts; all others as by default.
    pub(super) fn rules(&self) -> Self {
        let Self { mode, limits, max_limits, deterministic, unsupported, max_private_bytes, .. } = *self;
        Self { mode, limits, max_limits, deterministic, unsupported, max_private_bytes, ..Self::default() }
    }

    /// Threads, with the machine's own number in place of 0.
    pub(crate) fn thread_count(&self) -> usize {
        super::thread_count(self.threads)
    }

    pub(super) fn validate(&self) -> Result<(), FieldError> {
        if self.threads > MAX_THREADS {
            let allowed = format!("0 (as many as the machine has) to {MAX_THREADS}");
            return Err(FieldError::new("threads", self.threads, allowed));
        }
        let (limits, most) = (&self.limits, &self.max_limits);
        for (field, value, most) in [
            ("cpu_ms", limits.cpu_ms, most.cpu_ms),
            ("wall_ms", limits.wall_ms, most.wall_ms),
            ("memory_bytes", limits.memory_bytes, most.memory_bytes),
            ("output_bytes", limits.output_bytes, most.output_bytes),
            ("source_bytes", limits.source_bytes, most.source_bytes),
        ] {
            if value == 0 || value > most {
                let allowed = format!("1 to max_limits.{field}, which is {most}");
                return Err(FieldError::new(format!("limits.{field}"), value, allowed));
            }
        }
        if most.program_cpu_ms != 0 && !(1..=most.program_cpu_ms).contains(&limits.program_cpu_ms) {
            let allowed = format!("1 to max_limits.program_cpu_ms, which is {}", most.program_cpu_ms);
            return Err(FieldError::new("limits.program_cpu_ms", limits.program_cpu_ms, allowed));
        }
        if self.memory_bytes == Some(0) {
            return Err(FieldError::new("memory_bytes", 0, "at least 1"));
        }
        if most.memory_bytes > LimitsConfig::MOST.memory_bytes {
            let allowed =
                format!("at most {}: the interpreter has addresses of 32 bits", LimitsConfig::MOST.memory_bytes);
            return Err(FieldError::new("max_limits.memory_bytes", most.memory_bytes, allowed));
        }
        if self.max_private_bytes == 0 {
            return Err(FieldError::new("max_private_bytes", 0, "at least 1"));
        }
        // A row counts twice while it is unpacked, beside what is kept.
        let least = self.max_private_bytes.saturating_mul(2).saturating_add(self.tests_cache_bytes as usize);
        if self.max_tests_bytes < least {
            let allowed = format!("at least tests_cache_bytes and twice max_private_bytes, which is {least}");
            return Err(FieldError::new("max_tests_bytes", self.max_tests_bytes, allowed));
        }
        Ok(())
    }
}
