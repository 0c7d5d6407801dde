//! Programs against tests.

mod lazy_pool;
mod report;
mod rules;
mod test_cache;

use evenkeel_proto::v1::{CodeTask, InvalidReason, Verdict, verify_item::Answer};
use evenkeel_sandbox::rows::{Erratum, erratum};
use evenkeel_sandbox::{ProgramLimits, ProgramSubmission, ProgramTask, ProgramVerdict};

use super::CodeWork;
use crate::settings::{CodeSettings, RewardSettings, SandboxStart};
use lazy_pool::LazyPool;
use test_cache::TestCache;
use tokio_util::sync::CancellationToken;

pub use lazy_pool::{SandboxError, WorkerProcesses};

/// Verifies programs with `evenkeel-sandbox`.
pub(super) struct CodeVerifier {
    settings: CodeSettings,
    max_field_bytes: usize,
    max_text_bytes: usize,
    pool: LazyPool,
    tests: TestCache,
}

impl CodeVerifier {
    pub(super) fn new(settings: &RewardSettings, processes: Option<WorkerProcesses>) -> Self {
        Self {
            settings: settings.code.clone(),
            max_field_bytes: settings.max_field.bytes_usize(),
            max_text_bytes: settings.max_text.bytes_usize(),
            pool: LazyPool::new(settings, processes),
            tests: TestCache::new(&settings.code),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.settings.sandbox != SandboxStart::Off
    }

    pub(super) fn prepare(&self, progress: &dyn Fn(&str)) -> Result<(), SandboxError> {
        if self.is_on() { self.pool.get(progress).map(drop) } else { Ok(()) }
    }

    /// Whether the tests of a program are cached or small, so that reading them is fast.
    pub(super) fn has_tests(&self, work: &CodeWork) -> bool {
        self.tests.is_fast(&work.task)
    }

    /// Reads a program, its tests and its rules.
    pub(super) fn read(&self, work: CodeWork, cancel: &CancellationToken) -> Result<ReadProgram, Box<Verdict>> {
        let CodeWork { id, answer, task } = work;
        let question = erratum(&task.question_id);
        let task = self.task(&id, answer, task, cancel)?;
        Ok(ReadProgram { id, question, task })
    }

    pub(super) fn submit(
        &self,
        work: ReadProgram,
        cancel: CancellationToken,
        done: impl FnOnce(Verdict) + Send + 'static,
    ) {
        let ReadProgram { id, question, task: asked } = work;
        let unsupported = self.settings.unsupported;
        let max_text = self.max_text_bytes;
        let pool = match self.pool.get(&|line| tracing::info!("{line}")) {
            Ok(pool) => pool,
            // Another attempt on this worker would fail as well: something is missing on the machine.
            Err(error) => return done(Verdict::invalid(id, InvalidReason::Unimplemented, error.to_string())),
        };
        let reply = Reply { id, done: Some(done) };
        // A full queue drops the reply, which sends a verdict as well.
        let _ = pool.submit(asked, cancel, move |verdict| {
            reply.send(|id| report::verdict(id, &verdict, question, unsupported, max_text));
        });
    }

    /// The limits on a program that names only its memory in bytes: the highest that the settings allow.
    pub(super) fn limits_up_to(&self, memory: Option<u64>) -> ProgramLimits {
        let default = &self.settings.limits;
        let max = &self.settings.max_limits;
        ProgramLimits {
            cpu: max.cpu,
            program_cpu: max.program_cpu,
            wall: max.wall,
            memory_bytes: rules::memory_of(memory.unwrap_or(default.memory.bytes()), max.memory),
            output_bytes: default.output.bytes(),
            source_bytes: max.source.bytes(),
            deterministic: self.settings.deterministic,
        }
    }

    /// Submits a program that is not an item.
    pub(super) fn run_program(
        &self,
        task: ProgramTask,
        cancel: CancellationToken,
        done: impl FnOnce(ProgramVerdict) + Send + 'static,
    ) -> Result<(), NotSubmitted> {
        if !self.is_on() {
            return Err(NotSubmitted::Unavailable(OFF.to_owned()));
        }
        let pool = self.pool.get(&|line| tracing::info!("{line}"));
        let pool = pool.map_err(|error| NotSubmitted::Unavailable(error.to_string()))?;
        pool.submit(task, cancel, done).map_err(|_| NotSubmitted::QueueFull)
    }

    /// The task for the pool.
    fn task(
        &self,
        id: &str,
        answer: Answer,
        task: CodeTask,
        cancel: &CancellationToken,
    ) -> Result<ProgramTask, Box<Verdict>> {
        if !self.is_on() {
            return Err(Box::new(Verdict::invalid(id, InvalidReason::Unimplemented, OFF)));
        }
        let rules = rules::rules(&task, &self.settings)
            .map_err(|error| Box::new(Verdict::refused(id, error.within("code"))))?;
        let tests = self.tests.get(id, task, self.max_field_bytes, &|| cancel.is_cancelled())?;
        let submission = match answer {
            Answer::Completion(text) => ProgramSubmission::Completion(text),
            Answer::Extracted(text) => ProgramSubmission::Program(text),
        };
        Ok(rules.task(submission, tests))
    }
}

/// Why a worker without a sandbox runs nothing.
const OFF: &str = "this worker runs no programs: reward.code.sandbox is off";

/// Why a program was not submitted to the sandbox.
#[derive(Debug)]
pub(crate) enum NotSubmitted {
    /// Something is missing on the machine, or the settings turn programs off.
    Unavailable(String),
    /// The sandbox has as many programs as it takes.
    QueueFull,
}

/// A program with its tests and rules.
pub struct ReadProgram {
    id: String,
    question: Option<Erratum>,
    task: ProgramTask,
}

/// Sends exactly one verdict. If the pool refuses or drops the program, that is INVALID and not a wrong answer.
struct Reply<F: FnOnce(Verdict)> {
    id: String,
    done: Option<F>,
}

impl<F: FnOnce(Verdict)> Reply<F> {
    fn send(mut self, verdict: impl FnOnce(String) -> Verdict) {
        if let Some(done) = self.done.take() {
            done(verdict(std::mem::take(&mut self.id)));
        }
    }
}

impl<F: FnOnce(Verdict)> Drop for Reply<F> {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            let id = std::mem::take(&mut self.id);
            done(Verdict::invalid(id, InvalidReason::Overloaded, "the sandbox accepts no more programs"));
        }
    }
}
