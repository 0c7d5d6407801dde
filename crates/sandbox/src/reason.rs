//! Reason codes: what exactly led to an outcome.

use crate::outcome::{Invalid, ProgramOutcome};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident: $code:literal, $outcome:expr;)*) => {
        /// What exactly led to an outcome. Every outcome has one or more reasons, and every reason one outcome.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Reason {
            /// All reasons, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Stable code of the reason, for rows, metrics and requests.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// Meaning of the reason, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),+).trim_ascii(),)*
                }
            }

            /// The outcome that the reason belongs to.
            #[must_use]
            pub fn outcome(self) -> ProgramOutcome {
                use ProgramOutcome::{
                    CompileError, Invalid as NoVerdict, MemoryLimit, NoCode, OutputLimit, Pass, RuntimeError, TimeLimit, WrongAnswer,
                };
                match self {
                    $(Self::$name => $outcome,)*
                }
            }
        }
    };
}

reasons! {
    /// Every output is the expected one.
    Passed: "pass", Pass;
    /// Every output is the expected one, some of them within the tolerance of floats.
    PassedWithinTolerance: "pass_within_tolerance", Pass;
    /// A line of standard output differs.
    LineDiffers: "line_differs", WrongAnswer;
    /// There are more or fewer lines than expected.
    LineCountDiffers: "line_count_differs", WrongAnswer;
    /// The returned value differs.
    ValueDiffers: "value_differs", WrongAnswer;
    /// The returned value has no equivalent in JSON.
    NotJson: "not_json", WrongAnswer;
    /// An exception was not caught.
    Exception: "exception", RuntimeError;
    /// The process ended with an exit code other than 0.
    ExitCode: "exit_code", RuntimeError;
    /// The program does not define the function to call.
    NoFunction: "no_function", RuntimeError;
    /// The process ended before the test was over.
    EndedEarly: "ended_early", RuntimeError;
    /// The interpreter or its process crashed.
    Crashed: "crashed", RuntimeError;
    /// The program does not compile.
    SyntaxError: "syntax_error", CompileError;
    /// The program is longer than allowed.
    SourceTooLong: "source_too_long", CompileError;
    /// A test used more time than allowed.
    TimeLimit: "time_limit", TimeLimit;
    /// All tests together used more time than allowed.
    ProgramTimeLimit: "program_time_limit", TimeLimit;
    /// The program used more memory than allowed.
    MemoryLimit: "memory_limit", MemoryLimit;
    /// The program wrote more output than allowed.
    OutputLimit: "output_limit", OutputLimit;
    /// The completion has no fenced block.
    NoBlock: "no_block", NoCode;
    /// The blocks hold nothing, comments, commands, or a session of the interpreter.
    EmptyBlock: "empty_block", NoCode;
    /// All blocks are in other languages.
    OtherLanguage: "other_language", NoCode;
    /// The thinking was never closed.
    UnclosedThinking: "unclosed_thinking", NoCode;
    /// The tests are invalid.
    BadTests: "bad_tests", NoVerdict(Invalid::BadTests);
    /// The machine was too busy.
    Starved: "starved", NoVerdict(Invalid::Starved);
    /// The machine had too little memory.
    InsufficientMemory: "insufficient_memory", NoVerdict(Invalid::InsufficientMemory);
    /// The worker process was ended from outside.
    Lost: "lost", NoVerdict(Invalid::Lost);
    /// The verdict is no longer needed.
    Cancelled: "cancelled", NoVerdict(Invalid::Cancelled);
    /// A defect of this worker.
    Internal: "internal", NoVerdict(Invalid::Internal);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reason_has_its_own_code_and_a_meaning() {
        let codes: HashSet<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        assert_eq!(codes.len(), Reason::ALL.len());
        assert!(Reason::ALL.iter().all(|reason| reason.meaning().ends_with('.')));
    }
}
