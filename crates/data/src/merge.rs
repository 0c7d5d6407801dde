//! One problem for each prompt: rows that appear again are merged with the first, rows that contradict each other are
//! dropped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::digest::{Digest, RowIdentity};
use crate::lint::{Suspicion, check_golds};
use crate::{DataReport, Problem, Reason, RowError, RowLocation};

/// What is known about the rows of one prompt and context.
#[derive(Debug)]
struct Known {
    first: Variant,
    /// First rows with other gold answers, by digest: a file may repeat one prompt with a million golds.
    others: HashMap<Digest, FirstRow>,
    /// The first problem among all of them.
    problem: Option<usize>,
}

/// The rows of one prompt and one gold answer.
#[derive(Debug, Clone)]
struct Variant {
    gold: Digest,
    outcome: FirstRow,
}

/// Outcome of the first row of a kind.
#[derive(Debug, Clone)]
enum FirstRow {
    /// The row is the problem at this index, or was until another row contradicted it.
    Problem(usize),
    /// The row contradicted an earlier row.
    Contradiction,
    /// The row's gold answer cannot be read.
    Unreadable(RowError),
}

impl Known {
    fn new(first: Variant) -> Self {
        let problem = first.outcome.problem();
        Self { first, others: HashMap::new(), problem }
    }

    /// Outcome of the first row with this gold answer.
    fn outcome_of(&self, gold: &Digest) -> Option<&FirstRow> {
        if self.first.gold == *gold { Some(&self.first.outcome) } else { self.others.get(gold) }
    }

    fn add(&mut self, gold: Digest, outcome: FirstRow) {
        self.problem = self.problem.or(outcome.problem());
        self.others.insert(gold, outcome);
    }
}

impl FirstRow {
    fn problem(&self) -> Option<usize> {
        match self {
            Self::Problem(index) => Some(*index),
            Self::Contradiction | Self::Unreadable(_) => None,
        }
    }
}

/// The problems of the rows read so far.
#[derive(Debug, Default)]
pub(crate) struct MergedProblems {
    /// In the order of their rows; `None` where another row contradicted it.
    problems: Vec<Option<Problem>>,
    /// Different rows, also those that were dropped.
    variants: usize,
    known: HashMap<Digest, Known>,
}

impl MergedProblems {
    /// Keeps a problem, or merges it with an earlier one.
    ///
    /// # Errors
    /// A gold answer that cannot be read, or that contradicts an earlier row.
    pub(crate) fn add(
        &mut self,
        mut problem: Problem,
        RowIdentity { context, gold }: RowIdentity,
        place: RowLocation,
        report: &mut DataReport,
    ) -> Result<(), RowError> {
        let file = problem.origin.file;
        let prompt = Digest::of_prompt(&problem.prompt).with(context);
        let known = match self.known.entry(prompt) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                let checked = check_golds(&mut problem);
                let outcome = match &checked {
                    Ok(_) => FirstRow::Problem(self.problems.len()),
                    Err(error) => FirstRow::Unreadable(error.clone()),
                };
                self.variants += 1;
                vacant.insert(Known::new(Variant { gold, outcome }));
                let suspicions = checked?;
                self.keep(problem, suspicions, report);
                return Ok(());
            }
        };
        if let Some(outcome) = known.outcome_of(&gold) {
            return match outcome {
                FirstRow::Unreadable(error) => Err(error.clone()),
                FirstRow::Problem(index) => {
                    let first = self.problems[*index].as_ref().map(|first| first.id.to_string());
                    report.merge(file, place, first.unwrap_or_else(|| "a row in conflict".to_owned()));
                    Ok(())
                }
                FirstRow::Contradiction => {
                    report.merge(file, place, "a row in conflict");
                    Ok(())
                }
            };
        }
        let checked = check_golds(&mut problem);
        let first = known.problem;
        let is_same = |first: &Problem| first.task.is_answered_alike(&problem.task);
        let same = first.filter(|index| self.problems[*index].as_ref().is_some_and(is_same));
        let (outcome, result) = match (checked, first) {
            (Err(error), _) => (FirstRow::Unreadable(error.clone()), Err(error)),
            (Ok(_), Some(index)) if same.is_some() => {
                // `\\frac12` and `0.5`
                let first = self.problems[index].as_ref().map_or_else(String::new, |first| first.id.to_string());
                report.merge(file, place, first);
                known.add(gold, FirstRow::Problem(index));
                self.variants += 1;
                return Ok(());
            }
            (Ok(_), Some(index)) => {
                let error = self.contradiction(index, &problem, report);
                (FirstRow::Contradiction, Err(error))
            }
            (Ok(suspicions), None) => (FirstRow::Problem(self.problems.len()), Ok(suspicions)),
        };
        if let Some(known) = self.known.get_mut(&prompt) {
            known.add(gold, outcome);
            self.variants += 1;
        }
        self.keep(problem, result?, report);
        Ok(())
    }

    fn keep(&mut self, problem: Problem, suspicions: Vec<Suspicion>, report: &mut DataReport) {
        let file = problem.origin.file;
        for suspicion in suspicions {
            report.suspect(file, suspicion.code, &problem.id, suspicion.message);
        }
        report.keep(file);
        self.problems.push(Some(problem));
    }

    /// Drops the problem at `index`, which `other` contradicts.
    fn contradiction(&mut self, index: usize, other: &Problem, report: &mut DataReport) -> RowError {
        let golds = |problem: &Problem| problem.task.golds().collect::<Vec<_>>().join(" or ");
        let message = |other: &Problem, own: &Problem| {
            format!(
                "has the same messages as `{}` and another gold answer: {}, not {}",
                other.id,
                golds(own),
                golds(other)
            )
        };
        let Some(first) = self.problems[index].take() else {
            let words = format!("has the same messages as rows in conflict, and the gold answer {}", golds(other));
            return RowError::new(Reason::Conflict, words);
        };
        report.drop_prompt(first.origin.file, Reason::Conflict, &first.id, message(other, &first));
        RowError::new(Reason::Conflict, message(&first, other))
    }

    /// Number of different rows: also those that are dropped are remembered.
    pub(crate) fn variants(&self) -> usize {
        self.variants
    }

    /// The problems in the order of their rows.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_iter().flatten().collect()
    }
}
