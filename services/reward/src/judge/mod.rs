//! The verdict on one item: the same item has the same verdict on every worker.

mod code;
mod math;

use std::panic::{AssertUnwindSafe, catch_unwind};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    CodeTask, FieldViolation, InvalidReason, MathTask, Verdict, VerifyItem, verify_item::Answer, verify_item::Task,
};

use crate::settings::RewardConfig;
use code::CodeJudge;
use math::MathJudge;

pub use code::{Cells, ReadProgram};
pub use evenkeel_sandbox::Cancel;

/// Gives verdicts. Useful without a server, too.
pub struct Judge {
    worker: String,
    max_completion_bytes: usize,
    max_field_bytes: usize,
    math: MathJudge,
    code: CodeJudge,
}

/// An item that has what every item needs, by what it takes to judge it.
pub enum Work {
    /// CPU time in proportion to the length of the item, and nothing else: [`Judge::math`].
    Math(MathWork),
    /// A program to run: [`Judge::code`].
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

impl Judge {
    /// With the settings of a worker, which must have been checked. Programs run in processes beside this one where it is said how
    /// such a process is started, and otherwise, at half the speed, on threads.
    pub fn new(config: &RewardConfig, cells: Option<Cells>) -> Self {
        Self {
            worker: config.name.clone(),
            max_completion_bytes: config.max_completion_bytes,
            max_field_bytes: config.max_field_bytes,
            math: MathJudge::new(config),
            code: CodeJudge::new(config, cells),
        }
    }

    /// Makes the sandbox for programs ready, which takes a minute where the machine has never had it. `progress` is told of every
    /// step that takes long. Nothing happens where it is ready, or turned off.
    ///
    /// # Errors
    /// Says what is missing on this machine.
    pub fn prepare_sandbox(&self, progress: &dyn Fn(&str)) -> Result<(), String> {
        self.code.prepare(progress)
    }

    /// Whether programs are judged, as the settings have it.
    pub fn judges_code(&self) -> bool {
        self.code.is_on()
    }

    /// Looks at what every item needs.
    ///
    /// # Errors
    /// The verdict on an item that lacks it.
    pub fn accept(&self, item: VerifyItem) -> Result<Work, Box<Verdict>> {
        self.sorted(item).map_err(|verdict| Box::new(self.signed(*verdict)))
    }

    fn sorted(&self, item: VerifyItem) -> Result<Work, Box<Verdict>> {
        let VerifyItem { id, answer, task, .. } = item;
        let Some(answer) = answer else {
            return Err(Box::new(Verdict::refused(id, FieldError::missing("answer", "completion or extracted"))));
        };
        let (field, text, max) = match &answer {
            Answer::Completion(text) => ("completion", text, self.max_completion_bytes),
            Answer::Extracted(text) => ("extracted", text, self.max_field_bytes),
        };
        fits(&id, field, text.len(), max)?;
        match task {
            None => Err(Box::new(Verdict::refused(id, FieldError::missing("task", "math, code or custom")))),
            Some(Task::Math(task)) => {
                fits(&id, "math.gold", task.gold.len(), self.max_field_bytes)?;
                if task.alternatives.len() > MAX_ALTERNATIVES {
                    let (count, allowed) = (task.alternatives.len(), format!("at most {MAX_ALTERNATIVES}"));
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
                let detail = format!("the verifier `{}` is not known here", cut(task.endpoint, MAX_LOGGED));
                Err(Box::new(Verdict::invalid(id, InvalidReason::Unimplemented, detail)))
            }
        }
    }

    /// The verdict on a mathematical answer. It reads no clock and keeps no state.
    ///
    /// A panic in it is the verdict INVALID with INTERNAL as its reason, on this item alone.
    pub fn math(&self, work: MathWork) -> Verdict {
        let id = work.id.clone();
        self.signed(contained(&id, || self.math.verdict(work)))
    }

    /// Whether [`Self::read_code`] has nothing to unpack.
    pub fn is_quick(&self, work: &CodeWork) -> bool {
        self.code.is_quick(work)
    }

    /// Reads a program and its tests, which may take seconds and much memory: one at a time. Cancelling ends it.
    ///
    /// # Errors
    /// The verdict where there is nothing to run.
    pub fn read_code(&self, work: CodeWork, cancel: &Cancel) -> Result<ReadProgram, Box<Verdict>> {
        self.code.read(work, cancel).map_err(|verdict| Box::new(self.signed(*verdict)))
    }

    /// Gives a program to the sandbox, which is made ready first where it is not; that blocks. `done` is called once with the
    /// verdict, here or on a thread of the sandbox; it must not block. Cancelling ends the program at once.
    pub fn run_code(&self, program: ReadProgram, cancel: Cancel, done: impl FnOnce(Verdict) + Send + 'static) {
        let worker = self.worker.clone();
        self.code.submit(program, cancel, move |verdict| done(Verdict { worker, ..verdict }));
    }

    /// [`Self::read_code`] and [`Self::run_code`] one after the other.
    pub fn code(&self, work: CodeWork, cancel: Cancel, done: impl FnOnce(Verdict) + Send + 'static) {
        match self.read_code(work, &cancel) {
            Ok(program) => self.run_code(program, cancel, done),
            Err(verdict) => done(*verdict),
        }
    }

    /// The verdict on one item; waits for it.
    pub fn verdict(&self, item: VerifyItem) -> Verdict {
        match self.accept(item) {
            Err(verdict) => *verdict,
            Ok(Work::Math(work)) => self.math(work),
            Ok(Work::Code(work)) => {
                let id = work.id.clone();
                let (sender, receiver) = std::sync::mpsc::sync_channel(1);
                self.code(work, Cancel::new(), move |verdict| {
                    // The receiver waits below.
                    let _ = sender.send(verdict);
                });
                let lost = || self.signed(Verdict::invalid(id, InvalidReason::Internal, "the sandbox gave no verdict"));
                receiver.recv().unwrap_or_else(|_| lost())
            }
        }
    }

    fn signed(&self, verdict: Verdict) -> Verdict {
        Verdict { worker: self.worker.clone(), ..verdict }
    }
}

/// The verdict, or what a panic makes of it. The judge is the same afterwards: judging changes nothing in it.
fn contained(id: &str, judge: impl FnOnce() -> Verdict) -> Verdict {
    catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("without a message");
        tracing::error!(id = ?cut(id, MAX_LOGGED), panic = ?cut(text, MAX_LOGGED), "judging an item failed");
        Verdict::invalid(id, InvalidReason::Internal, "the verifier failed in a way that it did not expect")
    })
}

/// Gold answers beside the first one, so that a check ends in milliseconds.
const MAX_ALTERNATIVES: usize = 100;
/// Longest text from outside in a line of the log, in bytes.
const MAX_LOGGED: usize = 200;

/// INVALID where a field is longer than this worker takes. The text itself is not repeated.
fn fits(id: &str, field: &str, length: usize, max: usize) -> Result<(), Box<Verdict>> {
    if length <= max {
        return Ok(());
    }
    let error = FieldError::new(field, format_args!("{length} bytes"), format!("at most {max} bytes"));
    let invalid = Verdict::invalid(id, InvalidReason::TooLarge, error.to_string());
    Err(Box::new(Verdict { violations: vec![FieldViolation::from(error)], ..invalid }))
}

/// A text that fits into a verdict.
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
    fn a_panic_is_the_verdict_on_its_item_alone() {
        let right = || Verdict::judged("a", Outcome::Correct, "equal_integer", 1.0);
        assert_eq!(contained("a", right), right());
        for judge in
            [|| panic!("byte index 1 is not a char boundary"), || panic!("{}", "of 5"), || std::panic::panic_any(5)]
        {
            let verdict = contained("b", judge);
            assert_eq!((verdict.id.as_str(), verdict.reason_code.as_str(), verdict.reward), ("b", "internal", None));
            assert_eq!((verdict.outcome(), verdict.invalid_reason()), (Outcome::Invalid, InvalidReason::Internal));
            assert_eq!(verdict.check(), Ok(()));
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("short", 16), "short");
        assert_eq!(cut("ä".repeat(100), 16), format!("{}…", "ä".repeat(6)));
    }
}
