//! `evenkeel init`: a recipe for own rows and an own model, and the files of an own reward function or environment.

mod rows;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_data::{Reason, TaskKind};
use evenkeel_engine::EngineSettings;
use evenkeel_proto::FieldError;
use evenkeel_recipe::marked_prompts::WRITTEN_SUFFIX;

use crate::arguments::InitOptions;
use crate::terminal::print_result;
use rows::Rows;

/// A reward function to begin with.
const REWARD: &str = include_str!("../../python/reward.py");
/// Its name, and that of the verifier that it is.
const REWARD_FILE: &str = "reward.py";
const VERIFIER: &str = "reward";

/// An environment to begin with, and its name.
const ENVIRONMENT: &str = include_str!("../../python/environment.py");
const ENVIRONMENT_FILE: &str = "environment.py";

/// Prompts and samples of a step, and the longest answer, where nothing speaks against them.
const PROMPTS: u64 = 16;
const SAMPLES: u32 = 8;
const ANSWER_TOKENS: u64 = 1024;
/// At most this many problems are held out, and a tenth of all.
const HELD_OUT: u64 = 256;

/// Writes the files, each of which must be new.
pub(crate) fn init(options: &InitOptions) -> Result<ExitCode> {
    let folder = options.out.parent().unwrap_or(Path::new(""));
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    let mut said = String::new();
    if let Some(model) = &options.model {
        let rows = Rows::read(&options.data, &crate::hub::folder("--model", model)?, options.judges())?;
        files.push((options.out.clone(), recipe(options, model, &rows)?));
        let out = options.out.display();
        writeln!(said, "{}", rows.summary())?;
        writeln!(said, "check it with: evenkeel train --dry-run {out}")?;
    }
    if options.verifier {
        files.push((folder.join(REWARD_FILE), REWARD.to_owned()));
        writeln!(said, "{REWARD_FILE} is yours to change; it needs nothing but Python")?;
    }
    if options.environment {
        files.push((folder.join(ENVIRONMENT_FILE), ENVIRONMENT.to_owned()));
        files.push((
            folder.join(evenkeel_environment_service::BRIDGE_FILE),
            evenkeel_environment_service::BRIDGE.to_owned(),
        ));
        writeln!(said, "{ENVIRONMENT_FILE} is yours to change; it needs nothing but Python")?;
    }
    if files.is_empty() {
        let allowed = "a folder with a model or hf:OWNER/NAME, with --data FILE; or --verifier or --environment alone";
        return Err(FieldError::missing("--model", allowed).into());
    }
    if let Some((path, _)) = files.iter().find(|(path, _)| path.exists()) {
        let allowed = "a file that does not exist yet (--out names another)";
        return Err(FieldError::new(path.display().to_string(), "there already", allowed).into());
    }
    for (path, text) in &files {
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    let names: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    print_result(&format!("wrote {}\n{said}", names.join(", ")))?;
    Ok(ExitCode::SUCCESS)
}

/// The recipe, of some twenty lines.
fn recipe(options: &InitOptions, model: &Path, rows: &Rows) -> Result<String> {
    let files: Vec<String> = options.data.iter().map(|path| path.display().to_string()).collect();
    let mut text = "# evenkeel train --dry-run checks it, evenkeel config KEY explains a setting, evenkeel config \
        prints all of them.\n"
        .to_owned();
    writeln!(text, "[model]\npath = {}\n", quoted(&model.display().to_string()))?;
    writeln!(text, "[data]\nfiles = {}", toml::Value::from(files))?;
    if options.verifier {
        writeln!(text, "verifier = {}  # of all rows", quoted(VERIFIER))?;
    } else if rows.has(TaskKind::Code) {
        writeln!(text, "# Rows with tests are programs: the sandbox runs them.")?;
    }
    if options.environment {
        let file = quoted(&beside(&options.out, ENVIRONMENT_FILE));
        writeln!(text, "environment = {file}  # where all rows are done, in several turns")?;
    }
    if let (Some(_), false) = (rows.marked.advice(), options.judges()) {
        writeln!(
            text,
            "# No prompt asks for a marked answer, and only a marked one is judged.\nsuffix = \"{WRITTEN_SUFFIX}\""
        )?;
    }
    let longest = rows.longest_tokens;
    let answer = match rows.context.saturating_sub(longest) {
        0 => {
            writeln!(text, "overlong = \"skip\"  # a prompt has {longest} tokens, of a context of {}", rows.context)?;
            rows.context / 2
        }
        room => room,
    };
    let answer = answer.min(ANSWER_TOKENS);
    let dropped: Vec<String> = rows.dropped().map(|(reason, count)| format!("{count} {reason}")).collect();
    if !dropped.is_empty() {
        writeln!(text, "# Left out: {} (evenkeel data check names them)", dropped.join(", "))?;
    }
    if options.verifier {
        writeln!(text, "\n[data.verifiers.{VERIFIER}]\npath = {}", quoted(&beside(&options.out, REWARD_FILE)))?;
    }
    let held_out = (rows.problems / 10).min(HELD_OUT).max(u64::from(rows.problems > 1));
    let prompts = PROMPTS.min(rows.problems - held_out);
    writeln!(text, "\n[run]\nsteps = 100")?;
    writeln!(text, "\n[sampling]\nprompts_per_step = {prompts}  # of {} problems", rows.problems - held_out)?;
    writeln!(text, "group_size = {SAMPLES}\nmax_tokens = {answer}")?;
    writeln!(text, "\n[evaluation]\nproblems = {held_out}  # held out of {}\nevery = 10", rows.problems)?;
    writeln!(text, "\n[learner.optimizer]\nlearning_rate = 1e-6")?;
    let engine = EngineSettings::default();
    if rows.context > engine.kv_cache_tokens as u64 {
        let most = (longest + answer).next_multiple_of(1024).min(rows.context);
        writeln!(text, "\n[engine]\nmax_model_len = {most}  # of {}, which its cache does not hold", rows.context)?;
    }
    Ok(text)
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A file next to another one, as the recipe names it.
fn beside(file: &Path, name: &str) -> String {
    file.parent().unwrap_or(Path::new("")).join(name).display().to_string()
}

impl InitOptions {
    /// Whether answers are judged by something of the user's own.
    fn judges(&self) -> bool {
        self.verifier || self.environment
    }
}

impl Rows {
    /// Reasons for which rows give no problem, and how many.
    fn dropped(&self) -> impl Iterator<Item = (Reason, u64)> {
        self.dropped.iter().map(|(reason, count)| (*reason, *count))
    }
}
