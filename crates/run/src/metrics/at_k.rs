//! Names of an evaluation's metrics: `val-core/BENCHMARK/acc/METRIC@K`, or `reward` for `acc` where nobody says which
//! answers are correct. They are verl's where verl has the quantity.

use super::quantity::Quantity;
use crate::metric::table;

/// The benchmark that is the mean over those that count towards it.
pub const AVERAGE: &str = "average";

/// The name of a benchmark's accuracy or mean reward, by `mean@8` or another metric.
pub fn core(benchmark: &str, quantity: Quantity, metric: &str) -> String {
    match quantity {
        Quantity::Accuracy => table::ACCURACY.of([&benchmark, &metric]).into(),
        Quantity::Reward => table::MEAN_REWARD.of([&benchmark, &metric]).into(),
    }
}

/// What else is reported about a benchmark.
pub fn aux(benchmark: &str, name: &str) -> String {
    format!("val-aux/{benchmark}/{name}")
}

/// The name of what else is known of such a value: its `standard_error` over problems, its `sampling_error`.
pub fn about(benchmark: &str, quantity: Quantity, metric: &str, what: &str) -> String {
    let quantity = quantity_name(quantity);
    aux(benchmark, &format!("{quantity}/{metric}/{what}"))
}

/// The mean of a benchmark's problems of one data source, by `mean@8`.
pub fn of_source(benchmark: &str, source: &str, quantity: Quantity, metric: &str) -> String {
    table::SOURCE_MEAN.of([&benchmark, &source, &quantity_name(quantity), &metric]).into()
}

/// The standard error of [`of_source`] over problems.
pub fn error_of_source(benchmark: &str, source: &str, metric: &str) -> String {
    table::SOURCE_MEAN_ERROR.of([&benchmark, &source, &metric]).into()
}

/// How many problems of one data source a benchmark has.
pub fn problems_of_source(benchmark: &str, source: &str) -> String {
    table::SOURCE_PROBLEMS.of([&benchmark, &source]).into()
}

/// The mean length of the responses to them.
pub fn length_of_source(benchmark: &str, source: &str) -> String {
    table::SOURCE_EVALUATED_LENGTH.of([&benchmark, &source]).into()
}

/// The data source of a name by [`problems_of_source`].
pub fn parse_source<'a>(benchmark: &str, name: &'a str) -> Option<&'a str> {
    name.strip_prefix("val-source/")?.strip_prefix(benchmark)?.strip_prefix('/')?.strip_suffix("/problems")
}

/// The numbers of samples for which pass@n is reported: powers of 2 up to `k`, and `k`.
pub fn pass_numbers(k: u32) -> Vec<u32> {
    let powers = std::iter::successors(Some(2_u32), |n| n.checked_mul(2)).take_while(|n| *n < k);
    powers.chain((k > 1).then_some(k)).collect()
}

/// All accuracies of an evaluation with `k` samples for each problem. maj@k needs answers that can be compared, which
/// programs are not.
pub fn accuracies(k: u32) -> Vec<String> {
    let mut names = vec![format!("mean@{k}")];
    if k > 1 {
        names.extend([format!("best@{k}"), format!("best@{k}/mean"), format!("maj@{k}")]);
        names.extend(pass_numbers(k).iter().map(|n| format!("pass@{n}")));
    }
    names
}

/// Benchmark, quantity and metric of a name such as `val-core/aime/acc/mean@8`.
pub fn parse_core(name: &str) -> Option<(&str, Quantity, &str)> {
    let name = name.strip_prefix("val-core/")?;
    let parts = |quantity| {
        let (benchmark, metric) = name.rsplit_once(&format!("/{}/", quantity_name(quantity)))?;
        Some((benchmark, quantity, metric))
    };
    parts(Quantity::Accuracy).or_else(|| parts(Quantity::Reward))
}

/// The quantity in names of metrics.
fn quantity_name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Accuracy => "acc",
        Quantity::Reward => "reward",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_is_reported_for_powers_of_two_and_all_samples() {
        assert_eq!(pass_numbers(8), [2, 4, 8]);
        assert_eq!(pass_numbers(6), [2, 4, 6]);
        assert_eq!(pass_numbers(1), [0; 0]);
        assert_eq!(accuracies(1), ["mean@1"]);
        assert_eq!(accuracies(2), ["mean@2", "best@2", "best@2/mean", "maj@2", "pass@2"]);
    }

    #[test]
    fn a_name_is_taken_apart_where_it_was_put_together() {
        assert_eq!(parse_source("aime", &problems_of_source("aime", "a/b")), Some("a/b"));
        assert_eq!(parse_source("aim", &problems_of_source("aime", "a")), None);
        for quantity in [Quantity::Accuracy, Quantity::Reward] {
            assert_eq!(parse_source("aime", &of_source("aime", "a", quantity, "mean@8")), None);
            assert_eq!(parse_core(&core("aime", quantity, "best@8/mean")), Some(("aime", quantity, "best@8/mean")));
        }
        assert_eq!(parse_core("val-aux/aime/acc/mean@8/standard_error"), None);
    }
}
