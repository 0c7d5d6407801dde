//! The recipe that `init` writes, of some thirty lines.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use evenkeel_data::TaskKind;
use evenkeel_engine::EngineSettings;
use evenkeel_recipe::RunTime;
use evenkeel_recipe::marked_prompts::WRITTEN_SUFFIX;

use super::answers::AnswerLengths;
use super::model::ModelScale;
use super::rows::Rows;
use super::{ENVIRONMENT_FILE, REWARD_FILE, VERIFIER, beside, quoted};
use crate::arguments::InitOptions;

/// Prompts and samples of a step, where nothing speaks against them.
const PROMPTS: u64 = 16;
const SAMPLES: u32 = 8;
/// The longest answer, or the longest episode where an environment says how long it is.
const ANSWER_TOKENS: u64 = 1024;
/// At most this many problems are held out, and a tenth of all.
const HELD_OUT: u64 = 256;

/// Steps of a run at most and at least, and how long it may take, in seconds: less than half an hour.
const STEPS: u64 = 100;
const LEAST_STEPS: u64 = 20;
const LONGEST_RUN: f64 = 25.0 * 60.0;
/// Steps between evaluations.
const EVERY: u64 = 10;

/// What a recipe is made of.
pub(super) struct Draft<'a> {
    pub(super) options: &'a InitOptions,
    /// As it was named.
    pub(super) model: &'a Path,
    pub(super) rows: Rows,
    pub(super) scale: ModelScale,
    /// Absent where an environment says how long turns are.
    pub(super) answers: Option<AnswerLengths>,
    /// Lines of section `turns`.
    pub(super) turns: Vec<String>,
    pub(super) pace: Pace,
}

/// How much a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    steps: u64,
    prompts: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { steps: STEPS, prompts: PROMPTS }
    }
}

impl Pace {
    pub(super) fn steps(self) -> u64 {
        self.steps
    }

    /// Does less where a run takes too long: fewer steps, and where the fewest take too long fewer prompts. Returns how
    /// long the run takes then.
    pub(super) fn fit(&mut self, time: &RunTime) -> RunTime {
        let RunTime::Estimated { step_seconds, run_seconds, fixed_seconds } = *time else { return time.clone() };
        let besides = (run_seconds - self.steps as f64 * step_seconds).max(0.0) / self.steps as f64;
        let mut of_samples = step_seconds - fixed_seconds;
        let seconds = |steps: u64, of_samples: f64| steps as f64 * (of_samples + fixed_seconds + besides);
        while self.steps > LEAST_STEPS && seconds(self.steps, of_samples) > LONGEST_RUN {
            self.steps -= EVERY;
        }
        while self.prompts > 1 && seconds(self.steps, of_samples) > LONGEST_RUN {
            self.prompts /= 2;
            of_samples /= 2.0;
        }
        let run_seconds = seconds(self.steps, of_samples);
        RunTime::Estimated { step_seconds: of_samples + fixed_seconds, run_seconds, fixed_seconds }
    }
}

impl Draft<'_> {
    /// The recipe as text.
    pub(super) fn text(&self) -> Result<String> {
        let Self { options, rows, scale, .. } = self;
        let mut text = "# evenkeel train --dry-run checks it, evenkeel config KEY explains a setting, evenkeel config \
            prints all of them.\n"
            .to_owned();
        writeln!(text, "[model]\npath = {}", quoted(&self.model.display().to_string()))?;
        self.data(&mut text)?;
        let held_out = (rows.problems / 10).min(HELD_OUT).max(u64::from(rows.problems > 1));
        let prompts = self.pace.prompts.min(rows.problems - held_out);
        writeln!(text, "\n[run]\nsteps = {}", self.pace.steps)?;
        writeln!(text, "\n[sampling]\nprompts_per_step = {prompts}  # of {} problems", rows.problems - held_out)?;
        writeln!(text, "group_size = {SAMPLES}")?;
        writeln!(text, "temperature = {:?}", scale.temperature())?;
        let answer = self.answer(&mut text)?;
        if !self.turns.is_empty() {
            writeln!(text, "\n[turns]\n{}", self.turns.join("\n"))?;
        }
        if !options.judges() && rows.has(TaskKind::Math) {
            writeln!(text, "\n# A small reward for a marked answer, right or wrong.")?;
            writeln!(text, "[shaping]\nweights = {{ format = 0.2 }}")?;
        }
        writeln!(text, "\n[evaluation]\nproblems = {held_out}  # held out of {}\nevery = {EVERY}", rows.problems)?;
        writeln!(
            text,
            "\n# The rate of the recipe smollm2 (1.5e-5) times 576 / {}, the hidden size.",
            scale.hidden_size
        )?;
        writeln!(text, "[learner.optimizer]\nlearning_rate = {}", scale.learning_rate())?;
        writeln!(text, "weight_decay = 0.0\nwarmup_updates = 0")?;
        let engine = EngineSettings::default();
        if rows.context > engine.kv_cache_tokens as u64 {
            let most = (rows.longest_tokens + answer).next_multiple_of(1024).min(rows.context);
            writeln!(
                text,
                "\n[engine]\nmax_model_len = {most}  # the cache holds less than the context of {}",
                rows.context
            )?;
        }
        Ok(text)
    }

    /// The sections of the data.
    fn data(&self, text: &mut String) -> Result<()> {
        let Self { options, rows, .. } = self;
        let files: Vec<String> = options.data.iter().map(|path| path.display().to_string()).collect();
        writeln!(text, "\n[data]\nfiles = {}", toml::Value::from(files))?;
        if options.verifier {
            writeln!(text, "verifier = {}  # for all rows", quoted(VERIFIER))?;
        } else if rows.has(TaskKind::Code) {
            writeln!(text, "# Rows with tests are programs: the sandbox runs them.")?;
        }
        if options.environment {
            let file = quoted(&beside(&options.out, ENVIRONMENT_FILE));
            writeln!(text, "environment = {file}  # plays all rows, in several turns")?;
        }
        if !rows.suffix.is_empty() {
            writeln!(
                text,
                "# No prompt asks for a marked answer, and only a marked one is judged.\nsuffix = \"{WRITTEN_SUFFIX}\""
            )?;
        }
        if rows.context <= rows.longest_tokens {
            let (longest, context) = (rows.longest_tokens, rows.context);
            writeln!(text, "overlong = \"skip\"  # the longest prompt has {longest} tokens, the context {context}")?;
        }
        let dropped: Vec<String> = rows.dropped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        if !dropped.is_empty() {
            writeln!(text, "# Left out: {} (evenkeel data check names them)", dropped.join(", "))?;
        }
        if options.verifier {
            let file = quoted(&beside(&options.out, REWARD_FILE));
            writeln!(text, "\n[data.verifiers.{VERIFIER}]\npath = {file}")?;
            writeln!(text, "range = [0.0, 1.0]  # its rewards; answers with the highest are correct")?;
        }
        Ok(())
    }

    /// The line of the longest answer, and its tokens.
    fn answer(&self, text: &mut String) -> Result<u64> {
        let room = match self.rows.context.saturating_sub(self.rows.longest_tokens) {
            0 => self.rows.context / 2,
            room => room,
        };
        let Some(answers) = &self.answers else {
            let answer = room.min(ANSWER_TOKENS);
            writeln!(text, "max_tokens = {answer}  # per episode, the environment's messages included")?;
            return Ok(answer);
        };
        let answer = answers.most.min(room).max(1);
        writeln!(text, "max_tokens = {answer}  # {}", answers.origin())?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_takes_too_long_does_less() {
        let fit = |step_seconds: f64, fixed_seconds: f64| {
            let mut pace = Pace::default();
            let time = RunTime::Estimated { step_seconds, run_seconds: 100.0 * step_seconds, fixed_seconds };
            let RunTime::Estimated { run_seconds, .. } = pace.fit(&time) else { panic!("it is estimated") };
            assert!(run_seconds <= LONGEST_RUN, "{run_seconds}");
            (pace.steps, pace.prompts)
        };
        assert_eq!(fit(1.0, 0.0), (100, 16));
        assert_eq!(fit(30.0, 0.0), (50, 16));
        assert_eq!(fit(200.0, 0.0), (20, 4));
        assert_eq!(fit(200.0, 40.0), (20, 2), "40 s of each step stay however few prompts it has");
    }
}
