//! `evenkeel init`: a recipe for own rows and an own model, and the files of an own reward function or environment.

mod answers;
mod model;
mod recipe;
mod rows;
mod turns;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_proto::FieldError;
use evenkeel_recipe::RunTime;

use crate::arguments::InitOptions;
use crate::dry_run;
use crate::terminal::{note, print_result};
use answers::{AnswerLengths, sample};
use model::ModelScale;
use recipe::{Draft, Pace};
use rows::Rows;

/// A reward function to begin with.
const REWARD: &str = include_str!("../../python/reward.py");
/// Name of the reward file, and of the verifier that it is.
const REWARD_FILE: &str = "reward.py";
const VERIFIER: &str = "reward";

/// An environment to begin with, and its name.
const ENVIRONMENT: &str = include_str!("../../python/environment.py");
const ENVIRONMENT_FILE: &str = "environment.py";

/// From this share on answers are marked without being asked for it.
const MARKED: f64 = 0.5;

/// Writes the files, each of which must be new, and tries the recipe.
pub(crate) async fn init(options: &InitOptions) -> Result<ExitCode> {
    let folder = options.out.parent().unwrap_or(Path::new(""));
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    let mut said = String::new();
    if options.verifier {
        files.push((folder.join(REWARD_FILE), REWARD.to_owned()));
        writeln!(said, "{REWARD_FILE} is yours to edit; it needs only Python")?;
    }
    if options.environment {
        files.push((folder.join(ENVIRONMENT_FILE), ENVIRONMENT.to_owned()));
        files.push((
            folder.join(evenkeel_environment_service::BRIDGE_FILE),
            evenkeel_environment_service::BRIDGE.to_owned(),
        ));
        writeln!(said, "{ENVIRONMENT_FILE} is yours to edit; it needs only Python")?;
    }
    let is_empty = files.is_empty() && options.model.is_none();
    if is_empty {
        let allowed = "a folder with a model or hf:OWNER/NAME, with --data FILE; or --verifier or --environment alone";
        return Err(FieldError::missing("--model", allowed).into());
    }
    let recipe = options.model.iter().map(|_| &options.out);
    if let Some(path) = files.iter().map(|(path, _)| path).chain(recipe).find(|path| path.exists()) {
        let allowed = "a file that does not exist yet (--out names another)";
        return Err(FieldError::new(path.display().to_string(), "there already", allowed).into());
    }
    let mut draft = match &options.model {
        Some(model) => Some(draft(options, model).await?),
        None => None,
    };
    for (path, text) in &files {
        write(path, text)?;
    }
    let mut names: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    if let Some(draft) = &mut draft {
        names.insert(0, options.out.display().to_string());
        said = format!("{}\n{}{said}", draft.rows.summary(), tried(options, draft).await?);
    }
    print_result(&format!("wrote {}\n{said}", names.join(", ")))?;
    Ok(ExitCode::SUCCESS)
}

/// What the recipe is made of: rows, the model, and answers of it.
async fn draft<'a>(options: &'a InitOptions, named: &'a Path) -> Result<Draft<'a>> {
    let model = &crate::hub::folder("--model", named)?;
    let mut rows = Rows::read(&options.data, model, options.judges())?;
    let scale = ModelScale::of(model)?;
    // How long turns are is for the environment to say.
    let (answers, turns) = if options.environment {
        (None, turns::lines(model).await?)
    } else {
        (Some(answers_to(&mut rows, model, &scale).await?), Vec::new())
    };
    Ok(Draft { options, model: named, rows, scale, answers, turns, pace: Pace::default() })
}

/// Samples answers to rows, which are asked to be marked where that is needed.
async fn answers_to(rows: &mut Rows, model: &Path, scale: &ModelScale) -> Result<AnswerLengths> {
    note(&format!("sampling {} answers of the model to measure their length", answers::SAMPLED));
    // A model without a template knows prompts as they are, and may mark its answers by itself.
    if rows.lacks_mark() && !rows.has_template {
        let lengths = sample(model, rows.prompts.clone(), scale.temperature(), rows.context).await?;
        if lengths.marked >= MARKED {
            return Ok(lengths);
        }
    }
    if rows.lacks_mark() {
        rows.ask_for_mark(model)?;
    }
    sample(model, rows.prompts.clone(), scale.temperature(), rows.context).await
}

/// Writes the recipe and tries it. One whose run would take too long gets fewer steps, and then fewer prompts.
async fn tried(options: &InitOptions, draft: &mut Draft<'_>) -> Result<String> {
    let out = options.out.display().to_string();
    write(&options.out, &draft.text()?)?;
    note("checking the recipe and timing a step");
    let loaded = evenkeel_recipe::load(std::slice::from_ref(&out), &[])?;
    let report = dry_run::look(&loaded, std::slice::from_ref(&out), None, true).await?;
    if !report.can_start {
        let problems: Vec<String> = report.problems().iter().map(|problem| format!("  {problem}")).collect();
        return Ok(format!("the recipe cannot start yet:\n{}\n", problems.join("\n")));
    }
    let said = match report.time() {
        time @ RunTime::Estimated { .. } => draft.pace.fit(time).to_string(),
        // Nothing is known of engines elsewhere; here a guess by the size of a step is better than none.
        RunTime::Unknown { unknown } => {
            draft.pace.fit(&RunTime::guessed(report.step_flops().unwrap_or(0.0), draft.pace.steps()));
            format!("an unknown time: {unknown}")
        }
    };
    write(&options.out, &draft.text()?)?;
    Ok(format!("the recipe can start; a run takes {said}\nstart it with: evenkeel train {out}\n"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
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
