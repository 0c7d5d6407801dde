//! Names of metrics in lines: a row's name, with what stands in its braces.

use std::borrow::Cow;
use std::fmt::{self, Display};

use crate::metric::pattern;
use crate::metric::row::Metric;

/// The name of a metric in a line. Only rows of the table make one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricName(Cow<'static, str>);

impl MetricName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Metric> for MetricName {
    fn from(metric: Metric) -> Self {
        Self(Cow::Borrowed(metric.name))
    }
}

impl From<MetricName> for String {
    fn from(name: MetricName) -> Self {
        name.0.into_owned()
    }
}

impl Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Metric {
    /// The name with these in its braces, in their order.
    pub fn of<const N: usize>(&self, parts: [&dyn Display; N]) -> MetricName {
        MetricName(Cow::Owned(pattern::filled(self.name, &parts)))
    }

    /// What stands in the braces of its name in a name of a line, in their order; `None` where the name is another
    /// metric's.
    pub fn parts<'a>(&self, name: &'a str) -> Option<Vec<&'a str>> {
        pattern::matches(self.name, name)
    }

    /// The name with one of the choices in its only braces; as it is where it has none.
    pub fn choosing(&self, choice: &str) -> MetricName {
        self.of([&choice])
    }
}
