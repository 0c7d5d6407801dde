//! Who of the user's own judges answers, and may fail at them: a reward function, or an environment.

use std::fmt;

use evenkeel_run::metric::{MetricName, table};

use crate::rollout::{Sample, SampledGroup};

/// A reward function or an environment of the user's own, by its name in the settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Judge {
    /// The functions of a custom verifier.
    Function(String),
    Environment(String),
}

impl Judge {
    /// Every judge of a group.
    pub(super) fn all_of(group: &SampledGroup) -> impl Iterator<Item = Self> {
        let function = group.task().verifier().map(|name| Self::Function(name.to_owned()));
        let environment = group.own_environment().map(|name| Self::Environment(name.to_owned()));
        function.into_iter().chain(environment)
    }

    /// The judge whose answers a metric counts.
    pub(super) fn counted_by(metric: &str) -> Option<Self> {
        let name = |parts: Vec<&str>| parts.first().map(|name| (*name).to_owned());
        let function = table::VERIFIER_SAMPLES.parts(metric).and_then(name).map(Self::Function);
        function.or_else(|| table::ENVIRONMENT_EPISODES.parts(metric).and_then(name).map(Self::Environment))
    }

    /// The metric of the answers that it got.
    pub(super) fn samples(&self) -> MetricName {
        match self {
            Self::Function(name) => table::VERIFIER_SAMPLES.of([name]),
            Self::Environment(name) => table::ENVIRONMENT_EPISODES.of([name]),
        }
    }

    /// The metric of the answers at which it failed.
    pub(super) fn failures(&self) -> MetricName {
        match self {
            Self::Function(name) => table::VERIFIER_FAILURES.of([name]),
            Self::Environment(name) => table::ENVIRONMENT_FAILURES.of([name]),
        }
    }

    /// Whether it failed at a sample.
    pub(super) fn has_failed_at(&self, sample: &Sample) -> bool {
        match self {
            Self::Function(_) => sample.function_failure().is_some(),
            Self::Environment(_) => sample.is_crash(),
        }
    }

    /// At how many answers it may fail, and what to do otherwise.
    pub(super) fn allowed(&self) -> String {
        match self {
            Self::Function(name) => format!(
                "2 % of the answers of the last ten steps, or two (data.verifiers.{name}.on_error = \"drop\" leaves \
                 such answers out)"
            ),
            Self::Environment(_) => {
                "2 % of the episodes of the last ten steps, or two (give such answers a score instead)".to_owned()
            }
        }
    }
}

impl fmt::Display for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(name) => write!(f, "the reward function `{name}`"),
            Self::Environment(name) => write!(f, "the environment `{name}`"),
        }
    }
}
