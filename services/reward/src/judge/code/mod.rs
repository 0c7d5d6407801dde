//! Programs against tests.

mod known;
mod report;
mod request;
mod sandbox;

use evenkeel_proto::v1::{CodeTask, InvalidReason, Verdict, verify_item::Answer};
use evenkeel_sandbox::rows::{Erratum, erratum};
use evenkeel_sandbox::{Cancel, Task};

use super::CodeWork;
use crate::settings::{CodeConfig, RewardConfig, SandboxStart};
use known::KnownTests;
use sandbox::Sandbox;

pub use sandbox::Cells;

/// Judges by `evenkeel-sandbox`.
pub(super) struct CodeJudge {
    config: CodeConfig,
    max_field_bytes: usize,
    max_text_bytes: usize,
    sandbox: Sandbox,
    tests: KnownTests,
}

impl CodeJudge {
    pub(super) fn new(config: &RewardConfig, cells: Option<Cells>) -> Self {
        Self {
            config: config.code.clone(),
            max_field_bytes: config.max_field_bytes,
            max_text_bytes: config.max_text_bytes,
            sandbox: Sandbox::new(config, cells),
            tests: KnownTests::new(&config.code),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.config.sandbox != SandboxStart::Off
    }

    pub(super) fn prepare(&self, progress: &dyn Fn(&str)) -> Result<(), String> {
        if self.is_on() { self.sandbox.pool(progress).map(drop) } else { Ok(()) }
    }

    /// Whether the tests of a program are here, so that reading it takes no time.
    pub(super) fn is_quick(&self, work: &CodeWork) -> bool {
        self.tests.are_here(&work.task)
    }

    /// Reads what a program is to be judged by.
    pub(super) fn read(&self, work: CodeWork, cancel: &Cancel) -> Result<ReadProgram, Box<Verdict>> {
        let CodeWork { id, answer, task } = work;
        let question = erratum(&task.question_id);
        let task = self.task(&id, answer, task, cancel)?;
        Ok(ReadProgram { id, question, task })
    }

    pub(super) fn submit(&self, work: ReadProgram, cancel: Cancel, done: impl FnOnce(Verdict) + Send + 'static) {
        let ReadProgram { id, question, task: asked } = work;
        let (unsupported, max_text) = (self.config.unsupported, self.max_text_bytes);
        let pool = match self.sandbox.pool(&|line| tracing::info!("{line}")) {
            Ok(pool) => pool,
            // Nothing that another try at this worker would change: what is missing is missing on the machine.
            Err(missing) => return done(Verdict::invalid(id, InvalidReason::Unimplemented, missing)),
        };
        let reply = Reply { id, done: Some(done) };
        // A full queue drops the reply, which answers.
        let _ = pool.submit(asked, cancel, move |verdict| {
            reply.give(|id| report::verdict(id, &verdict, question, unsupported, max_text));
        });
    }

    /// What the pool is asked for.
    fn task(&self, id: &str, answer: Answer, task: CodeTask, cancel: &Cancel) -> Result<Task, Box<Verdict>> {
        if !self.is_on() {
            let off = "this worker runs no programs: reward.code.sandbox is off";
            return Err(Box::new(Verdict::invalid(id, InvalidReason::Unimplemented, off)));
        }
        let rules = request::rules(&task, &self.config)
            .map_err(|error| Box::new(Verdict::refused(id, error.within("code"))))?;
        let tests = self.tests.of(id, task, self.max_field_bytes, &|| cancel.is_cancelled())?;
        let answer = match answer {
            Answer::Completion(text) => evenkeel_sandbox::Answer::Completion(text),
            Answer::Extracted(text) => evenkeel_sandbox::Answer::Program(text),
        };
        Ok(rules.over(answer, tests))
    }
}

/// A program with its tests.
pub struct ReadProgram {
    id: String,
    question: Option<Erratum>,
    task: Task,
}

/// Answers once, whatever becomes of the program: one that the pool does not take or loses is no wrong answer.
struct Reply<F: FnOnce(Verdict)> {
    id: String,
    done: Option<F>,
}

impl<F: FnOnce(Verdict)> Reply<F> {
    fn give(mut self, verdict: impl FnOnce(String) -> Verdict) {
        if let Some(done) = self.done.take() {
            done(verdict(std::mem::take(&mut self.id)));
        }
    }
}

impl<F: FnOnce(Verdict)> Drop for Reply<F> {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            let id = std::mem::take(&mut self.id);
            done(Verdict::invalid(id, InvalidReason::Overloaded, "the sandbox takes no more programs"));
        }
    }
}
