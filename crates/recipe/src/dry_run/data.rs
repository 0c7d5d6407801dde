//! Files, rows, gold answers and prompts, each file by itself: what is wrong with one does not hide what is wrong with
//! the next.

use std::path::{Path, PathBuf};

use evenkeel_data::read::{ReadLimits, expand};
use evenkeel_data::{Collector, DataReport, Purpose, RowRules};
use evenkeel_orchestrator::{AnswerSampling, InvalidRows, Overlong};
use evenkeel_proto::FieldError;

use super::findings::Findings;
use super::model::ModelFacts;
use super::published;
use super::sets::{DataFacts, EvaluationVolume, PromptSet, Refused, prompt_set};
use crate::marked_prompts::MarkedPrompts;
use crate::recipe::Recipe;

/// A name in the settings and how its rows are read.
struct Named<'a> {
    key: String,
    file: &'a Path,
    part: Purpose,
    rules: RowRules,
    /// Samples for each problem and the longest answer, where they are a benchmark's own.
    sampling: Option<(u32, u32)>,
}

/// Reads every file that exists.
pub(super) fn look(recipe: &Recipe, model: &ModelFacts, findings: &mut Findings) -> DataFacts {
    let settings = &recipe.data;
    let held_out = recipe.evaluation.problems;
    let room_for = |answer: u32| model.context_tokens.map(|context| context.saturating_sub(answer as usize) as u64);
    let room = room_for(recipe.sampling.max_tokens);
    let mut facts = DataFacts::default();
    if let Some(dataset) = settings.built_in(recipe.run.seed, held_out) {
        for (part, problems) in [(Purpose::Training, &dataset.train), (Purpose::Evaluation, &dataset.held_out)] {
            let profile = recipe.reward.math.profile;
            let set = prompt_set(dataset.name.clone(), part, problems, model, settings, room, profile);
            facts.sets.extend((set.prompts > 0).then_some(set));
        }
    }
    let mut named = Vec::new();
    for (index, file) in settings.files.iter().enumerate() {
        let rules = settings.row_rules(None);
        named.push(Named { key: format!("data.files[{index}]"), file, part: Purpose::Training, rules, sampling: None });
    }
    for (number, source) in settings.sources.iter().enumerate() {
        for (index, file) in source.files.iter().enumerate() {
            let key = format!("data.sources[{number}].files[{index}]");
            named.push(Named {
                key,
                file,
                part: Purpose::Training,
                rules: settings.row_rules(Some(source)),
                sampling: None,
            });
        }
    }
    for (index, file) in settings.held_out_files.iter().enumerate() {
        let rules = RowRules { filters: Vec::new(), ..settings.row_rules(None) };
        named.push(Named {
            key: format!("data.held_out_files[{index}]"),
            file,
            part: Purpose::Evaluation,
            rules,
            sampling: None,
        });
    }
    for (number, benchmark) in recipe.evaluation.benchmarks.iter().enumerate() {
        let sampling = recipe.evaluation.sampling_of(benchmark, &recipe.sampling);
        let sampling = (sampling.samples, sampling.max_tokens);
        for (index, file) in benchmark.files.iter().enumerate() {
            let key = format!("evaluation.benchmarks[{number}].files[{index}]");
            let rules = benchmark.files(settings).rules;
            named.push(Named { key, file, part: Purpose::Evaluation, rules, sampling: Some(sampling) });
        }
    }
    for named in &named {
        for path in files_of(named, findings) {
            let room = named.sampling.map_or(room, |(_, answer)| room_for(answer));
            facts.sets.extend(read(recipe, named, &path, model, room, findings));
        }
    }
    let training: Vec<&PromptSet> = facts.of(Purpose::Training).collect();
    if let Some(hint) = settings.hint.as_ref().filter(|_| !training.is_empty())
        && !training.iter().any(|set| set.has_hints)
    {
        let allowed = "absent where no row that is trained on has a text in its column `hint`";
        findings.problem(FieldError::quoted("data.hint", hint, allowed));
    }
    take_out_of_training(recipe, &mut facts);
    ask(recipe, &mut facts);
    facts
}

/// Held-out problems in their order, as many as an evaluation asks.
fn ask(recipe: &Recipe, facts: &mut DataFacts) {
    let mut left = u64::from(recipe.evaluation.problems);
    for set in facts.sets.iter_mut().filter(|set| set.part == Purpose::Evaluation && set.asked.is_none()) {
        let problems = left.min(set.prompts - set.too_long);
        left -= problems;
        let AnswerSampling { samples, max_tokens: answer_tokens, .. } = recipe.evaluation.sampling(&recipe.sampling);
        set.asked = Some(EvaluationVolume { problems, samples, answer_tokens });
    }
}

/// The files that a name stands for; a problem where there are none.
fn files_of(named: &Named<'_>, findings: &mut Findings) -> Vec<PathBuf> {
    let missing = |what: &str| {
        let hint = published::hint(named.file);
        format!("{}: {} {what}{hint}", named.key, named.file.display())
    };
    match expand(named.file, &|| false) {
        Ok(files) => {
            let absent = files.iter().any(|file| !file.exists());
            if absent {
                findings.data_problem(missing("does not exist"));
            }
            files.into_iter().filter(|file| file.exists()).collect()
        }
        Err(_) if named.file.display().to_string().contains(['*', '?', '[']) => {
            findings.data_problem(missing("matches no file"));
            Vec::new()
        }
        Err(error) => {
            findings.data_problem(format!("{}: {error}", named.key));
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
    let (limits, cancel) = (ReadLimits::default(), || false);
    let refuse = recipe.data.invalid_rows == InvalidRows::Refuse;
    let mut collector = Collector::new(&limits, &cancel, refuse);
    let name = path.display().to_string();
    if let Err(error) = collector.read_file(path, (0, &name), named.part, &named.rules) {
        findings.data_problem(format!("{}: {error}", named.key));
        return None;
    }
    let (problems, report) = collector.finish();
    for file in &report.files {
        if let Some(reason) = report.no_prompt(file) {
            findings.data_problem(format!("{}: {name} {reason}", named.key));
        }
    }
    if let Some(warning) = report.warning() {
        findings.note(format!("{name}: {warning}"));
    }
    let profile = recipe.reward.math.profile;
    let mut set = prompt_set(name, named.part, &problems, model, &recipe.data, room, profile);
    set.rows = rows(&report);
    set.asked = named.sampling.map(|(samples, answer_tokens)| EvaluationVolume {
        problems: set.prompts - set.too_long,
        samples,
        answer_tokens,
    });
    judge_lengths(recipe, named, &set, (model.context_tokens, room), findings);
    judge_template(named, &set, findings);
    // A run that imitates demonstrations first learns the form from them.
    if let Some(advice) = set.marked.advice().filter(|_| recipe.warm_start.steps == 0) {
        findings.note(format!("{}: {}: {advice}", named.key, set.name));
    }
    Some(set)
}

fn rows(report: &DataReport) -> u64 {
    report.files.iter().map(|file| file.rows).sum()
}

fn judge_lengths(
    recipe: &Recipe,
    named: &Named<'_>,
    set: &PromptSet,
    (context, room): (Option<usize>, Option<u64>),
    findings: &mut Findings,
) {
    let (Some(room), 1..) = (room, set.too_long) else { return };
    let (setting, most) = match named.sampling {
        None => ("sampling.max_tokens", recipe.sampling.max_tokens),
        Some((_, answer)) => ("evaluation.max_tokens or that of the benchmark", answer),
    };
    let context = context.unwrap_or(0);
    if room == 0 {
        // Whatever prompts there are.
        let allowed =
            format!("less than the model's context of {context} tokens, in which the prompt has to fit as well");
        return findings.data_problem(format!("{}: {}", named.key, FieldError::new(setting, most, allowed)));
    }
    let found = format!("{}: {} has {} prompts of more than {room} tokens", named.key, set.name, set.too_long);
    match recipe.data.overlong {
        Overlong::Refuse => findings.data_problem(format!(
            "{found}, which leave no room for a response of {most} ({setting}) in the model's context of {context}, \
             allowed: data.overlong = \"skip\" or \"cut\", or shorter answers"
        )),
        Overlong::Skip if set.too_long == set.prompts => findings.data_problem(format!("{found}: none is left")),
        Overlong::Skip => findings.note(format!("{found}, which are left out")),
        Overlong::Cut => findings.note(format!("{found}, whose first tokens are cut off")),
    }
}

/// Prompts that the template refuses are left out of a run, unless all of them are.
fn judge_template(named: &Named<'_>, set: &PromptSet, findings: &mut Findings) {
    let Some((id, error)) = &set.refused.first else { return };
    let found = format!("{}: {} prompts cannot be rendered ({id}: {error})", named.key, set.refused.count);
    if set.refused.count == set.prompts { findings.data_problem(found) } else { findings.note(found) }
}

/// Without files for evaluation problems are taken out of those to train on.
fn take_out_of_training(recipe: &Recipe, facts: &mut DataFacts) {
    let is_built_in = recipe.data.files.is_empty() && recipe.data.sources.is_empty();
    if is_built_in || !recipe.data.held_out_files.is_empty() || recipe.evaluation.problems == 0 {
        return;
    }
    let train = facts.prompts(Purpose::Training);
    let wanted = u64::from(recipe.evaluation.problems);
    let mean = facts.mean_tokens(Purpose::Training);
    let lengths = facts.lengths(Purpose::Training);
    let taken = wanted.min(train);
    if taken > 0 {
        if taken < train {
            take(taken, train, facts);
        }
        facts.sets.push(PromptSet {
            name: "held out from the training data".to_owned(),
            part: Purpose::Evaluation,
            rows: taken,
            prompts: taken,
            too_long: 0,
            asked: None,
            mean_tokens: mean,
            longest_tokens: None,
            longest_hinted: None,
            lengths,
            kinds: Vec::new(),
            has_hints: false,
            refused: Refused::default(),
            marked: MarkedPrompts::default(),
        });
    }
}

/// Takes prompts from the training files, from each its share of all.
fn take(taken: u64, train: u64, facts: &mut DataFacts) {
    let (mut seen, mut done) = (0, 0);
    for set in facts.sets.iter_mut().filter(|set| set.part == Purpose::Training) {
        seen += set.prompts - set.too_long;
        let share = taken * seen / train - done;
        set.prompts -= share;
        done += share;
    }
}
