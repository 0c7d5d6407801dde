//! The program of a task: extracted from its completion, and chosen where that has several blocks.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

use super::choose::choose;
use crate::executor::Executor;
use crate::extract::{Candidate, NoProgram, extract};
use crate::reason::Reason;
use crate::run::{Budget, Run};
use crate::task::{Mode, ProgramSubmission, ProgramTask};
use crate::verdict::{GraderResult, ProgramVerdict};

/// The program of a task.
#[derive(Debug)]
pub(crate) struct Program {
    /// What may be the program, at least one.
    candidates: Vec<Candidate>,
    /// The program, once chosen.
    chosen: OnceLock<String>,
}

impl Program {
    /// Extracts the program of a task. The error is the verdict if there is nothing to run.
    pub(crate) fn of(task: &ProgramTask) -> Result<Self, Box<ProgramVerdict>> {
        if let Some(defect) = task.tests.defect() {
            return Err(not_run(task, Reason::BadTests, defect.to_string()));
        }
        let mut candidates = match &task.submission {
            ProgramSubmission::Program(text) => vec![Candidate { text: text.clone(), is_python: true }],
            ProgramSubmission::Completion(completion) => match extract(completion, task.extraction()) {
                Ok(found) if found.iter().all(|found| found.text.trim().is_empty()) => {
                    return Err(not_run(task, Reason::EmptyBlock, NoProgram::EmptyBlock.to_string()));
                }
                Ok(found) => found,
                Err(error) => return Err(not_run(task, reason(&error), error.to_string())),
            },
        };
        let fits = |candidate: &Candidate| candidate.text.len() as u64 <= task.limits.source_bytes;
        if !fits(&candidates[0]) {
            let length = candidates[0].text.len();
            let allowed = task.limits.source_bytes;
            let detail = format!("the program has {length} bytes, of {allowed} allowed");
            return Err(not_run(task, Reason::SourceTooLong, detail));
        }
        candidates.retain(fits);
        let chosen = match candidates.as_mut_slice() {
            [only] => OnceLock::from(std::mem::take(&mut only.text)),
            _ => OnceLock::new(),
        };
        Ok(Self { candidates, chosen })
    }

    /// The program, if it has been chosen.
    pub(crate) fn chosen(&self) -> Option<&str> {
        self.chosen.get().map(String::as_str)
    }

    /// The program, which is chosen if it has not been.
    ///
    /// # Errors
    ///
    /// A run that ended through no fault of the completion. It may be tried again.
    pub(crate) fn choose(
        &self,
        executor: &mut dyn Executor,
        function: &str,
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Result<&str, Box<Run>> {
        if let Some(program) = self.chosen() {
            return Ok(program);
        }
        let blocks = choose(executor, &self.candidates, function, budget, cancel)?;
        let text = || {
            let texts: Vec<&str> = blocks.iter().map(|index| self.candidates[*index].text.as_str()).collect();
            texts.join("\n")
        };
        Ok(self.chosen.get_or_init(text))
    }
}

fn reason(error: &NoProgram) -> Reason {
    match error {
        NoProgram::NoBlock => Reason::NoBlock,
        NoProgram::EmptyBlock => Reason::EmptyBlock,
        NoProgram::OtherLanguage(_) => Reason::OtherLanguage,
        NoProgram::UnclosedThinking => Reason::UnclosedThinking,
    }
}

fn not_run(task: &ProgramTask, reason: Reason, detail: String) -> Box<ProgramVerdict> {
    let mut verdict = ProgramVerdict::without_run(reason, task.tests.len(), detail);
    if task.mode == Mode::LiveCodeBench {
        verdict.grader = Some(GraderResult { results: vec![-4], error: Some(-4) });
    }
    Box::new(verdict)
}
