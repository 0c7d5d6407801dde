//! The table, by what a metric is about.

mod checks;
mod evaluation;
mod lag;
mod learning;
mod lengths;
mod rollouts;
mod time;

pub use checks::*;
pub use evaluation::*;
pub use lag::*;
pub use learning::*;
pub use lengths::*;
pub use rollouts::*;
pub use time::*;

use crate::metric::row::{LineKind, Metric};

/// Declares rows: each is a constant, and one of the file's `ROWS`.
macro_rules! rows {
    ($($(#[doc = $doc:literal])* $name:ident = $row:expr;)+) => {
        $($(#[doc = $doc])* #[doc = concat!("A row: ", stringify!($name), ".")] pub const $name: $crate::metric::Metric = $row;)+

        pub(super) const ROWS: &[$crate::metric::Metric] = &[$($name),+];
    };
}
use rows;

const WARM_START: &[LineKind] = &[LineKind::WarmStart];
const EVALUATION: &[LineKind] = &[LineKind::Evaluation];

/// All rows, in the order of the documentation.
#[allow(unused_qualifications, reason = "each file has its own, and one of them would be taken for all")]
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let tables = [rollouts::ROWS, lengths::ROWS, learning::ROWS, lag::ROWS, checks::ROWS, time::ROWS, evaluation::ROWS];
    tables.into_iter().flatten()
}

/// Bytes of the longest name that a row is looked for: a learner may send any.
const MAX_NAME: usize = 1024;

/// The row of a name in a line; of several patterns that fit the one that says most about it. `None` for a name that no
/// row has.
pub fn find(name: &str) -> Option<&'static Metric> {
    if name.len() > MAX_NAME {
        return None;
    }
    all().filter(|metric| metric.parts(name).is_some()).max_by_key(|metric| metric.name.split('{').next().map(str::len))
}

/// Whether a value may differ between two runs of one seed. Every other value is the same to the bit.
pub fn may_differ(name: &str) -> bool {
    find(name).is_some_and(|metric| metric.varies)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own_a_meaning_and_a_line() {
        let mut names = BTreeSet::new();
        for Metric { name, help, lines, gauges, only, .. } in all() {
            assert!(names.insert(name), "{name} is listed twice");
            assert!(!help.is_empty() && !help.ends_with('.') && !help.contains('|'), "{name}: {help}");
            assert!(!lines.is_empty() && !only.ends_with('.'), "{name}");
            for shown in *gauges {
                let given = if shown.gauge.is_by_parts() { shown.gauge.labels.len() } else { shown.labels.len() };
                assert_eq!(given, shown.gauge.labels.len(), "{name}: {}", shown.gauge.name);
            }
        }
    }

    #[test]
    fn of_several_patterns_the_closest_is_taken() {
        let row = |name: &str| find(name).map(|metric| metric.name);
        assert_eq!(row("aggregation/pull_positive"), Some("aggregation/pull_{positive,negative}"));
        assert_eq!(row("aggregation/token/pull_positive"), Some("aggregation/{rule}/pull_{positive,negative}"));
        assert_eq!(row("lag/mean"), Some("lag/mean"));
        assert_eq!(row("lag/2/ratio/p50"), Some("lag/{lag}/ratio/{p1,p50,p99}"));
        assert_eq!(row("nothing/of/the/sort"), None);
    }

    #[test]
    fn times_and_proofs_may_differ_and_rewards_may_not() {
        for name in ["timing_s/step", "timing_s/probe_gradients", "proof/excluded/behind", "rollout/begun_again"] {
            assert!(may_differ(name), "{name}");
        }
        for name in ["critic/score/mean", "pipeline/lag", "perf/total_num_tokens", "val-core/a/acc/mean@1"] {
            assert!(!may_differ(name), "{name}");
        }
    }
}
