//! Report on the rows of a data set (kept, merged, dropped): `data.json` of a run.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::read::printable;
use crate::{Reason, Shape};

/// How many examples of a reason are kept.
const EXAMPLES: usize = 10;
/// How many kinds of findings a message names.
const NAMED: usize = 3;
/// The name under which examples of merged rows stand.
const DUPLICATE: &str = "duplicate";

/// How many rows of a data set were kept, merged and dropped, with examples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataReport {
    /// Every file, in the order in which they were read.
    pub files: Vec<FileReport>,
    /// The first ten rows for each reason: a [`Reason`], `duplicate`, `cut`, or a finding about a gold answer by name.
    pub examples: BTreeMap<String, Vec<Example>>,
}

/// What a file is read for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    #[default]
    Training,
    Evaluation,
}

/// How many rows of a file were kept, merged and dropped, with examples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileReport {
    /// The file, as the settings or the command line name it.
    pub file: String,
    /// Name of its source.
    pub source: String,
    /// Purpose for which the file is read.
    pub part: Purpose,
    /// The shape of its first row; absent where no row could be read.
    pub shape: Option<Shape>,
    pub rows: u64,
    /// Rows that give a prompt: all but the duplicates and the dropped ones.
    pub prompts: u64,
    /// Prompts of a file for training that evaluations ask, and that are therefore not trained on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_out: u64,
    /// Rows with the messages and the gold answer of an earlier one, of this file or of one before.
    pub duplicates: u64,
    /// Rows that give no prompt, by reason.
    pub dropped: BTreeMap<Reason, u64>,
    /// Gold answers of prompts that training can do little with, by finding.
    pub suspicious: BTreeMap<String, u64>,
    /// Prompts that were cut to make room for a response.
    pub cut: u64,
    /// SHA-256 of the file, `sha256:` and 64 hexadecimal digits, where a run has read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A row that was dropped, merged or is suspicious.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    pub file: String,
    /// Name of the row, or its place in the file.
    pub row: String,
    /// What is wrong with it, or what it is the same as.
    pub message: String,
}

impl DataReport {
    /// A report on one file, for problems that do not come from files.
    pub fn of(source: &str, prompts: usize) -> Self {
        let prompts = prompts as u64;
        let file = FileReport { source: source.to_owned(), rows: prompts, prompts, ..FileReport::default() };
        Self { files: vec![file], examples: BTreeMap::new() }
    }

    pub(crate) fn begin(&mut self, file: String, source: &str, part: Purpose) -> usize {
        self.files.push(FileReport { file, source: source.to_owned(), part, ..FileReport::default() });
        self.files.len() - 1
    }

    /// Appends the files of another report to those of this one. Returns the index of the first of them.
    pub(crate) fn append(&mut self, other: Self) -> usize {
        let offset = self.files.len();
        self.files.extend(other.files);
        for (name, examples) in other.examples {
            let known = self.examples.entry(name).or_default();
            known.extend(examples);
            known.truncate(EXAMPLES);
        }
        offset
    }

    pub(crate) fn keep(&mut self, file: usize) {
        self.files[file].prompts += 1;
    }

    pub(crate) fn merge(&mut self, file: usize, row: impl ToString, same_as: impl ToString) {
        self.files[file].duplicates += 1;
        self.example(DUPLICATE, file, row, || format!("the same as {}", same_as.to_string()));
    }

    /// Counts a row that gave no prompt.
    pub(crate) fn reject(&mut self, file: usize, reason: Reason, row: impl ToString, message: impl ToString) {
        *self.files[file].dropped.entry(reason).or_default() += 1;
        self.example(reason.name(), file, row, || message.to_string());
    }

    /// Counts a prompt as dropped that was counted as kept before.
    pub fn drop_prompt(&mut self, file: usize, reason: Reason, row: impl ToString, message: impl ToString) {
        self.files[file].prompts -= 1;
        self.reject(file, reason, row, message);
    }

    /// Counts a gold answer that training can do little with.
    pub(crate) fn suspect(&mut self, file: usize, finding: &str, row: impl ToString, message: impl ToString) {
        *self.files[file].suspicious.entry(finding.to_owned()).or_default() += 1;
        self.example(finding, file, row, || message.to_string());
    }

    /// Counts a prompt that was cut.
    pub fn cut(&mut self, file: usize, row: impl ToString, message: impl ToString) {
        self.files[file].cut += 1;
        self.example("cut", file, row, || message.to_string());
    }

    fn example(&mut self, name: &str, file: usize, row: impl ToString, message: impl FnOnce() -> String) {
        if self.examples.get(name).is_some_and(|examples| examples.len() >= EXAMPLES) {
            return;
        }
        let message = printable(message());
        let example = Example { file: self.files[file].file.clone(), row: printable(row.to_string()), message };
        self.examples.entry(name.to_owned()).or_default().push(example);
    }

    /// Why a file yields no prompts, in a sentence that begins with the file; `None` where it yields one.
    pub fn no_prompt(&self, file: &FileReport) -> Option<String> {
        if file.prompts > 0 {
            return None;
        }
        if file.rows == 0 {
            return Some("has no rows, allowed: at least one".to_owned());
        }
        let examples = file.dropped.keys().filter_map(|reason| self.examples.get(reason.name()));
        let first = examples.flatten().find(|example| example.file == file.file);
        let first = first.map_or_else(String::new, |first| format!("; {}: {}", first.row, first.message));
        Some(format!("yields no prompts: {}{first}", file.counts()))
    }

    /// Takes the last file out again, of which nothing could be read.
    pub(crate) fn forget_last(&mut self) {
        self.files.pop();
    }

    /// What the user should know before a run, in one sentence with counts and the first example; `None` where all is
    /// well.
    pub fn warning(&self) -> Option<String> {
        let mut counts = BTreeMap::<&str, u64>::new();
        for file in &self.files {
            let dropped = file.dropped.iter().filter(|(reason, _)| **reason != Reason::Filtered);
            let dropped = dropped.map(|(reason, count)| (reason.name(), count));
            let suspicious = file.suspicious.iter().map(|(name, count)| (name.as_str(), count));
            dropped.chain(suspicious).for_each(|(name, count)| *counts.entry(name).or_default() += count);
        }
        if counts.is_empty() {
            return None;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let mut message = "rows of the data are dropped or suspicious: ".to_owned();
        for (index, (name, count)) in counts.iter().take(NAMED).enumerate() {
            let example = self.examples.get(*name).and_then(|examples| examples.first());
            let example = example.map_or_else(String::new, |first| format!(" (`{}`: {})", first.row, first.message));
            let _ = write!(message, "{}{count} {name}{example}", if index > 0 { ", " } else { "" });
        }
        let others = counts.len().saturating_sub(NAMED);
        if others > 0 {
            let _ = write!(message, " and {others} more kinds");
        }
        Some(message)
    }
}

impl FileReport {
    /// Whether all of its rows are at fault, rather than merged with others or not wanted.
    pub(crate) fn is_faulty(&self) -> bool {
        self.prompts == 0 && self.duplicates == 0 && self.dropped.keys().all(|reason| reason.is_fault())
    }

    /// The counts of the file in words.
    pub fn counts(&self) -> String {
        let mut text = format!("{} rows, {} prompts", self.rows, self.prompts);
        if self.duplicates > 0 {
            let _ = write!(text, ", {} duplicates", self.duplicates);
        }
        for (reason, count) in &self.dropped {
            let _ = write!(text, ", {count} {reason}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_examples_of_each_reason_are_kept_and_all_are_counted() {
        let mut report = DataReport::default();
        let file = report.begin("a.jsonl".into(), "a", Purpose::Training);
        for row in 0..12 {
            report.files[file].rows += 1;
            report.reject(file, Reason::EmptyGold, row, "the gold answer is empty");
        }
        report.files[file].rows += 2;
        (0..2).for_each(|_| report.keep(file));
        report.suspect(file, "prose", "p", "only its own words answer");
        report.drop_prompt(file, Reason::TooLong, "q", "100 tokens\n");
        let found = &report.files[file];
        assert_eq!((found.rows, found.prompts, found.dropped[&Reason::EmptyGold]), (14, 1, 12));
        assert_eq!(report.examples["empty-gold"].len(), 10);
        assert_eq!(report.examples["too-long"][0].message, "100 tokens\\n");
        let again: DataReport = serde_json::from_value(serde_json::to_value(&report).unwrap()).unwrap();
        assert_eq!(again, report);
        let warning = report.warning().unwrap();
        assert!(warning.contains("12 empty-gold (`0`: the gold answer is empty), 1 prose (`p`: only"), "{warning}");
    }

    #[test]
    fn what_is_only_unwanted_is_no_warning_and_no_fault() {
        let mut report = DataReport::of("a", 3);
        report.drop_prompt(0, Reason::Filtered, "p", "`level` is 1, allowed: 2");
        assert_eq!(report.warning(), None);
        assert_eq!(report.no_prompt(&report.files[0]), None);
        report.files[0].prompts = 0;
        assert!(!report.files[0].is_faulty());
        assert!(report.no_prompt(&report.files[0]).unwrap().ends_with("1 filtered; p: `level` is 1, allowed: 2"));
        report.files[0].dropped = BTreeMap::from([(Reason::MissingGold, 3)]);
        assert!(report.files[0].is_faulty());
        assert_eq!(report.no_prompt(&report.files[0]).unwrap(), "yields no prompts: 3 rows, 0 prompts, 3 missing-gold");
        report.files[0].rows = 0;
        assert!(report.no_prompt(&report.files[0]).unwrap().starts_with("has no rows"));
    }
}
