//! Problems of one source: those that are trained on, and those held out.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::read::{self, Limits};
use crate::{Cancel, DataError, Fields, Problem, Rules};
use evenkeel_seeds::{Stream, rng};
use rand::seq::SliceRandom;

/// Problems of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Its name in metrics.
    pub name: String,
    /// What is trained on.
    pub train: Vec<Problem>,
    /// What evaluations ask and training never sees: no prompt of `train` is among them.
    pub held_out: Vec<Problem>,
}

/// Where the files of a data set are, and how their rows are read.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSource {
    /// The problems to train on.
    pub path: PathBuf,
    /// The problems to evaluate on; `None` takes them out of `path`, by the seed.
    pub held_out_path: Option<PathBuf>,
    /// Which columns are read.
    pub fields: Fields,
    /// How answers are judged where a row does not say.
    pub rules: Rules,
}

impl Dataset {
    /// Reads the files of a source. The same files, seed and number of held-out problems give the same data set in the same order.
    ///
    /// # Errors
    /// A file that cannot be read or is beyond the limits, a row that is no problem (by file and line).
    pub fn read(
        source: &FileSource,
        seed: u64,
        held_out: u32,
        limits: &Limits,
        cancel: &Cancel,
    ) -> Result<Self, DataError> {
        let problems = |path| {
            let rows = read::rows(path, limits, cancel)?;
            let problem = |row: Result<crate::Row, DataError>| {
                let row = row?;
                Problem::read(&row, &source.fields, &source.rules)
                    .map_err(|error| DataError::file(path, format!("line {}: {error}", row.number())))
            };
            rows.map(problem).collect::<Result<Vec<_>, _>>()
        };
        let all = problems(&source.path)?;
        let (train, held_out) = match &source.held_out_path {
            None => hold_out(all, held_out, seed, |problem| problem.prompt.clone()),
            Some(path) => {
                let mut held = problems(path)?;
                let asked: HashSet<&str> = held.iter().map(|problem| problem.prompt.as_str()).collect();
                let before = all.len();
                let train: Vec<_> =
                    all.into_iter().filter(|problem| !asked.contains(problem.prompt.as_str())).collect();
                if train.len() < before {
                    let (left_out, path) = (before - train.len(), path.display());
                    tracing::warn!(left_out, %path, "problems to train on are also held out and not trained on");
                }
                held.truncate(held_out as usize);
                (train, held)
            }
        };
        let name =
            source.path.file_stem().map_or_else(|| "data".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Ok(Self { name, train, held_out })
    }

    /// All problems.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.train.iter().chain(&self.held_out)
    }
}

/// Takes `count` problems out by the seed. Problems of one `key` stay together: what is held out has no twin that is trained on.
pub(crate) fn hold_out<K: std::hash::Hash + Eq>(
    problems: Vec<Problem>,
    count: u32,
    seed: u64,
    key: impl Fn(&Problem) -> K,
) -> (Vec<Problem>, Vec<Problem>) {
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.shuffle(&mut rng(seed, Stream::HeldOut));
    let (mut keys, mut held) = (HashSet::new(), Vec::new());
    for index in order {
        if held.len() >= count as usize {
            break;
        }
        // One of each key is asked; its twins are in neither part.
        if keys.insert(key(&problems[index])) {
            held.push(problems[index].clone());
        }
    }
    let train = problems.into_iter().filter(|problem| !keys.contains(&key(problem))).collect();
    (train, held)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::TaskKind;

    fn read(text: &str, change: impl FnOnce(&mut FileSource)) -> Result<Dataset, String> {
        read_within(text, change, &Limits::default())
    }

    fn read_within(text: &str, change: impl FnOnce(&mut FileSource), limits: &Limits) -> Result<Dataset, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut source = FileSource { path, held_out_path: None, fields: Fields::default(), rules: Rules::default() };
        change(&mut source);
        let strip = |error: DataError| error.to_string().replace(&dir.path().display().to_string(), "");
        Dataset::read(&source, 0, 1, limits, &Cancel::default()).map_err(strip)
    }

    #[test]
    fn rows_become_problems_and_one_is_held_out() {
        let rows = (0..5).map(|i| format!("{{\"q\": \"what is {i}?\", \"answer\": {i}}}\n\n")).collect::<String>();
        let data = read(&rows, |source| source.fields = Fields::named("q", "", "", "")).unwrap();
        assert_eq!((data.name.as_str(), data.train.len(), data.held_out.len()), ("rows", 4, 1));
        assert!(!data.train.contains(&data.held_out[0]));
        let asks_for = |problem: &Problem| problem.task.golds().all(|gold| problem.prompt.contains(gold));
        assert!(data.train.iter().all(asks_for));
    }

    #[test]
    fn one_file_may_mix_kinds_of_tasks() {
        let rows = "{\"prompt\": \"a\", \"answer\": \"1\"}\n\
                    {\"prompt\": \"b\", \"public_test_cases\": [{\"input\": \"\", \"output\": \"1\"}]}\n\
                    {\"prompt\": \"c\", \"custom\": {\"endpoint\": \"judge\"}}\n";
        let data = read(rows, |_| {}).unwrap();
        let kinds: BTreeSet<_> = data.problems().map(|problem| problem.task.kind()).collect();
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [TaskKind::Math, TaskKind::Code, TaskKind::Custom]);
    }

    #[test]
    fn files_beyond_the_limits_are_refused_by_the_limit() {
        let row = "{\"prompt\": \"a\", \"answer\": \"1\"}\n";
        let refused = |change: &dyn Fn(&mut Limits)| {
            let mut limits = Limits::default();
            change(&mut limits);
            read_within(&row.repeat(3), |_| {}, &limits).unwrap_err()
        };
        let size = row.len() as u64;
        let error = refused(&|limits| limits.max_bytes = 3 * size - 1);
        assert!(
            error.ends_with(&format!("has {} bytes or more, allowed: at most {}", 3 * size, 3 * size - 1)),
            "{error}"
        );
        let error = refused(&|limits| limits.max_row_bytes = row.len() - 2);
        assert!(error.contains("line 1: longer than"), "{error}");
        let error = refused(&|limits| limits.max_rows = 2);
        assert!(error.contains("line 3: is one more than 2 problems"), "{error}");
    }

    #[test]
    fn a_held_out_prompt_is_never_trained_on() {
        let dir = tempfile::tempdir().unwrap();
        let held = dir.path().join("held.jsonl");
        std::fs::write(&held, "{\"prompt\": \"a\", \"answer\": \"1\"}\n").unwrap();
        let rows = "{\"prompt\": \"a\", \"answer\": \"1\"}\n{\"prompt\": \"b\", \"answer\": \"2\"}\n";
        let data = read(rows, |source| source.held_out_path = Some(held)).unwrap();
        assert_eq!((data.train.len(), data.train[0].prompt.as_str()), (1, "b"));
    }

    #[test]
    fn rows_that_are_no_problems_are_named() {
        let good = "{\"prompt\": \"a\", \"answer\": \"1\"}\n";
        let cases = [
            ("{", "/rows.jsonl: line 2: no JSON"),
            ("[1]", "/rows.jsonl: line 2: the row is a list, allowed: a JSON object"),
            ("{\"prompt\": \"a\"}", "/rows.jsonl: line 2: no gold answer, allowed: one of gold, "),
            ("{\"prompt\": \"\", \"answer\": \"1\"}", "/rows.jsonl: line 2: field `prompt` is empty, allowed: a text"),
            ("{\"prompt\": [], \"answer\": \"1\"}", "/rows.jsonl: line 2: field `prompt` is a list of messages"),
            ("{\"prompt\": \"a\", \"answer\": {}}", "/rows.jsonl: line 2: `answer` is an object, allowed: a text"),
            ("{\"prompt\": \"a\", \"answer\": \"\"}", "/rows.jsonl: line 2: the gold answer is empty, allowed: a text"),
        ];
        for (row, words) in cases {
            let error = read(&format!("{good}{row}\n"), |_| {}).unwrap_err();
            assert!(error.starts_with(words), "{row}: {error}");
        }
    }
}
