//! Problems of one or several sources: those that are trained on, and those held out.

use std::collections::HashSet;
use std::path::PathBuf;

use evenkeel_seeds::{Stream, rng};
use rand::seq::SliceRandom;

use crate::asked::{Asked, question_of};
use crate::collect::{Collector, RowRules};
use crate::read::{ReadLimits, expand};
use crate::report::Purpose;
use crate::{Cancel, DataError, DataReport, Problem, Reason};

/// Problems of one or several sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Name of the data set in metrics.
    pub name: String,
    /// Where `train` comes from; at least one.
    pub sources: Vec<DataSource>,
    /// What is trained on, source by source.
    pub train: Vec<Problem>,
    /// What evaluations ask and training never sees: no prompt of `train` is among them.
    pub held_out: Vec<Problem>,
    /// Counts and examples of rows that were kept, merged and dropped.
    pub report: DataReport,
}

/// A source of problems.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSource {
    pub name: String,
    /// Share among the prompts of a step, relative to the weights of the other sources.
    pub weight: f64,
}

/// Files of a data set, and how their rows are read.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSet {
    /// The problems to train on; at least one source.
    pub sources: Vec<FileSource>,
    /// The problems to evaluate on; without any they are held out from the sources, chosen by the seed.
    pub held_out: Vec<PathBuf>,
    /// How the rows of `held_out` are read.
    pub held_out_rules: RowRules,
    /// A row at fault refuses the data set, instead of being dropped and counted.
    pub refuse_faults: bool,
}

/// Files whose problems are drawn together.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSource {
    /// Name and weight under which the problems are drawn.
    pub source: DataSource,
    /// Files, or patterns that files match.
    pub files: Vec<PathBuf>,
    /// How rows are read.
    pub rules: RowRules,
}

impl Dataset {
    /// Reads the files of a set. Equal files, seed and number of held-out problems give an equal data set in an equal
    /// order.
    ///
    /// # Errors
    /// A file that cannot be read, is beyond the limits, or has no row that is a problem; a row at fault, where such
    /// are refused.
    pub fn read(
        name: &str,
        set: &FileSet,
        seed: u64,
        held_out: u32,
        limits: &ReadLimits,
        cancel: Cancel<'_>,
    ) -> Result<Self, DataError> {
        let mut collector = Collector::new(limits, cancel, set.refuse_faults);
        for (index, source) in set.sources.iter().enumerate() {
            for path in files(&source.files, cancel)? {
                collector.read_file(&path, (index, &source.source.name), Purpose::Training, &source.rules)?;
            }
        }
        collector.require_prompts()?;
        let (all, mut report) = collector.finish();
        let (train, held_out) = if set.held_out.is_empty() {
            let (train, held, twins) = hold_out(all, held_out, seed, question_of);
            drop_twins(&mut report, &twins);
            (train, held)
        } else {
            let mut collector = Collector::new(limits, cancel, set.refuse_faults);
            for path in files(&set.held_out, cancel)? {
                collector.read_file(&path, (0, name), Purpose::Evaluation, &set.held_out_rules)?;
            }
            collector.require_prompts()?;
            let (mut held, evaluation) = collector.finish();
            let asked = Asked::of(&held);
            let (twins, train): (Vec<_>, Vec<_>) = all.into_iter().partition(|problem| asked.has(problem));
            drop_twins(&mut report, &twins);
            let offset = report.append(evaluation);
            held.iter_mut().for_each(|problem| problem.origin.file += offset);
            held.truncate(held_out as usize);
            (train, held)
        };
        let sources = set.sources.iter().map(|source| source.source.clone()).collect();
        Ok(Self { name: name.to_owned(), sources, train, held_out, report })
    }

    /// Problems of all sources, in their order.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.train.iter().chain(&self.held_out)
    }
}

pub(crate) fn files(names: &[PathBuf], cancel: Cancel<'_>) -> Result<Vec<PathBuf>, DataError> {
    let files: Vec<_> = names.iter().map(|name| expand(name, cancel)).collect::<Result<_, _>>()?;
    Ok(files.into_iter().flatten().collect())
}

/// Counts problems that are asked in evaluations and therefore not trained on.
pub(crate) fn drop_twins(report: &mut DataReport, twins: &[Problem]) {
    if !twins.is_empty() {
        tracing::warn!(left_out = twins.len(), "problems to train on are also held out and not trained on");
    }
    for twin in twins {
        let message = "the same text is among the problems for evaluation";
        report.drop_prompt(twin.origin.file, Reason::InEvaluation, &twin.id, message);
    }
}

/// Holds out `count` problems, chosen by the seed: what is trained on, what is held out, and what is in neither part
/// since its key is held out. What is held out has no twin that is trained on.
pub(crate) fn hold_out<K: std::hash::Hash + Eq>(
    problems: Vec<Problem>,
    count: u32,
    seed: u64,
    key: impl Fn(&Problem) -> K,
) -> (Vec<Problem>, Vec<Problem>, Vec<Problem>) {
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.shuffle(&mut rng(seed, Stream::HeldOut));
    let mut keys = HashSet::new();
    let mut held = Vec::new();
    for index in order {
        if held.len() >= count as usize {
            break;
        }
        // One of each key is asked; its twins are in neither part.
        if keys.insert(key(&problems[index])) {
            held.push(index);
        }
    }
    let asked: HashSet<usize> = held.iter().copied().collect();
    let held = held.into_iter().map(|index| problems[index].clone()).collect();
    let rest = problems.into_iter().enumerate().filter(|(index, _)| !asked.contains(index)).map(|(_, problem)| problem);
    let (twins, train): (Vec<_>, Vec<_>) = rest.partition(|problem| keys.contains(&key(problem)));
    (train, held, twins)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Fields, TaskKind, Verifiers};
    use evenkeel_chat::Prompt;

    fn read(text: &str, change: impl FnOnce(&mut FileSet)) -> Result<Dataset, String> {
        read_within(text, change, &ReadLimits::default())
    }

    fn read_within(text: &str, change: impl FnOnce(&mut FileSet), limits: &ReadLimits) -> Result<Dataset, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, text).unwrap();
        let source = DataSource { name: "rows".into(), weight: 1.0 };
        let source = FileSource { source, files: vec![path], rules: RowRules::default() };
        let mut set = FileSet {
            sources: vec![source],
            held_out: Vec::new(),
            held_out_rules: RowRules::default(),
            refuse_faults: true,
        };
        change(&mut set);
        let strip = |error: DataError| error.to_string().replace(&dir.path().display().to_string(), "");
        Dataset::read("rows", &set, 0, 1, limits, &|| false).map_err(strip)
    }

    fn text(problem: &Problem) -> &str {
        match &problem.prompt {
            Prompt::Text(text) => text,
            Prompt::Messages(_) | Prompt::Either { .. } => panic!("a text was written"),
        }
    }

    #[test]
    fn rows_that_an_environment_tells_apart_are_held_out_each_for_itself() {
        let rows = (0..5).map(|i| format!("{{\"prompt\": \"buy\", \"money\": {i}}}\n")).collect::<String>();
        let shop = |set: &mut FileSet| {
            let environments = crate::Environments::new(vec![], "shop.py");
            set.sources[0].rules.fields = Fields::default().with_environments(environments);
        };
        let data = read(&rows, shop).unwrap();
        assert_eq!((data.train.len(), data.held_out.len()), (4, 1));
        let asked = Asked::of(&data.held_out);
        assert!(asked.has(&data.held_out[0]) && !data.train.iter().any(|problem| asked.has(problem)));
        let plain = Problem { context: None, ..data.train[0].clone() };
        assert!(asked.has(&plain), "where one has nothing but its prompt, that decides");
    }

    #[test]
    fn rows_become_problems_and_one_is_held_out() {
        let rows = (0..5).map(|i| format!("{{\"q\": \"what is {i}?\", \"answer\": {i}}}\n\n")).collect::<String>();
        let data = read(&rows, |set| set.sources[0].rules.fields = Fields::named("q", "", "", "")).unwrap();
        assert_eq!((data.name.as_str(), data.train.len(), data.held_out.len()), ("rows", 4, 1));
        assert!(!data.train.contains(&data.held_out[0]));
        let asks_for = |problem: &Problem| problem.task.golds().all(|gold| text(problem).contains(gold));
        assert!(data.train.iter().all(asks_for));
    }

    #[test]
    fn one_file_may_mix_kinds_of_tasks() {
        let rows = "{\"prompt\": \"a\", \"answer\": \"1\"}\n\
                    {\"prompt\": \"b\", \"public_test_cases\": [{\"input\": \"\", \"output\": \"1\"}]}\n\
                    {\"prompt\": \"c\", \"custom\": {\"endpoint\": \"judge\"}}\n";
        let judge = Verifiers::new([("judge", Vec::<String>::new())], "");
        let data = read(rows, |set| set.sources[0].rules.fields = Fields::default().with_verifiers(judge)).unwrap();
        let kinds: BTreeSet<_> = data.problems().map(|problem| problem.task.kind()).collect();
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [TaskKind::Math, TaskKind::Code, TaskKind::Custom]);
    }

    #[test]
    fn files_beyond_the_limits_are_refused_by_the_limit() {
        let row = |prompt: char| format!("{{\"prompt\": \"{prompt}\", \"answer\": \"1\"}}\n");
        let rows = format!("{}{}{}", row('a'), row('b'), row('b'));
        let refused = |change: &dyn Fn(&mut ReadLimits)| {
            let mut limits = ReadLimits::default();
            change(&mut limits);
            read_within(&rows, |_| {}, &limits).unwrap_err()
        };
        let size = rows.len() as u64;
        let error = refused(&|limits| limits.max_bytes = size - 1);
        assert!(error.ends_with(&format!("has {size} bytes or more, allowed: at most {}", size - 1)), "{error}");
        let error = refused(&|limits| limits.max_row_bytes = row('a').len() - 2);
        assert!(error.contains("line 1: longer than"), "{error}");
        let error = refused(&|limits| limits.max_rows = 2);
        assert!(error.contains("line 3: exceeds the limit of 2 rows"), "{error}");
        let error = refused(&|limits| limits.max_problems = 1);
        assert!(error.contains("line 2: exceeds the limit of 1 problems"), "{error}");
        let limits = ReadLimits { max_problems: 2, ..ReadLimits::default() };
        assert!(read_within(&rows, |_| {}, &limits).is_ok(), "duplicates are not problems of their own");
    }

    #[test]
    fn a_held_out_prompt_is_never_trained_on() {
        let dir = tempfile::tempdir().unwrap();
        let held = dir.path().join("held.jsonl");
        std::fs::write(&held, "{\"prompt\": \" A\\tb\", \"answer\": \"1\"}\n").unwrap();
        let rows = "{\"prompt\": \"a b\", \"answer\": \"1\"}\n{\"prompt\": \"b\", \"answer\": \"2\"}\n";
        let data = read(rows, |set| set.held_out = vec![held]).unwrap();
        assert_eq!((data.train.len(), text(&data.train[0])), (1, "b"));
        let [training, evaluation] = &data.report.files[..] else { panic!("{:?}", data.report) };
        assert_eq!((training.prompts, training.dropped[&Reason::InEvaluation]), (1, 1));
        assert_eq!((evaluation.part, evaluation.prompts), (Purpose::Evaluation, 1));
        assert_eq!(data.held_out[0].origin.file, 1);
    }

    #[test]
    fn of_problems_with_the_same_text_none_is_trained_on_once_one_is_held_out() {
        let rows = "{\"prompt\": \"a\", \"answer\": \"1\"}\n{\"prompt\": \"A \", \"answer\": \"1\"}\n";
        let data = read(rows, |_| {}).unwrap();
        assert_eq!((data.train.len(), data.held_out.len()), (0, 1));
        assert_eq!(data.report.files[0].dropped[&Reason::InEvaluation], 1);
    }

    #[test]
    fn rows_that_are_no_problems_are_named_where_they_are_refused() {
        let good = "{\"prompt\": \"a\", \"answer\": \"1\"}\n";
        let cases = [
            ("{", "/rows.jsonl: line 2: not JSON"),
            ("[1]", "/rows.jsonl: line 2: the row is a list, allowed: a JSON object"),
            ("{\"prompt\": \"a\"}", "/rows.jsonl: line 2: no gold answer, allowed: one of gold, "),
            ("{\"prompt\": \"\", \"answer\": \"1\"}", "/rows.jsonl: line 2: prompt is empty, allowed: a text"),
            ("{\"prompt\": [], \"answer\": \"1\"}", "/rows.jsonl: line 2: prompt is messages of []"),
            ("{\"prompt\": \"b\", \"answer\": {}}", "/rows.jsonl: line 2: `answer` is an object, allowed: a text"),
            ("{\"prompt\": \"b\", \"answer\": \"\"}", "/rows.jsonl: line 2: the gold answer is empty, allowed: a text"),
            (
                "{\"prompt\": \"a\", \"answer\": \"2\"}",
                "/rows.jsonl: line 2: has the same messages as `/rows.jsonl#1` and",
            ),
        ];
        for (row, words) in cases {
            let error = read(&format!("{good}{row}\n"), |_| {}).unwrap_err();
            assert!(error.starts_with(words), "{row}: {error}");
        }
    }

    #[test]
    fn a_file_without_a_single_problem_is_refused_with_what_is_wrong() {
        let rows = "{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n";
        let error = read(rows, |set| set.refuse_faults = false).unwrap_err();
        assert!(
            error.starts_with("/rows.jsonl: yields no prompts: 2 rows, 0 prompts, 1 missing-prompt, 1 missing-gold"),
            "{error}"
        );
        let error = read("\n", |set| set.refuse_faults = false).unwrap_err();
        assert_eq!(error, "/rows.jsonl: has no rows, allowed: at least one");
    }
}
