//! `evenkeel data check`: what a run would make of files.

mod lines;
mod programs;
mod table;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_chat::{Prompt, PromptError, PromptRenderer, RenderedPrompt};
use evenkeel_data::read::{ReadLimits, expand, printable};
use evenkeel_data::{Collector, DataReport, Problem, Purpose, Reason, RowRules};
use evenkeel_math::Profile;
use evenkeel_model_folder::Folder;
use evenkeel_orchestrator::{DataSettings, reason_of};
use evenkeel_proto::FieldError;
use evenkeel_recipe::marked_prompts::{MarkedPrompts, plain_text};

use crate::arguments::DataCheckOptions;

/// Prompts that are rendered together, on all cores.
const RENDERED_TOGETHER: usize = 1024;

/// Where the prompts of a check go.
trait Output {
    /// One prompt that a run would ask.
    fn prompt(&mut self, problem: &Problem, prompt: &Checked, report: &DataReport) -> io::Result<()>;

    /// The end: what became of every row.
    fn finish(&mut self, report: &DataReport) -> io::Result<()>;
}

/// A file to check, and how its rows are read.
struct File {
    path: PathBuf,
    rules: RowRules,
}

/// A prompt: as the model sees it, or without a model as the row has it.
struct Checked {
    text: String,
    /// Absent without a model.
    token_ids: Option<Vec<u32>>,
}

/// Prints every prompt and a summary. Fails where a file yields no prompts or a verifier judges none of them, and says
/// why on stderr.
pub(super) fn check(options: &DataCheckOptions) -> Result<ExitCode> {
    let recipe = evenkeel_recipe::load(&options.recipe, &options.set)?.settings;
    let settings = &recipe.data;
    let folder = options.model.as_ref().or(recipe.model.path.as_ref());
    let folder = folder.map(|path| crate::hub::folder("--model", path)).transpose()?;
    let renderer = folder.map(|folder| settings.prompt_renderer(&Folder::new(folder))).transpose()?;
    let files = files(options, settings)?;

    let (limits, cancel) = (ReadLimits::default(), || false);
    let mut collector = Collector::new(&limits, &cancel, false);
    let mut failed = false;
    for (index, file) in files.iter().enumerate() {
        let name = file.path.display().to_string();
        if let Err(error) = collector.read_file(&file.path, (index, &name), Purpose::Training, &file.rules) {
            print_err!("{}", printable(error));
            failed = true;
        }
    }
    let (mut problems, mut report) = collector.finish();
    problems.retain(|problem| match programs::defect(&problem.task) {
        None => true,
        Some(defect) => {
            report.drop_prompt(problem.origin.file, Reason::InvalidTests, &problem.id, defect);
            false
        }
    });
    let stdout = BufWriter::new(io::stdout().lock());
    let mut checks = Checks {
        renderer,
        suffix: &settings.suffix,
        profile: recipe.reward.math.profile,
        marked: MarkedPrompts::default(),
        control_text: 0,
    };
    let written = if options.json {
        checks.write(&mut lines::Lines::new(stdout), &problems, &mut report)
    } else {
        checks.write(&mut table::PromptTable::new(stdout), &problems, &mut report)
    };
    match written {
        // The reader has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        written => written?,
    }
    for file in &report.files {
        if let Some(reason) = report.no_prompt(file) {
            print_err!("{}: {reason}", printable(&file.file));
            failed = true;
        }
    }
    if let Some(summary) = dropped(&report) {
        print_err!("{summary}");
    }
    if checks.control_text > 0 {
        print_err!(
            "{} prompts contain the text of control tokens, which become control tokens, as in transformers; \
             data.control_text = \"refuse\" leaves such rows out",
            checks.control_text
        );
    }
    if checks.renderer.is_some() && problems.iter().any(|problem| problem.environment.is_some()) {
        print_err!(
            "these prompts are without the system prompt and the tools of the environment; evenkeel show RUN --train has \
             both"
        );
    }
    if let Some(advice) = checks.marked.advice() {
        print_err!("warning: {advice}");
    }
    let is_needed = |name: &String| problems.iter().any(|problem| problem.task.verifier() == Some(name));
    for name in settings.verifiers.keys().filter(|name| !is_needed(name)) {
        print_err!("data.verifiers.{name} judges no row; set data.verifier = \"{name}\" to judge all rows with it");
        failed = true;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// How many rows give no prompt, in a sentence; `None` where all but duplicates do.
fn dropped(report: &DataReport) -> Option<String> {
    let mut reasons = BTreeMap::<Reason, u64>::new();
    for (reason, count) in report.files.iter().flat_map(|file| &file.dropped) {
        *reasons.entry(*reason).or_default() += count;
    }
    let rows = report.files.iter().map(|file| file.rows).sum::<u64>();
    let dropped = reasons.values().sum::<u64>();
    let reasons: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    (dropped > 0).then(|| {
        format!(
            "{dropped} of {rows} rows give no prompt: {} (a run skips them; with data.invalid_rows = \"refuse\" \
             it ends instead)",
            reasons.join(", ")
        )
    })
}

/// The files of the command line, or those of the recipe.
fn files(options: &DataCheckOptions, settings: &DataSettings) -> Result<Vec<File>> {
    let (mut files, cancel) = (Vec::<File>::new(), || false);
    let named = |names: &[PathBuf], rules: RowRules| {
        let paths: Vec<_> = names.iter().map(|name| expand(name, &cancel)).collect::<Result<_, _>>()?;
        let file = |path| File { path, rules: rules.clone() };
        anyhow::Ok(paths.into_iter().flatten().map(file).collect::<Vec<_>>())
    };
    if options.files.is_empty() {
        files.extend(named(&settings.files, settings.row_rules(None))?);
        for source in &settings.sources {
            files.extend(named(&source.files, settings.row_rules(Some(source)))?);
        }
    } else {
        files.extend(named(&options.files, settings.row_rules(None))?);
    }
    if files.is_empty() {
        return Err(FieldError::missing("data.files", "at least one file, in the recipe or on the command line").into());
    }
    for (index, file) in files.iter().enumerate() {
        if files[..index].iter().any(|other| other.path == file.path) {
            return Err(FieldError::new(file.path.display().to_string(), "given twice", "each file once").into());
        }
    }
    Ok(files)
}

/// What is looked at in each prompt.
struct Checks<'a> {
    renderer: Option<PromptRenderer>,
    suffix: &'a str,
    profile: Profile,
    marked: MarkedPrompts,
    /// Prompts whose own text spells control tokens.
    control_text: u64,
}

impl Checks<'_> {
    /// Renders and writes every prompt; those that cannot be rendered are dropped and counted.
    fn write(&mut self, output: &mut impl Output, problems: &[Problem], report: &mut DataReport) -> io::Result<()> {
        for problems in problems.chunks(RENDERED_TOGETHER) {
            for (problem, checked) in problems.iter().zip(self.rendered(problems)) {
                match checked {
                    Ok(checked) => {
                        let spells = |renderer: &PromptRenderer| renderer.control_text(&problem.prompt);
                        self.control_text += u64::from(matches!(self.renderer.as_ref().map(spells), Some(Ok(Some(_)))));
                        self.marked.add(problem, &checked.text, self.profile);
                        output.prompt(problem, &checked, report)?;
                    }
                    Err(error) => report.drop_prompt(problem.origin.file, reason_of(&error), &problem.id, error),
                }
            }
        }
        output.finish(report)
    }

    fn rendered(&self, problems: &[Problem]) -> Vec<Result<Checked, PromptError>> {
        let asked: Vec<_> = problems.iter().map(Problem::asked).collect();
        match &self.renderer {
            Some(renderer) => {
                let checked =
                    |rendered: RenderedPrompt| Checked { text: rendered.text, token_ids: Some(rendered.token_ids) };
                renderer.render_all(&asked).into_iter().map(|rendered| rendered.map(checked)).collect()
            }
            None => {
                let text =
                    |(prompt, suffix): &(&Prompt, Option<&str>)| plain_text(prompt, suffix.unwrap_or(self.suffix));
                asked.iter().map(|asked| Ok(Checked { text: text(asked), token_ids: None })).collect()
            }
        }
    }
}
