//! Lines by column: what charts draw, in a fraction of the memory.

use std::collections::BTreeMap;

use super::{MetricsLine, Statistics};

/// The values of lines of one kind by name, in the order of their steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curves {
    columns: BTreeMap<String, Vec<(u64, f64)>>,
    lines: u64,
    last_step: Option<u64>,
}

impl Curves {
    /// The values of these lines.
    pub fn of(lines: &[MetricsLine]) -> Self {
        let mut curves = Self::default();
        lines.iter().for_each(|line| curves.push(line));
        curves
    }

    /// Adds the next line.
    pub fn push(&mut self, line: &MetricsLine) {
        self.push_only(line, |_| true);
    }

    /// Adds the next line with only some of its values.
    pub fn push_only(&mut self, line: &MetricsLine, keep: impl Fn(&str) -> bool) {
        for (name, value) in line.values.iter().filter(|(name, _)| keep(name)) {
            match self.columns.get_mut(name) {
                Some(column) => column.push((line.step, *value)),
                None => {
                    self.columns.insert(name.clone(), vec![(line.step, *value)]);
                }
            }
        }
        self.lines += 1;
        self.last_step = Some(line.step);
    }

    pub fn count(&self) -> u64 {
        self.lines
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Number of the last line's step.
    pub fn last_step(&self) -> Option<u64> {
        self.last_step
    }

    /// The names of all values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// The values of that name with the numbers of their steps.
    pub fn column(&self, name: &str) -> &[(u64, f64)] {
        self.columns.get(name).map_or(&[], Vec::as_slice)
    }

    /// The value at a step.
    pub fn at(&self, name: &str, step: u64) -> Option<f64> {
        let column = self.column(name);
        column.binary_search_by_key(&step, |(step, _)| *step).ok().map(|index| column[index].1)
    }

    /// The sum over the steps that have it.
    pub fn sum(&self, name: &str) -> f64 {
        self.column(name).iter().map(|(_, value)| value).sum()
    }

    /// The mean over the first `steps` steps, or all if there are fewer.
    pub fn first(&self, name: &str, steps: usize) -> Option<f64> {
        let first = self.lines.min(steps as u64);
        let column = self.column(name);
        mean(&column[..column.partition_point(|(step, _)| *step <= first)])
    }

    /// The mean over the steps that have it.
    pub fn mean(&self, name: &str) -> Option<f64> {
        mean(self.column(name))
    }

    /// The mean over the last `steps` steps, or all if there are fewer.
    pub fn last(&self, name: &str, steps: usize) -> Option<f64> {
        let before = self.last_step.map_or(0, |last| last.saturating_sub(steps as u64));
        let column = self.column(name);
        mean(&column[column.partition_point(|(step, _)| *step <= before)..])
    }
}

fn mean(values: &[(u64, f64)]) -> Option<f64> {
    Statistics::of(values.iter().map(|(_, value)| *value)).mean()
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    #[test]
    fn columns_have_the_values_of_their_steps_and_means_over_the_ends() {
        let lines: Vec<MetricsLine> = (1..31_u64)
            .map(|step| {
                let mut line = MetricsLine::new(StepKind::Train, step, step);
                line.set_named("a", (step - 1) as f64);
                line.set_named("sometimes", Some(1.0).filter(|_| step == 26));
                line
            })
            .collect();
        let curves = Curves::of(&lines);
        assert_eq!((curves.count(), curves.last_step(), curves.sum("a")), (30, Some(30), 435.0));
        assert_eq!((curves.first("a", 10), curves.last("a", 10)), (Some(4.5), Some(24.5)));
        assert_eq!((curves.first("sometimes", 10), curves.last("sometimes", 10)), (None, Some(1.0)));
        assert_eq!((curves.at("a", 7), curves.at("sometimes", 7), curves.at("b", 7)), (Some(6.0), None, None));
        assert_eq!(curves.names().collect::<Vec<_>>(), ["a", "sometimes"]);
    }
}
