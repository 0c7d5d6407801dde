//! Files, rows, gold answers and prompts, each file by itself: what is wrong with one does not hide what is wrong with the next.

use std::path::{Path, PathBuf};

use evenkeel_chat::Prompt;
use evenkeel_orchestrator::{InvalidRows, Overlong};
use evenkeel_tasks::read::{Limits, expand};
use evenkeel_tasks::{Cancel, Collector, DataReport, Part, Problem, RowRules, TaskKind};
use serde::Serialize;

use super::findings::Findings;
use super::model::ModelFacts;
use super::published;
use crate::recipe::Recipe;

/// Prompts that are rendered together, on all cores.
const RENDERED_TOGETHER: usize = 1024;

/// What a run would ask.
#[derive(Debug, Default, Serialize)]
pub(super) struct DataFacts {
    pub(super) sets: Vec<PromptSet>,
}

/// The prompts of one file, or of a data set that the program makes.
#[derive(Debug, Serialize)]
pub(super) struct PromptSet {
    pub(super) name: String,
    pub(super) part: Part,
    pub(super) rows: u64,
    pub(super) prompts: u64,
    /// Prompts that leave no room for the longest answer.
    pub(super) too_long: u64,
    /// What an evaluation asks of it; absent for training data.
    pub(super) asked: Option<Asked>,
    /// Absent where the tokenizer could not be read.
    pub(super) mean_tokens: Option<f64>,
    pub(super) longest_tokens: Option<u64>,
    #[serde(skip)]
    pub(super) kinds: Vec<TaskKind>,
    #[serde(skip)]
    refused: Refused,
}

/// What an evaluation asks of a set.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Asked {
    pub(super) problems: u64,
    /// For each of them.
    pub(super) samples: u32,
    /// Longest answer, in tokens.
    pub(super) answer_tokens: u32,
}

/// Prompts that the chat template refuses.
#[derive(Debug, Default)]
struct Refused {
    count: u64,
    /// The first one's name, and why.
    first: Option<(String, String)>,
}

impl DataFacts {
    /// Prompts of a part, without those that are left out for their length.
    pub(super) fn prompts(&self, part: Part) -> u64 {
        self.of(part).map(|set| set.prompts - set.too_long).sum()
    }

    /// The mean length of the prompts of a part, where it is known.
    pub(super) fn mean_tokens(&self, part: Part) -> Option<f64> {
        let (mut prompts, mut tokens) = (0.0, 0.0);
        for set in self.of(part) {
            prompts += set.prompts as f64;
            tokens += set.prompts as f64 * set.mean_tokens?;
        }
        (prompts > 0.0).then(|| tokens / prompts)
    }

    /// The longest prompt, in tokens; 0 where none is known.
    pub(super) fn longest_tokens(&self) -> u64 {
        self.sets.iter().filter_map(|set| set.longest_tokens).max().unwrap_or(0)
    }

    /// Whether there are tasks of a kind.
    pub(super) fn has(&self, kind: TaskKind) -> bool {
        self.sets.iter().any(|set| set.kinds.contains(&kind))
    }

    pub(super) fn of(&self, part: Part) -> impl Iterator<Item = &PromptSet> {
        self.sets.iter().filter(move |set| set.part == part)
    }
}

/// A name in the settings and how its rows are read.
struct Named<'a> {
    key: String,
    file: &'a Path,
    part: Part,
    rules: RowRules,
}

/// Reads every file that is there.
pub(super) fn look(recipe: &Recipe, model: &ModelFacts, findings: &mut Findings) -> DataFacts {
    let settings = &recipe.data;
    let held_out = recipe.evaluation.problems;
    let room = model.context_tokens.map(|context| context.saturating_sub(recipe.sampling.max_tokens as usize) as u64);
    let mut facts = DataFacts::default();
    if let Some(dataset) = settings.built_in(recipe.run.seed, held_out) {
        for (part, problems) in [(Part::Training, &dataset.train), (Part::Evaluation, &dataset.held_out)] {
            let set = prompt_set(dataset.name.clone(), part, problems, model, &settings.suffix, room);
            facts.sets.extend((set.prompts > 0).then_some(set));
        }
    }
    let mut named = Vec::new();
    for (index, file) in settings.files.iter().enumerate() {
        let rules = settings.row_rules(None);
        named.push(Named { key: format!("data.files[{index}]"), file, part: Part::Training, rules });
    }
    for (number, source) in settings.sources.iter().enumerate() {
        for (index, file) in source.files.iter().enumerate() {
            let key = format!("data.sources[{number}].files[{index}]");
            named.push(Named { key, file, part: Part::Training, rules: settings.row_rules(Some(source)) });
        }
    }
    for (index, file) in settings.held_out_files.iter().enumerate() {
        let rules = RowRules { filters: Vec::new(), ..settings.row_rules(None) };
        named.push(Named { key: format!("data.held_out_files[{index}]"), file, part: Part::Evaluation, rules });
    }
    for named in &named {
        for path in files_of(named, findings) {
            facts.sets.extend(read(recipe, named, &path, model, room, findings));
        }
    }
    take_out_of_training(recipe, &mut facts);
    ask(recipe, &mut facts);
    facts
}

/// Held-out problems in their order, as many as an evaluation asks.
fn ask(recipe: &Recipe, facts: &mut DataFacts) {
    let mut left = u64::from(recipe.evaluation.problems);
    for set in facts.sets.iter_mut().filter(|set| set.part == Part::Evaluation) {
        let problems = left.min(set.prompts - set.too_long);
        left -= problems;
        let (samples, answer_tokens) = (recipe.evaluation.samples, recipe.sampling.max_tokens);
        set.asked = Some(Asked { problems, samples, answer_tokens });
    }
}

/// The files that a name stands for; a problem where there are none.
fn files_of(named: &Named<'_>, findings: &mut Findings) -> Vec<PathBuf> {
    let missing = |what: &str| {
        let hint = published::hint(named.file);
        format!("{}: {} {what}{hint}", named.key, named.file.display())
    };
    match expand(named.file, &Cancel::default()) {
        Ok(files) => {
            let absent = files.iter().any(|file| !file.exists());
            if absent {
                findings.problem(missing("does not exist"));
            }
            files.into_iter().filter(|file| file.exists()).collect()
        }
        Err(_) if named.file.display().to_string().contains(['*', '?', '[']) => {
            findings.problem(missing("matches no file"));
            Vec::new()
        }
        Err(error) => {
            findings.problem(format!("{}: {error}", named.key));
            Vec::new()
        }
    }
}

fn read(
    recipe: &Recipe,
    named: &Named<'_>,
    path: &Path,
    model: &ModelFacts,
    room: Option<u64>,
    findings: &mut Findings,
) -> Option<PromptSet> {
    let (limits, cancel) = (Limits::default(), Cancel::default());
    let refuse = recipe.data.invalid_rows == InvalidRows::Refuse;
    let mut collector = Collector::new(&limits, &cancel, refuse);
    let name = path.display().to_string();
    if let Err(error) = collector.read_file(path, (0, &name), named.part, &named.rules) {
        findings.problem(format!("{}: {error}", named.key));
        return None;
    }
    let (problems, report) = collector.finish();
    for file in &report.files {
        if let Some(reason) = report.no_prompt(file) {
            findings.problem(format!("{}: {name} {reason}", named.key));
        }
    }
    if let Some(warning) = report.warning() {
        findings.note(format!("{name}: {warning}"));
    }
    let mut set = prompt_set(name, named.part, &problems, model, &recipe.data.suffix, room);
    set.rows = rows(&report);
    judge_lengths(recipe, named, &set, room, findings);
    judge_template(named, &set, findings);
    Some(set)
}

fn rows(report: &DataReport) -> u64 {
    report.files.iter().map(|file| file.rows).sum()
}

/// Counts prompts and their tokens. A fresh model has one token for each character.
fn prompt_set(
    name: String,
    part: Part,
    problems: &[Problem],
    model: &ModelFacts,
    suffix: &str,
    room: Option<u64>,
) -> PromptSet {
    let (mut lengths, mut refused) = (Vec::with_capacity(problems.len()), Refused::default());
    for problems in problems.chunks(RENDERED_TOGETHER) {
        match (&model.renderer, &model.folder) {
            (Some(renderer), _) => {
                let prompts: Vec<_> = problems.iter().map(|problem| problem.prompt.clone()).collect();
                for (problem, rendered) in problems.iter().zip(renderer.render_all(&prompts)) {
                    match rendered {
                        Ok(rendered) => lengths.push(rendered.token_ids.len() as u64),
                        Err(error) => {
                            refused.count += 1;
                            refused.first.get_or_insert_with(|| (problem.id.to_string(), error.to_string()));
                        }
                    }
                }
            }
            (None, None) => lengths.extend(problems.iter().filter_map(|problem| match &problem.prompt {
                Prompt::Text(text) | Prompt::Either { text, .. } => {
                    Some((text.chars().count() + suffix.chars().count()) as u64)
                }
                Prompt::Messages(_) => None,
            })),
            (None, Some(_)) => {}
        }
    }
    let mut kinds: Vec<_> = problems.iter().map(|problem| problem.task.kind()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let sum: u64 = lengths.iter().sum();
    PromptSet {
        name,
        part,
        rows: problems.len() as u64,
        prompts: problems.len() as u64,
        asked: None,
        too_long: lengths.iter().filter(|&&length| room.is_some_and(|room| length > room)).count() as u64,
        mean_tokens: (!lengths.is_empty()).then(|| sum as f64 / lengths.len() as f64),
        longest_tokens: lengths.iter().max().copied(),
        kinds,
        refused,
    }
}

fn judge_lengths(recipe: &Recipe, named: &Named<'_>, set: &PromptSet, room: Option<u64>, findings: &mut Findings) {
    let (Some(room), 1..) = (room, set.too_long) else { return };
    let found = format!("{}: {} has {} prompts of more than {room} tokens", named.key, set.name, set.too_long);
    let most = recipe.sampling.max_tokens;
    match recipe.data.overlong {
        Overlong::Refuse => findings.problem(format!(
            "{found}, which leave no room for an answer of {most}, allowed: data.overlong = \"skip\" or \"cut\", or a smaller \
             sampling.max_tokens"
        )),
        Overlong::Skip if set.too_long == set.prompts => findings.problem(format!("{found}: none is left")),
        Overlong::Skip => findings.note(format!("{found}, which are left out")),
        Overlong::Cut => findings.note(format!("{found}, whose first tokens are cut off")),
    }
}

/// Prompts that the template refuses are left out of a run, unless all of them are.
fn judge_template(named: &Named<'_>, set: &PromptSet, findings: &mut Findings) {
    let Some((id, error)) = &set.refused.first else { return };
    let found = format!("{}: {} prompts cannot be rendered ({id}: {error})", named.key, set.refused.count);
    if set.refused.count == set.prompts { findings.problem(found) } else { findings.note(found) }
}

/// Without files for evaluation problems are taken out of those to train on.
fn take_out_of_training(recipe: &Recipe, facts: &mut DataFacts) {
    let is_built_in = facts.of(Part::Evaluation).next().is_some();
    if is_built_in || !recipe.data.held_out_files.is_empty() || recipe.evaluation.problems == 0 {
        return;
    }
    let (train, wanted) = (facts.prompts(Part::Training), u64::from(recipe.evaluation.problems));
    let mean = facts.mean_tokens(Part::Training);
    let taken = wanted.min(train);
    if taken > 0 {
        facts.sets.push(PromptSet {
            name: "taken out of the training data".to_owned(),
            part: Part::Evaluation,
            rows: taken,
            prompts: taken,
            too_long: 0,
            asked: None,
            mean_tokens: mean,
            longest_tokens: None,
            kinds: Vec::new(),
            refused: Refused::default(),
        });
    }
}
