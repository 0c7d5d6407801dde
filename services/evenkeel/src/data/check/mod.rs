//! `evenkeel data check`: what a run would make of files.
#![expect(clippy::print_stderr, reason = "the reasons why files give no prompt")]

mod lines;
mod programs;
mod table;

use std::io::{self, BufWriter, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_chat::{PromptRenderer, RenderedPrompt};
use evenkeel_hf::Folder;
use evenkeel_orchestrator::DataSettings;
use evenkeel_proto::FieldError;
use evenkeel_tasks::read::{Limits, expand, printable};
use evenkeel_tasks::{Collector, DataReport, Part, Problem, Reason, RowRules};

use crate::arguments::DataCheckOptions;
use crate::recipe;

/// Prompts that are rendered together, on all cores.
const RENDERED_TOGETHER: usize = 1024;

/// Where the prompts of a check go.
trait Output {
    /// One prompt that a run would ask.
    fn prompt(&mut self, problem: &Problem, rendered: &RenderedPrompt, report: &DataReport) -> io::Result<()>;

    /// The end: what became of every row.
    fn finish(&mut self, report: &DataReport) -> io::Result<()>;
}

/// A file to check, and how its rows are read.
struct Checked {
    path: PathBuf,
    rules: RowRules,
}

/// Prints every prompt and a summary. Fails where a file yields no prompts, and says why on stderr.
pub(super) fn check(options: &DataCheckOptions) -> Result<ExitCode> {
    let recipe = recipe::load(&options.recipe, &options.set)?.settings;
    let settings = &recipe.data;
    let folder = options.model.as_ref().or(recipe.model.path.as_ref());
    let folder = folder.context("--model is missing, and the recipe has no model.path")?;
    let renderer = settings.prompt_renderer(&Folder::new(folder))?;
    let files = files(options, settings)?;

    let (limits, cancel) = (Limits::default(), || false);
    let mut collector = Collector::new(&limits, &cancel, false);
    let mut failed = false;
    for (index, file) in files.iter().enumerate() {
        let name = file.path.display().to_string();
        if let Err(error) = collector.read_file(&file.path, (index, &name), Part::Training, &file.rules) {
            eprintln!("{}", printable(error));
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
    let written = match options.json {
        true => write(&mut lines::Lines::new(stdout), &problems, &mut report, &renderer),
        false => write(&mut table::Table::new(stdout), &problems, &mut report, &renderer),
    };
    match written {
        // The reader has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        written => written?,
    }
    for file in &report.files {
        if let Some(reason) = report.no_prompt(file) {
            eprintln!("{}: {reason}", printable(&file.file));
            failed = true;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The files of the command line, or those of the recipe.
fn files(options: &DataCheckOptions, settings: &DataSettings) -> Result<Vec<Checked>> {
    let (mut files, cancel) = (Vec::<Checked>::new(), || false);
    let named = |names: &[PathBuf], rules: RowRules| {
        let paths: Vec<_> = names.iter().map(|name| expand(name, &cancel)).collect::<Result<_, _>>()?;
        let checked = |path| Checked { path, rules: rules.clone() };
        anyhow::Ok(paths.into_iter().flatten().map(checked).collect::<Vec<_>>())
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

/// Renders and writes every prompt; those that cannot be rendered are dropped and counted.
fn write(
    output: &mut impl Output,
    problems: &[Problem],
    report: &mut DataReport,
    renderer: &PromptRenderer,
) -> io::Result<()> {
    for problems in problems.chunks(RENDERED_TOGETHER) {
        let prompts: Vec<_> = problems.iter().map(Problem::asked).collect();
        for (problem, rendered) in problems.iter().zip(renderer.render_all(&prompts)) {
            match rendered {
                Ok(rendered) => output.prompt(problem, &rendered, report)?,
                Err(error) => report.drop_prompt(problem.origin.file, Reason::Unrenderable, &problem.id, error),
            }
        }
    }
    output.finish(report)
}
