//! Short names of enum values (`correct` for `OUTCOME_CORRECT`), for metrics, JSON, logs and messages.

use crate::v1;

/// An enum of the protocol whose values have a short name.
pub trait Label: Copy + Sized + 'static {
    /// Every value, in order of their numbers.
    const ALL: &'static [Self];

    /// The value's name without the enum's prefix, in lower case.
    fn label(self) -> &'static str;

    /// The value of that name. `None` where there is none.
    fn from_label(label: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.label() == label)
    }
}

macro_rules! labels {
    ($($name:ident { $($value:ident => $label:literal),+ $(,)? })+) => {
        $(impl Label for v1::$name {
            const ALL: &'static [Self] = &[$(Self::$value),+];

            fn label(self) -> &'static str {
                match self { $(Self::$value => $label),+ }
            }
        })+

        $(impl v1::$name {
            /// Every value but UNSPECIFIED, in order of their numbers.
            pub const SPECIFIED: &'static [Self] = Self::ALL.split_at(1).1;

            /// Their labels.
            pub const SPECIFIED_LABELS: &'static [&'static str] = [$($label),+].as_slice().split_at(1).1;
        })+

        #[cfg(test)]
        mod tests {
            use super::*;

            #[test]
            fn labels_are_the_names_of_the_proto_files() {
                $(
                    let prefix = v1::$name::Unspecified.as_str_name().strip_suffix("UNSPECIFIED").unwrap();
                    let specified: Vec<_> = v1::$name::SPECIFIED.iter().map(|value| value.label()).collect();
                    assert_eq!(v1::$name::SPECIFIED_LABELS, specified);
                    for (number, value) in v1::$name::ALL.iter().enumerate() {
                        assert_eq!(*value as usize, number);
                        assert_eq!(value.as_str_name(), format!("{prefix}{}", value.label().to_uppercase()));
                        assert_eq!(v1::$name::from_label(value.label()), Some(*value));
                    }
                    assert!(v1::$name::try_from(v1::$name::ALL.len() as i32).is_err(), "a value has no label");
                    assert_eq!(v1::$name::from_label("no such name"), None);
                )+
            }
        }
    };
}

labels! {
    SegmentSource { Unspecified => "unspecified", Sampled => "sampled", Injected => "injected" }
    FinishReason {
        Unspecified => "unspecified", Stop => "stop", Length => "length", Repetition => "repetition",
        Aborted => "aborted", Cancelled => "cancelled", Deadline => "deadline", Failed => "failed",
    }
    FailureCode {
        Unspecified => "unspecified", InvalidArgument => "invalid_argument",
        FailedPrecondition => "failed_precondition", NotFound => "not_found", ResourceExhausted => "resource_exhausted",
        Unavailable => "unavailable", DeadlineExceeded => "deadline_exceeded", Cancelled => "cancelled",
        Unimplemented => "unimplemented", Internal => "internal",
    }
    LogProbabilityMode { Unspecified => "unspecified", Raw => "raw", Processed => "processed" }
    PauseMode { Unspecified => "unspecified", Abort => "abort", Wait => "wait", Keep => "keep" }
    EngineUpdateOutcome { Unspecified => "unspecified", Updated => "updated", Current => "current", Failed => "failed" }
    EngineHealth {
        Unspecified => "unspecified", Healthy => "healthy", Suspect => "suspect", CircuitOpen => "circuit_open",
        Paused => "paused", Stale => "stale", Draining => "draining",
    }
    Outcome {
        Unspecified => "unspecified", Correct => "correct", Incorrect => "incorrect", NoAnswer => "no_answer",
        Undecided => "undecided", WrongAnswer => "wrong_answer", RuntimeError => "runtime_error",
        CompileError => "compile_error", TimeLimit => "time_limit", MemoryLimit => "memory_limit",
        OutputLimit => "output_limit", Invalid => "invalid", Scored => "scored",
    }
    InvalidReason {
        Unspecified => "unspecified", BadGold => "bad_gold", BadTests => "bad_tests", UnknownTests => "unknown_tests",
        BadRequest => "bad_request", TooLarge => "too_large", Overloaded => "overloaded", Draining => "draining",
        Deadline => "deadline", Cancelled => "cancelled", WorkerLost => "worker_lost", Unimplemented => "unimplemented",
        Internal => "internal", AttemptsExhausted => "attempts_exhausted",
    }
    CodeMode { Unspecified => "unspecified", Strict => "strict", LiveCodeBench => "live_code_bench" }
    CodeTestKind { Unspecified => "unspecified", Stdin => "stdin", Functional => "functional" }
    TrainKind { Unspecified => "unspecified", Grpo => "grpo", Supervised => "supervised" }
    TrainPhase {
        Unspecified => "unspecified", Receiving => "receiving", Scoring => "scoring", Accumulating => "accumulating",
        Updating => "updating",
    }
    LearnerState {
        Unspecified => "unspecified", Idle => "idle", Training => "training", Scoring => "scoring", Writing => "writing",
    }
    RunState {
        Unspecified => "unspecified", Starting => "starting", WarmStart => "warm_start", Training => "training",
        Evaluating => "evaluating", Waiting => "waiting", Stopping => "stopping", Completed => "completed",
        Stopped => "stopped", Failed => "failed",
    }
    CloseReason { Unspecified => "unspecified", Budget => "budget", Cancelled => "cancelled" }
    MessageRole { Unspecified => "unspecified", User => "user", Tool => "tool" }
    EpisodeFailure {
        Unspecified => "unspecified", Overloaded => "overloaded", TaskInvalid => "task_invalid", Timeout => "timeout",
        Refused => "refused", Crashed => "crashed", Internal => "internal",
    }
    StepKind {
        Unspecified => "unspecified", WarmStart => "warm_start", Train => "train", Evaluation => "evaluation", Progress => "progress",
    }
}
