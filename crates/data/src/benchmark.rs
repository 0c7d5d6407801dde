//! Benchmarks: problems that are evaluated on and never trained on.

use std::path::PathBuf;

use crate::asked::Asked;
use crate::collect::{Collector, RowRules};
use crate::dataset::{drop_twins, files};
use crate::read::ReadLimits;
use crate::report::Purpose;
use crate::{Cancel, DataError, Dataset, Problem};

/// The files of a benchmark, and how their rows are read.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkFiles {
    /// Name of the benchmark in metrics.
    pub name: String,
    /// Files, or patterns that files match.
    pub files: Vec<PathBuf>,
    /// How rows are read.
    pub rules: RowRules,
    /// A row at fault refuses the benchmark, instead of being dropped and counted.
    pub refuse_faults: bool,
}

impl Dataset {
    /// A data set without problems, to which benchmarks are added.
    pub fn empty() -> Self {
        let (sources, train, held_out) = Default::default();
        Self { name: String::new(), sources, train, held_out, report: Default::default() }
    }

    /// The problems of a benchmark, in the order of its rows. Problems with the same text are no longer trained on; the
    /// report of the data set counts them and has the benchmark's files.
    ///
    /// # Errors
    /// A file that cannot be read, is beyond the limits, or has no row that is a problem; a row at fault, where such
    /// are refused.
    pub fn add_benchmark(
        &mut self,
        benchmark: &BenchmarkFiles,
        limits: &ReadLimits,
        cancel: Cancel<'_>,
    ) -> Result<Vec<Problem>, DataError> {
        let BenchmarkFiles { name, files: names, rules, refuse_faults } = benchmark;
        let mut collector = Collector::new(limits, cancel, *refuse_faults);
        for path in files(names, cancel)? {
            collector.read_file(&path, (0, name), Purpose::Evaluation, rules)?;
        }
        collector.require_prompts()?;
        let (mut problems, report) = collector.finish();
        let asked = Asked::of(&problems);
        let all = std::mem::take(&mut self.train).into_iter();
        let (twins, train): (Vec<_>, Vec<_>) = all.partition(|problem| asked.has(problem));
        self.train = train;
        drop_twins(&mut self.report, &twins);
        let offset = self.report.append(report);
        problems.iter_mut().for_each(|problem| problem.origin.file += offset);
        Ok(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataSource, FileSet, FileSource, Reason};

    #[test]
    fn problems_of_a_benchmark_are_not_trained_on() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let train =
            write("train.jsonl", "{\"prompt\": \"a b\", \"answer\": \"1\"}\n{\"prompt\": \"c\", \"answer\": \"2\"}\n");
        let asked = write("asked.jsonl", "{\"prompt\": \" A  b\", \"answer\": \"1\"}\n");
        let source = DataSource { name: "train".into(), weight: 1.0 };
        let set = FileSet {
            sources: vec![FileSource { source, files: vec![train], rules: RowRules::default() }],
            held_out: Vec::new(),
            held_out_rules: RowRules::default(),
            refuse_faults: true,
        };
        let (limits, cancel) = (ReadLimits::default(), || false);
        let mut data = Dataset::read("train", &set, 0, 0, &limits, &cancel).unwrap();
        let benchmark = BenchmarkFiles {
            name: "asked".into(),
            files: vec![asked],
            rules: RowRules::default(),
            refuse_faults: false,
        };
        let problems = data.add_benchmark(&benchmark, &limits, &cancel).unwrap();
        assert_eq!((problems.len(), problems[0].origin.file, data.train.len()), (1, 1, 1));
        assert_eq!(data.report.files[0].dropped[&Reason::InEvaluation], 1);
        assert_eq!((data.report.files[1].part, data.report.files[1].source.as_str()), (Purpose::Evaluation, "asked"));
    }
}
