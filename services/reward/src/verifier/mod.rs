//! Verifies single items. Equal items have equal verdicts on every worker.

mod code;
mod known;
mod math;

use std::panic::{AssertUnwindSafe, catch_unwind};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    CodeTask, FieldViolation, InvalidReason, MathTask, Verdict, VerifyItem, verify_item::Answer, verify_item::Task,
};
use evenkeel_sandbox::{ProgramLimits, ProgramTask, ProgramVerdict};
use tokio_util::sync::CancellationToken;

use crate::settings::RewardSettings;
use code::CodeVerifier;
use math::MathVerifier;

pub(crate) use code::NotSubmitted;
pub use code::{ReadProgram, SandboxError, WorkerProcesses};

/// Verifies items. Can be used without a server.
pub struct Verifier {
    worker: String,
    max_completion_bytes: usize,
    max_field_bytes: usize,
    math: MathVerifier,
    code: CodeVerifier,
}

/// A valid item, by the kind of its task.
pub enum Work {
    /// A mathematical answer for [`Verifier::math`], which takes CPU time in proportion to its length.
    Math(MathWork),
    /// A program for [`Verifier::code`], which runs it.
    Code(CodeWork),
}

/// A mathematical answer to judge.
pub struct MathWork {
    id: String,
    answer: Answer,
    task: MathTask,
}

/// A program to judge.
pub struct CodeWork {
    id: String,
    answer: Answer,
    task: CodeTask,
}

impl MathWork {
    /// Whether judging takes less time than handing it to another thread and back: the answer and what it is compared
    /// with are short.
    pub(crate) fn is_short(&self) -> bool {
        let (Answer::Completion(answer) | Answer::Extracted(answer)) = &self.answer;
        let golds = self.task.alternatives.iter().map(String::len).sum::<usize>() + self.task.gold.len();
        let prompt = self.task.prompt.as_ref().map_or(0, String::len);
        answer.len() + golds + prompt <= SHORT_TEXT
    }
}

impl Verifier {
    /// A verifier with the settings of a worker, which must be valid. Programs run in worker processes if `processes`
    /// tells how to start them, and otherwise on threads, at half the speed.
    pub fn new(settings: &RewardSettings, processes: Option<WorkerProcesses>) -> Self {
        Self {
            worker: settings.name.clone(),
            max_completion_bytes: settings.max_completion.bytes_usize(),
            max_field_bytes: settings.max_field.bytes_usize(),
            math: MathVerifier::new(settings),
            code: CodeVerifier::new(settings, processes),
        }
    }

    /// Prepares the sandbox, unless it is ready or turned off. If the machine does not have the interpreter yet, this
    /// takes a minute. `progress` is called before every slow step.
    ///
    /// # Errors
    /// What is missing on this machine.
    pub fn prepare_sandbox(&self, progress: &dyn Fn(&str)) -> Result<(), SandboxError> {
        self.code.prepare(progress)
    }

    /// Whether the settings enable programs.
    pub fn verifies_code(&self) -> bool {
        self.code.is_on()
    }

    /// Checks the fields that every item needs.
    ///
    /// # Errors
    /// The verdict on an invalid item.
    pub fn accept(&self, item: VerifyItem) -> Result<Work, Box<Verdict>> {
        self.checked(item).map_err(|verdict| Box::new(self.with_worker(*verdict)))
    }

    fn checked(&self, item: VerifyItem) -> Result<Work, Box<Verdict>> {
        let VerifyItem { id, answer, task, opened_thinking, .. } = item;
        let Some(answer) = answer else {
            return Err(Box::new(Verdict::refused(id, FieldError::missing("answer", "completion or extracted"))));
        };
        let (field, text, max) = match &answer {
            Answer::Completion(text) => ("completion", text, self.max_completion_bytes),
            Answer::Extracted(text) => ("extracted", text, self.max_field_bytes),
        };
        fits(&id, field, text.len(), max)?;
        let answer = with_thinking(answer, opened_thinking);
        match task {
            None => Err(Box::new(Verdict::refused(id, FieldError::missing("task", "math, code or custom")))),
            Some(Task::Math(task)) => {
                fits(&id, "math.gold", task.gold.len(), self.max_field_bytes)?;
                fits(&id, "math.prompt", task.prompt.as_ref().map_or(0, String::len), self.max_field_bytes)?;
                if task.alternatives.len() > MAX_ALTERNATIVES {
                    let count = task.alternatives.len();
                    let allowed = format!("at most {MAX_ALTERNATIVES}");
                    let error = FieldError::new("math.alternatives", format_args!("{count} gold answers"), allowed);
                    return Err(Box::new(Verdict::refused(id, error)));
                }
                for gold in &task.alternatives {
                    fits(&id, "math.alternatives", gold.len(), self.max_field_bytes)?;
                }
                Ok(Work::Math(MathWork { id, answer, task }))
            }
            Some(Task::Code(task)) => Ok(Work::Code(CodeWork { id, answer, task })),
            Some(Task::Custom(task)) => {
                let detail = format!("the verifier `{}` is not known here", cut(task.verifier, MAX_LOGGED));
                Err(Box::new(Verdict::invalid(id, InvalidReason::Unimplemented, detail)))
            }
        }
    }

    /// Judges a mathematical answer, without a clock and without state.
    ///
    /// A panic results in the verdict INVALID with reason INTERNAL, for this item alone.
    pub fn math(&self, work: MathWork) -> Verdict {
        let id = work.id.clone();
        self.with_worker(catch_panic(&id, || self.math.verdict(work)))
    }

    /// Whether the tests are cached or small, so that [`Self::read_code`] is fast.
    pub fn has_tests(&self, work: &CodeWork) -> bool {
        self.code.has_tests(work)
    }

    /// Reads a program and its tests. This may take seconds and much memory, and should be called for one program at a
    /// time. Can be cancelled.
    ///
    /// # Errors
    /// The verdict if there is nothing to run.
    pub fn read_code(&self, work: CodeWork, cancel: &CancellationToken) -> Result<ReadProgram, Box<Verdict>> {
        self.code.read(work, cancel).map_err(|verdict| Box::new(self.with_worker(*verdict)))
    }

    /// Submits a program to the sandbox. Blocks while the sandbox is being prepared. `done` is called once with the
    /// verdict, by this function or on a thread of the sandbox; it must not block. Cancelling ends the program at once.
    pub fn run_code(
        &self,
        program: ReadProgram,
        cancel: CancellationToken,
        done: impl FnOnce(Verdict) + Send + 'static,
    ) {
        let worker = self.worker.clone();
        self.code.submit(program, cancel, move |verdict| done(Verdict { worker, ..verdict }));
    }

    /// [`Self::read_code`] followed by [`Self::run_code`].
    pub fn code(&self, work: CodeWork, cancel: CancellationToken, done: impl FnOnce(Verdict) + Send + 'static) {
        match self.read_code(work, &cancel) {
            Ok(program) => self.run_code(program, cancel, done),
            Err(verdict) => done(*verdict),
        }
    }

    /// The limits on a program that names only its memory in bytes: the highest that the settings allow.
    pub(crate) fn limits_up_to(&self, memory: Option<u64>) -> ProgramLimits {
        self.code.limits_up_to(memory)
    }

    /// Submits a program that is not an item. Blocks while the sandbox is being prepared. `done` is called once, on a
    /// thread of the sandbox, unless this fails; it must not block. Cancelling ends the program at once.
    ///
    /// # Errors
    /// Why the program was not submitted.
    pub(crate) fn run_program(
        &self,
        task: ProgramTask,
        cancel: CancellationToken,
        done: impl FnOnce(ProgramVerdict) + Send + 'static,
    ) -> Result<(), NotSubmitted> {
        self.code.run_program(task, cancel, done)
    }

    /// Judges an item and waits for the verdict.
    pub fn verdict(&self, item: VerifyItem) -> Verdict {
        match self.accept(item) {
            Err(verdict) => *verdict,
            Ok(Work::Math(work)) => self.math(work),
            Ok(Work::Code(work)) => {
                let id = work.id.clone();
                let (sender, receiver) = std::sync::mpsc::sync_channel(1);
                self.code(work, CancellationToken::new(), move |verdict| {
                    // The receiver waits below.
                    let _ = sender.send(verdict);
                });
                let no_verdict =
                    || self.with_worker(Verdict::invalid(id, InvalidReason::Internal, "the sandbox gave no verdict"));
                receiver.recv().unwrap_or_else(|_| no_verdict())
            }
        }
    }

    fn with_worker(&self, verdict: Verdict) -> Verdict {
        Verdict { worker: self.worker.clone(), ..verdict }
    }
}

/// The verdict, or INVALID after a panic. Judging changes no state, so the verifier can be used again.
fn catch_panic(id: &str, verify: impl FnOnce() -> Verdict) -> Verdict {
    catch_unwind(AssertUnwindSafe(verify)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("without a message");
        tracing::error!(id = ?cut(id, MAX_LOGGED), panic = ?cut(text, MAX_LOGGED), "judging an item failed");
        Verdict::invalid(id, InvalidReason::Internal, "the verifier failed unexpectedly")
    })
}

/// Longest text that is judged in place, in bytes: it takes about ten microseconds, in rare cases a few milliseconds.
const SHORT_TEXT: usize = 2 << 10;
/// Most alternative gold answers, so that a check takes milliseconds.
const MAX_ALTERNATIVES: usize = 100;
/// Longest untrusted text in a log message, in bytes.
const MAX_LOGGED: usize = 200;

/// An answer with the thinking that the template opened before it.
pub(crate) fn with_thinking(answer: Answer, is_opened: bool) -> Answer {
    match answer {
        Answer::Completion(text) if is_opened => Answer::Completion(format!("<think>{text}")),
        answer => answer,
    }
}

/// INVALID if a field is longer than this worker accepts. The text itself is not repeated.
fn fits(id: &str, field: &str, length: usize, max: usize) -> Result<(), Box<Verdict>> {
    if length <= max {
        return Ok(());
    }
    let error = FieldError::new(field, format_args!("{length} bytes"), format!("at most {max} bytes"));
    let invalid = Verdict::invalid(id, InvalidReason::TooLarge, error.to_string());
    Err(Box::new(Verdict { violations: vec![FieldViolation::from(error)], ..invalid }))
}

/// Truncates a text for a verdict.
fn cut(text: impl Into<String> + AsRef<str>, max_bytes: usize) -> String {
    const ELLIPSIS: char = '…';
    if text.as_ref().len() <= max_bytes {
        return text.into();
    }
    let end = text.as_ref().floor_char_boundary(max_bytes - ELLIPSIS.len_utf8());
    let mut cut = text.as_ref()[..end].to_owned();
    cut.push(ELLIPSIS);
    cut
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::Outcome;

    use super::*;

    #[test]
    fn a_panic_affects_only_its_own_item() {
        let right = || Verdict::judged("a", Outcome::Correct, "equal_integer", 1.0);
        assert_eq!(catch_panic("a", right), right());
        for verify in
            [|| panic!("byte index 1 is not a char boundary"), || panic!("{}", "of 5"), || std::panic::panic_any(5)]
        {
            let verdict = catch_panic("b", verify);
            assert_eq!((verdict.id.as_str(), verdict.reason_code.as_str(), verdict.reward), ("b", "internal", None));
            assert_eq!((verdict.outcome(), verdict.invalid_reason()), (Outcome::Invalid, InvalidReason::Internal));
            assert_eq!(verdict.validate(), Ok(()));
        }
    }

    #[test]
    fn long_texts_are_truncated_between_characters() {
        assert_eq!(cut("short", 16), "short");
        assert_eq!(cut("ä".repeat(100), 16), format!("{}…", "ä".repeat(6)));
    }
}
