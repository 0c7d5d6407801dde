//! By which rules and limits a task wants its program to be run.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::{CodeExtraction, CodeLimits, CodeMode, CodeReward, CodeTask};
use evenkeel_proto::{FieldError, v1};
use evenkeel_sandbox::extract::Extraction;
use evenkeel_sandbox::rows::Tests;
use evenkeel_sandbox::{Answer, Limits, Mode, RewardRule, Task};

use crate::settings::{CodeConfig, LimitsConfig};

/// Least memory of a program: below it the interpreter does not begin.
const MIN_MEMORY_BYTES: u64 = 16 << 20;

/// Everything about a task but its tests and its answer.
#[derive(Debug, PartialEq)]
pub(super) struct Rules {
    mode: Mode,
    limits: Limits,
    extraction: Option<Extraction>,
    reward: RewardRule,
    run_all_tests: bool,
}

impl Rules {
    /// The whole task.
    pub(super) fn over(self, answer: Answer, tests: Arc<Tests>) -> Task {
        let Self { mode, limits, extraction, reward, run_all_tests } = self;
        Task { mode, limits, extraction, reward, run_all_tests, ..Task::new(answer, tests) }
    }
}

/// The value of an enum field, refused where it has no name.
macro_rules! known {
    ($task:ident . $field:ident: $enum:ident) => {
        v1::$enum::try_from($task.$field)
            .map_err(|_| FieldError::new(stringify!($field), $task.$field, concat!("a value of ", stringify!($enum))))?
    };
}

/// The rules of a task; field paths are relative to it.
pub(super) fn rules(task: &CodeTask, config: &CodeConfig) -> Result<Rules, FieldError> {
    let mode = match known!(task.mode: CodeMode) {
        CodeMode::Unspecified => config.mode.into(),
        CodeMode::Strict => Mode::Strict,
        CodeMode::LiveCodeBench => Mode::LiveCodeBench,
    };
    let extraction = match known!(task.extraction: CodeExtraction) {
        CodeExtraction::Unspecified => None,
        CodeExtraction::LiveCodeBench => Some(Extraction::LiveCodeBench),
        CodeExtraction::LastCompleteFence => Some(Extraction::LastCompleteFence),
    };
    let reward = match known!(task.reward: CodeReward) {
        CodeReward::Unspecified | CodeReward::AllOrNothing => RewardRule::AllOrNothing,
        CodeReward::PassedFraction => RewardRule::PassedFraction,
    };
    if mode == Mode::LiveCodeBench && (reward == RewardRule::PassedFraction || task.run_all_tests) {
        let field = if task.run_all_tests { "run_all_tests" } else { "reward" };
        let value = if task.run_all_tests { "true" } else { "PASSED_FRACTION" };
        return Err(FieldError::new(
            field,
            value,
            "only under STRICT: LiveCodeBench's grader stops at the first failure",
        ));
    }
    let asked = task.limits.unwrap_or_default();
    let limits = limits(&asked, config).map_err(|error| error.within("limits"))?;
    Ok(Rules { mode, limits, extraction, reward, run_all_tests: task.run_all_tests })
}

fn limits(asked: &CodeLimits, config: &CodeConfig) -> Result<Limits, FieldError> {
    let LimitsConfig { cpu_ms, program_cpu_ms, wall_ms, memory_bytes, output_bytes, source_bytes } = config.limits;
    let max = &config.max_limits;
    let within = |field: &str, asked: Option<u64>, usual: u64, least: u64, most: u64| match asked {
        None => Ok(usual),
        Some(value) if (least..=most).contains(&value) => Ok(value),
        Some(value) => Err(FieldError::new(field, value, format!("{least} to {most}"))),
    };
    let most = if max.program_cpu_ms == 0 { u64::MAX } else { max.program_cpu_ms };
    let program_cpu = match within("program_cpu_ms", asked.program_cpu_ms, program_cpu_ms, 1, most)? {
        0 => None,
        ms => Some(Duration::from_millis(ms)),
    };
    Ok(Limits {
        program_cpu,
        cpu: Duration::from_millis(within("cpu_ms", asked.cpu_ms, cpu_ms, 1, max.cpu_ms)?),
        wall: Duration::from_millis(within("wall_ms", asked.wall_ms, wall_ms, 1, max.wall_ms)?),
        memory_bytes: within("memory_bytes", asked.memory_bytes, memory_bytes, MIN_MEMORY_BYTES, max.memory_bytes)?,
        output_bytes: within("output_bytes", asked.output_bytes, output_bytes, 0, max.output_bytes)?,
        source_bytes: within("source_bytes", asked.source_bytes, source_bytes, 1, max.source_bytes)?,
        deterministic: asked.deterministic.unwrap_or(config.deterministic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ModeConfig;

    fn asked(task: CodeTask) -> Result<Rules, String> {
        rules(&task, &CodeConfig::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_task_without_wishes_has_the_workers_rules_and_the_librarys_limits() {
        let rules = asked(CodeTask::default()).unwrap();
        assert_eq!((rules.mode, rules.limits), (Mode::Strict, Limits::default()));
        let config = CodeConfig { mode: ModeConfig::Livecodebench, deterministic: true, ..CodeConfig::default() };
        let rules = super::rules(&CodeTask::default(), &config).unwrap();
        assert_eq!((rules.mode, rules.limits.deterministic), (Mode::LiveCodeBench, true));
    }

    #[test]
    fn a_limit_above_the_workers_maximum_is_refused() {
        let limits = CodeLimits { cpu_ms: Some(2000), output_bytes: Some(10), ..CodeLimits::default() };
        let rules = asked(CodeTask { limits: Some(limits), ..CodeTask::default() }).unwrap();
        assert_eq!((rules.limits.cpu, rules.limits.output_bytes), (Duration::from_secs(2), 10));
        assert_eq!(rules.limits.program_cpu, None);
        let limits = CodeLimits { program_cpu_ms: Some(90_000), ..CodeLimits::default() };
        let rules = asked(CodeTask { limits: Some(limits), ..CodeTask::default() }).unwrap();
        assert_eq!(rules.limits.program_cpu, Some(Duration::from_secs(90)));
        let refused = |limits| asked(CodeTask { limits: Some(limits), ..CodeTask::default() }).unwrap_err();
        assert_eq!(
            refused(CodeLimits { cpu_ms: Some(60_001), ..CodeLimits::default() }),
            "limits.cpu_ms is 60001, allowed: 1 to 60000"
        );
        assert_eq!(
            refused(CodeLimits { memory_bytes: Some(1), ..CodeLimits::default() }),
            "limits.memory_bytes is 1, allowed: 16777216 to 3221225472"
        );
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        assert_eq!(
            asked(CodeTask { mode: 9, ..CodeTask::default() }).unwrap_err(),
            "mode is 9, allowed: a value of CodeMode"
        );
        let fraction = CodeReward::PassedFraction.into();
        let mode = CodeMode::LiveCodeBench.into();
        let error = asked(CodeTask { mode, reward: fraction, ..CodeTask::default() }).unwrap_err();
        assert!(error.starts_with("reward is PASSED_FRACTION, allowed: only under STRICT"), "{error}");
    }
}
