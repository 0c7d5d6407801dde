//! From the rows of files to problems: rows at fault are dropped and counted, or end the reading.

use std::path::Path;
use std::sync::Arc;

use crate::digest::RowIdentity;
use crate::merge::MergedProblems;
use crate::read::{self, Columns, ReadError, ReadLimits};
use crate::report::Purpose;
use crate::{
    Cancel, DataError, DataReport, DataRow, Fields, Filter, Problem, ProblemOrigin, Reason, RowError, RowLocation,
    Rules, code,
};

/// How the rows of a source are read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowRules {
    /// Which columns are read.
    pub fields: Fields,
    /// Which rows are wanted: those that every filter accepts.
    pub filters: Vec<Filter>,
    /// How answers are judged where a row does not say.
    pub rules: Rules,
    /// Text appended to the last user message, in place of the run's.
    pub suffix: Option<Arc<str>>,
}

impl RowRules {
    fn columns(&self) -> Columns {
        self.fields.columns().with(self.filters.iter().map(|filter| filter.field.as_str()))
    }
}

/// Collects the problems of files. Rows that are merged or dropped are not kept.
pub struct Collector<'a> {
    limits: &'a ReadLimits,
    cancel: Cancel<'a>,
    refuse_faults: bool,
    merged: MergedProblems,
    report: DataReport,
}

impl<'a> Collector<'a> {
    /// A collector that has read nothing. With `refuse_faults` a row at fault ends it, instead of being dropped and
    /// counted.
    pub fn new(limits: &'a ReadLimits, cancel: Cancel<'a>, refuse_faults: bool) -> Self {
        Self { limits, cancel, refuse_faults, merged: MergedProblems::default(), report: DataReport::default() }
    }

    /// Reads a file of the source of that index and name. Returns the index of the file in the report.
    ///
    /// # Errors
    /// A file that cannot be read to its end, of which the report keeps what was read; one beyond the limits; with
    /// `refuse_faults` the first row at fault, by its place and field; a row that names an unknown verifier.
    pub fn read_file(
        &mut self,
        path: &Path,
        (source, name): (usize, &str),
        part: Purpose,
        rules: &RowRules,
    ) -> Result<usize, DataError> {
        let shown = path.display().to_string();
        let rows = read::rows(path, &rules.columns(), self.limits, self.cancel)?;
        let file = self.report.begin(shown.clone(), name, part);
        let origin = ProblemOrigin { source, file };
        for (index, row) in rows.enumerate() {
            let (place, problem) = match row {
                Ok(row) => {
                    self.report.files[file].shape.get_or_insert_with(|| rules.fields.shape(&row));
                    let place = row.location();
                    (place, read_row(&row, rules, origin, || format!("{shown}#{}", place.number())))
                }
                Err(ReadError::Row(place, error)) => (place, Err(error)),
                Err(ReadError::File(error)) => {
                    if index == 0 {
                        self.report.forget_last();
                    }
                    return Err(error);
                }
            };
            self.report.files[file].rows += 1;
            let added =
                problem.and_then(|(problem, identity)| self.merged.add(problem, identity, place, &mut self.report));
            if let Err(error) = added {
                self.refuse(&error, path, place)?;
                self.report.reject(file, error.reason, place, &error.problem);
            }
            if self.merged.variants() > self.limits.max_problems {
                let most = self.limits.max_problems;
                let message = format!("{place}: exceeds the limit of {most} problems (limits.max_problems)");
                return Err(DataError::file(path, message));
            }
        }
        let found = &self.report.files[file];
        let shape = found.shape.map_or("none", |shape| shape.name());
        tracing::info!(file = shown, shape, counts = found.counts(), "data file read");
        Ok(file)
    }

    fn refuse(&self, error: &RowError, path: &Path, place: RowLocation) -> Result<(), DataError> {
        let refuses = self.refuse_faults && error.reason.is_fault();
        if refuses || matches!(error.reason, Reason::UnknownVerifier | Reason::UnknownEnvironment) {
            Err(DataError::file(path, format!("{place}: {error}")))
        } else {
            Ok(())
        }
    }

    /// What has been read so far.
    pub fn report(&self) -> &DataReport {
        &self.report
    }

    /// Refuses files whose rows are all at fault.
    ///
    /// # Errors
    /// The first of them, with the counts of its reasons and the first row.
    pub fn require_prompts(&self) -> Result<(), DataError> {
        for file in self.report.files.iter().filter(|file| file.is_faulty()) {
            if let Some(reason) = self.report.no_prompt(file) {
                return Err(DataError::file(Path::new(&file.file), reason));
            }
        }
        Ok(())
    }

    /// The problems in the order of their rows, and the fate of the other rows.
    pub fn finish(self) -> (Vec<Problem>, DataReport) {
        (self.merged.into_problems(), self.report)
    }
}

fn read_row(
    row: &DataRow,
    rules: &RowRules,
    origin: ProblemOrigin,
    unnamed: impl FnOnce() -> String,
) -> Result<(Problem, RowIdentity), RowError> {
    rules.filters.iter().try_for_each(|filter| filter.check(row))?;
    let problem = Problem::read(row, &rules.fields, &rules.rules, origin, unnamed)?;
    code::check_outputs(&problem.task)?;
    let identity = rules.fields.identity(row, &problem.task, problem.environment.is_some())?;
    let context = identity.context.map(|context| context.to_string().into());
    Ok((Problem { context, suffix: rules.suffix.clone(), ..problem }, identity))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::filter::Accepts;

    /// Reads files of these lines, each as a source of its own.
    fn collect(files: &[&str], rules: &RowRules) -> (Vec<Problem>, DataReport) {
        let dir = tempfile::tempdir().unwrap();
        let (limits, cancel) = (ReadLimits::default(), || false);
        let mut collector = Collector::new(&limits, &cancel, false);
        for (index, text) in files.iter().enumerate() {
            let path = dir.path().join(format!("{index}.jsonl"));
            std::fs::write(&path, text).unwrap();
            collector.read_file(&path, (index, "s"), Purpose::Training, rules).unwrap();
        }
        collector.finish()
    }

    fn counts(report: &DataReport) -> Vec<(u64, u64, u64, BTreeMap<Reason, u64>)> {
        let file = |file: &crate::FileReport| (file.rows, file.prompts, file.duplicates, file.dropped.clone());
        report.files.iter().map(file).collect()
    }

    fn row(prompt: &str, gold: &str) -> String {
        format!("{{\"prompt\": {prompt:?}, \"answer\": {gold:?}}}\n")
    }

    #[test]
    fn repeated_rows_are_merged_with_the_first_and_counted_in_the_later_file() {
        let first = row("a", "1") + &row("b", "2") + &row("a", "1");
        let second = row("b", "2") + &row("c", "3");
        let (problems, report) = collect(&[&first, &second], &RowRules::default());
        let none = BTreeMap::new;
        assert_eq!(counts(&report), [(3, 2, 1, none()), (2, 1, 1, none())]);
        let ids: Vec<_> = problems.iter().map(|problem| problem.id.to_string()).collect();
        assert!(ids[0].ends_with("0.jsonl#1") && ids[1].ends_with("0.jsonl#2") && ids[2].ends_with("1.jsonl#2"));
        assert_eq!(problems[2].origin, ProblemOrigin { source: 1, file: 1 });
        assert!(report.examples["duplicate"][0].message.ends_with("0.jsonl#1"));
    }

    #[test]
    fn rows_that_contradict_each_other_are_dropped_and_named_whichever_comes_first() {
        let rows = [row("a", "1"), row("a", "2"), row("a", "1"), row("a", "3"), row("b", "1"), row("a", "2")];
        for rows in [rows.concat(), rows.iter().rev().cloned().collect::<String>()] {
            let (problems, report) = collect(&[&rows], &RowRules::default());
            assert_eq!(problems.len(), 1);
            assert_eq!(counts(&report), [(6, 1, 2, BTreeMap::from([(Reason::Conflict, 3)]))]);
            assert!(report.examples["conflict"][0].message.contains("and another gold answer: "));
        }
    }

    #[test]
    fn gold_answers_that_are_equal_in_another_spelling_are_duplicates() {
        let rows = [row("a", "\\frac12"), row("a", "0.5"), row("a", "$\\frac{1}{2}$"), row("a", "1/2")];
        for rows in [rows.concat(), rows.iter().rev().cloned().collect::<String>()] {
            let (problems, report) = collect(&[&rows], &RowRules::default());
            assert_eq!(problems.len(), 1);
            assert_eq!(counts(&report), [(4, 1, 3, BTreeMap::new())]);
        }
        // A rounded one is another.
        let (_, report) = collect(&[&(row("a", "1/3") + &row("a", "0.333"))], &RowRules::default());
        assert_eq!(counts(&report), [(2, 0, 0, BTreeMap::from([(Reason::Conflict, 2)]))]);
    }

    #[test]
    fn gold_answers_that_nothing_matches_are_named() {
        let golds = ["^\\d+$", "x = 3 = 4", "\\int_0^1 x\\,dx", "N/A"];
        let rows: String = golds.iter().map(|gold| row(gold, gold)).collect();
        let (_, report) = collect(&[&rows], &RowRules::default());
        let found: Vec<_> = report.files[0].suspicious.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(found, [("contradiction", 1), ("only_as_written", 1), ("pattern", 2)]);
    }

    #[test]
    fn a_gold_answer_that_cannot_be_read_is_no_contradiction() {
        let rows = [row("a", "\\frac{1}{0}"), row("a", "1"), row("a", "\\frac{1}{0}"), row("a", "")];
        for rows in [rows.concat(), rows.iter().rev().cloned().collect::<String>()] {
            let (problems, report) = collect(&[&rows], &RowRules::default());
            assert_eq!(problems[0].task.golds().collect::<Vec<_>>(), ["1"]);
            let dropped = BTreeMap::from([(Reason::UnreadableGold, 2), (Reason::EmptyGold, 1)]);
            assert_eq!(counts(&report), [(4, 1, 0, dropped)]);
        }
    }

    #[test]
    fn rows_at_fault_are_dropped_by_reason_and_the_others_stay() {
        let rows = "{]\n[1]\n{\"prompt\": \"a\"}\n{\"prompt\": \"\", \"answer\": 1}\n\n{\"answer\": 1}\n".to_owned()
            + "{\"prompt\": [{\"role\": \"x\", \"content\": \"a\"}], \"answer\": 1}\n"
            + "{\"prompt\": \"a\", \"public_test_cases\": \"[\"}\n"
            + &row("b", "1");
        let (problems, report) = collect(&[&rows], &RowRules::default());
        assert!(problems[0].id.to_string().ends_with("#9"), "by its line, blank ones counted: {}", problems[0].id);
        let dropped = [
            (Reason::InvalidRow, 2),
            (Reason::MissingGold, 1),
            (Reason::EmptyPrompt, 1),
            (Reason::MissingPrompt, 1),
            (Reason::InvalidMessages, 1),
            (Reason::InvalidTests, 1),
        ];
        assert_eq!(counts(&report), [(8, 1, 0, BTreeMap::from(dropped))]);
        assert_eq!(report.examples["invalid-messages"][0].row, "line 7");
    }

    /// Rows that a reward function judges, in an environment that may score them.
    fn own(environment: &str) -> RowRules {
        let verifiers = crate::Verifiers::new([("own", Vec::<String>::new())], "");
        let environments = crate::Environments::new(vec![], environment).without_score(["calculator".to_owned()]);
        let fields = Fields::default().with_verifiers(verifiers).with_environments(environments);
        RowRules { fields, ..RowRules::default() }
    }

    #[test]
    fn rows_of_reward_functions_are_told_apart_by_every_column_but_their_place() {
        let row = |id: u32, money: u32, gold: u32| {
            format!(
                r#"{{"prompt": "buy", "verifier": "own", "id": {id}, "money": {money}, "answer": {gold}, "extra_info": {{"index": {id}}}}}"#
            ) + "\n"
        };
        let (problems, report) = collect(&[&(row(1, 5, 1) + &row(2, 6, 1) + &row(3, 5, 1))], &own(""));
        assert_eq!(counts(&report), [(3, 2, 1, BTreeMap::new())]);
        let payload = |problem: &Problem| match problem.task.message() {
            evenkeel_proto::v1::verify_item::Task::Custom(task) => String::from_utf8(task.payload).unwrap(),
            other => panic!("{other:?}"),
        };
        let expected = r#"{"answer":1,"extra_info":{"index": 2},"id":2,"money":6,"prompt":"buy","verifier":"own"}"#;
        assert_eq!(payload(&problems[1]), expected, "the whole row");
        let (_, report) = collect(&[&(row(1, 5, 1) + &row(2, 5, 2))], &own(""));
        assert_eq!(counts(&report), [(2, 0, 0, BTreeMap::from([(Reason::Conflict, 2)]))]);
    }

    #[test]
    fn a_row_needs_no_gold_answer_where_its_environment_has_a_score() {
        let rows = "{\"prompt\": \"buy\", \"money\": 1}\n{\"prompt\": \"buy\", \"money\": 2}\n";
        let (problems, _) = collect(&[rows], &own("shop.py"));
        let payloads: Vec<_> = problems.iter().map(|problem| problem.environment.clone().unwrap().payload).collect();
        assert_eq!(payloads[1], Arc::from(*br#"{"money":2,"prompt":"buy"}"#));
        assert!(problems.iter().all(|problem| problem.task.kind() == crate::TaskKind::Environment));
        for without in ["calculator", ""] {
            let (_, report) = collect(&[rows], &own(without));
            assert_eq!(counts(&report), [(2, 0, 0, BTreeMap::from([(Reason::MissingGold, 2)]))], "{without}");
        }
    }

    #[test]
    fn what_no_model_here_would_see_is_refused_by_name() {
        let row = |more: &str| format!("{{\"prompt\": \"a\", \"answer\": 1, {more}}}\n");
        for (more, name) in [
            (r#""images": [{"path": "a.png", "bytes": null}]"#, "images"),
            (r#""image": "a.png""#, "image"),
            (r#""tools": [{"name": "f"}]"#, "tools"),
        ] {
            let (_, report) = collect(&[&row(more)], &RowRules::default());
            assert_eq!(counts(&report), [(1, 0, 0, BTreeMap::from([(Reason::InvalidMessages, 1)]))]);
            let said = &report.examples["invalid-messages"][0].message;
            assert!(said.starts_with(&format!("`{name}` is present, allowed: absent")), "{said}");
        }
        for more in [r#""images": []"#, r#""images": null"#, r#""tools": """#] {
            assert_eq!(collect(&[&row(more)], &RowRules::default()).0.len(), 1, "{more}");
        }
        assert_eq!(collect(&[&row(r#""tools": ["x"]"#)], &own("shop.py")).0.len(), 1, "the environment may read it");
    }

    #[test]
    fn filters_leave_rows_out() {
        let rows: String =
            (0..8).map(|n| format!("{{\"problem\": \"p{n}\", \"answer\": 1, \"difficulty\": \"{n}/8\"}}\n")).collect();
        let accepts = Accepts::Range { min: crate::number("1/8"), max: crate::number("6/8") };
        let filters = vec![Filter { field: "difficulty".into(), accepts }];
        let (problems, report) = collect(&[&rows], &RowRules { filters, ..RowRules::default() });
        assert_eq!(problems.len(), 6);
        assert_eq!(counts(&report), [(8, 6, 0, BTreeMap::from([(Reason::Filtered, 2)]))]);
    }
}
