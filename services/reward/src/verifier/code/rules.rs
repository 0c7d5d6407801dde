//! Rules and limits of a task, with the defaults and maxima of the worker.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_config::ByteSize;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{CodeExtraction, CodeLimits, CodeMode, CodeReward, CodeTask};
use evenkeel_sandbox::compare::Tolerance;
use evenkeel_sandbox::extract::Extraction;
use evenkeel_sandbox::rows::Tests;
use evenkeel_sandbox::{Mode, ProgramLimits, ProgramSubmission, ProgramTask, RewardRule};

use super::super::known::known;
use crate::settings::CodeSettings;

/// Minimum memory of a program: with less the interpreter does not start.
const MIN_MEMORY: ByteSize = ByteSize::mib(16);

/// A task without its tests and its submission.
#[derive(Debug, PartialEq)]
pub(super) struct Rules {
    mode: Mode,
    limits: ProgramLimits,
    extraction: Option<Extraction>,
    reward: RewardRule,
    run_all_tests: bool,
    tolerance: Tolerance,
}

impl Rules {
    pub(super) fn task(self, submission: ProgramSubmission, tests: Arc<Tests>) -> ProgramTask {
        let Self { mode, limits, extraction, reward, run_all_tests, tolerance } = self;
        ProgramTask {
            mode,
            limits,
            extraction,
            reward,
            run_all_tests,
            tolerance,
            ..ProgramTask::new(submission, tests)
        }
    }
}

/// The rules of a task. Field paths are relative to the task.
pub(super) fn rules(task: &CodeTask, settings: &CodeSettings) -> Result<Rules, FieldError> {
    let mode = match known!(task.mode: CodeMode) {
        CodeMode::Unspecified => settings.mode.into(),
        CodeMode::Strict => Mode::Strict,
        CodeMode::LiveCodeBench => Mode::LiveCodeBench,
    };
    let extraction = match known!(task.extraction: CodeExtraction) {
        CodeExtraction::Unspecified => None,
        CodeExtraction::LiveCodeBench => Some(Extraction::LiveCodeBench),
        CodeExtraction::LastProgram => Some(Extraction::LastProgram),
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
    let requested = task.limits.unwrap_or_default();
    let limits = limits(&requested, settings).map_err(|error| error.within("limits"))?;
    let tolerance = task.float_tolerance.unwrap_or(settings.float_tolerance);
    if !(0.0..=1.0).contains(&tolerance) {
        return Err(FieldError::new("float_tolerance", tolerance, "0 to 1"));
    }
    let run_all_tests = task.run_all_tests;
    Ok(Rules { mode, limits, extraction, reward, run_all_tests, tolerance: Tolerance(tolerance) })
}

fn limits(requested: &CodeLimits, settings: &CodeSettings) -> Result<ProgramLimits, FieldError> {
    let default = &settings.limits;
    let max = &settings.max_limits;
    let program_cpu = match requested.program_cpu_ms {
        None => default.program_cpu,
        ms => Some(duration("program_cpu_ms", ms, Duration::ZERO, max.program_cpu.unwrap_or(Duration::MAX))?),
    };
    Ok(ProgramLimits {
        cpu: duration("cpu_ms", requested.cpu_ms, default.cpu, max.cpu)?,
        program_cpu,
        wall: duration("wall_ms", requested.wall_ms, default.wall, max.wall)?,
        memory_bytes: size("memory_bytes", requested.memory_bytes, default.memory, MIN_MEMORY, max.memory)?,
        output_bytes: size("output_bytes", requested.output_bytes, default.output, ByteSize::b(0), max.output)?,
        source_bytes: size("source_bytes", requested.source_bytes, default.source, ByteSize::b(1), max.source)?,
        deterministic: requested.deterministic.unwrap_or(settings.deterministic),
    })
}

/// An amount of memory between what the interpreter needs and what is allowed.
pub(super) fn memory_of(bytes: u64, max: ByteSize) -> u64 {
    bytes.max(MIN_MEMORY.bytes()).min(max.bytes())
}

/// A requested number of milliseconds, or the default.
fn duration(field: &str, requested: Option<u64>, default: Duration, max: Duration) -> Result<Duration, FieldError> {
    let Some(milliseconds) = requested else { return Ok(default) };
    let max = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
    within(field, milliseconds, 1, max).map(Duration::from_millis)
}

/// A requested number of bytes, or the default.
fn size(
    field: &str,
    requested: Option<u64>,
    default: ByteSize,
    min: ByteSize,
    max: ByteSize,
) -> Result<u64, FieldError> {
    requested.map_or(Ok(default.bytes()), |bytes| within(field, bytes, min.bytes(), max.bytes()))
}

fn within(field: &str, value: u64, min: u64, max: u64) -> Result<u64, FieldError> {
    if (min..=max).contains(&value) { Ok(value) } else { Err(FieldError::new(field, value, format!("{min} to {max}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ModeSetting;

    fn rules_of(task: CodeTask) -> Result<Rules, String> {
        rules(&task, &CodeSettings::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_task_without_settings_has_the_workers_rules_and_the_librarys_limits() {
        let rules = rules_of(CodeTask::default()).unwrap();
        assert_eq!((rules.mode, rules.limits), (Mode::Strict, ProgramLimits::default()));
        let settings =
            CodeSettings { mode: ModeSetting::Livecodebench, deterministic: true, ..CodeSettings::default() };
        let rules = super::rules(&CodeTask::default(), &settings).unwrap();
        assert_eq!((rules.mode, rules.limits.deterministic), (Mode::LiveCodeBench, true));
    }

    #[test]
    fn a_limit_above_the_workers_maximum_is_refused() {
        let limits = CodeLimits { cpu_ms: Some(2000), output_bytes: Some(10), ..CodeLimits::default() };
        let rules = rules_of(CodeTask { limits: Some(limits), ..CodeTask::default() }).unwrap();
        assert_eq!((rules.limits.cpu, rules.limits.output_bytes), (Duration::from_secs(2), 10));
        assert_eq!(rules.limits.program_cpu, None);
        let limits = CodeLimits { program_cpu_ms: Some(90_000), ..CodeLimits::default() };
        let rules = rules_of(CodeTask { limits: Some(limits), ..CodeTask::default() }).unwrap();
        assert_eq!(rules.limits.program_cpu, Some(Duration::from_secs(90)));
        let refused = |limits| rules_of(CodeTask { limits: Some(limits), ..CodeTask::default() }).unwrap_err();
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
    fn a_task_may_set_the_tolerance_of_floats() {
        assert_eq!(rules_of(CodeTask::default()).unwrap().tolerance, Tolerance::default());
        let with_tolerance = |tolerance| rules_of(CodeTask { float_tolerance: Some(tolerance), ..CodeTask::default() });
        assert_eq!(with_tolerance(0.0).unwrap().tolerance, Tolerance::EXACT);
        for refused in [-1.0, 1.5, f64::NAN] {
            assert_eq!(with_tolerance(refused).unwrap_err(), format!("float_tolerance is {refused}, allowed: 0 to 1"));
        }
    }

    #[test]
    fn unknown_values_are_refused_by_name() {
        assert_eq!(
            rules_of(CodeTask { mode: 9, ..CodeTask::default() }).unwrap_err(),
            "mode is 9, allowed: a value of CodeMode"
        );
        let fraction = CodeReward::PassedFraction.into();
        let mode = CodeMode::LiveCodeBench.into();
        let error = rules_of(CodeTask { mode, reward: fraction, ..CodeTask::default() }).unwrap_err();
        assert!(error.starts_with("reward is PASSED_FRACTION, allowed: only under STRICT"), "{error}");
    }
}
