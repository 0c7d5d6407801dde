//! Names of metrics in lines: a row's name, with what stands in its braces.

use std::borrow::Cow;
use std::fmt::{self, Display};

use crate::metric::Metric;

/// The name of a metric in a line. Only rows of the table make one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricName(Cow<'static, str>);

impl MetricName {
    /// The name.
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

    /// The name with one of the choices in its only braces; as it is where it has none.
    pub fn choosing(&self, choice: &str) -> MetricName {
        self.of([&choice])
    }
}

pub(crate) mod pattern {
    //! Patterns with braces.

    use std::fmt::{Display, Write};

    /// What a pattern begins with: text, or braces.
    enum Part<'a> {
        Text(&'a str),
        Braces(&'a str),
    }

    fn split(pattern: &str) -> Option<(Part<'_>, &str)> {
        if pattern.is_empty() {
            return None;
        }
        match pattern.find('{') {
            Some(0) => pattern[1..].split_once('}').map(|(inside, rest)| (Part::Braces(inside), rest)),
            Some(begin) => Some((Part::Text(&pattern[..begin]), &pattern[begin..])),
            None => Some((Part::Text(pattern), "")),
        }
    }

    /// The pattern with these in its braces; braces beyond them stay.
    pub(crate) fn filled(pattern: &str, parts: &[&dyn Display]) -> String {
        let (mut name, mut rest, mut parts) = (String::new(), pattern, parts.iter());
        while let Some((part, behind)) = split(rest) {
            let _ = match part {
                Part::Text(text) => name.write_str(text),
                Part::Braces(inside) => match parts.next() {
                    Some(value) => write!(name, "{value}"),
                    None => write!(name, "{{{inside}}}"),
                },
            };
            rest = behind;
        }
        name
    }

    /// What stands in the braces of a pattern in this name, where it fits. A word in braces stands for any text but none, choices for one of
    /// them.
    pub(crate) fn matches<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
        let Some((part, behind)) = split(pattern) else {
            return name.is_empty().then(Vec::new);
        };
        let with = |value: &'a str, rest: &'a str| {
            let mut parts = matches(behind, rest)?;
            parts.insert(0, value);
            Some(parts)
        };
        match part {
            Part::Text(text) => matches(behind, name.strip_prefix(text)?),
            Part::Braces(inside) if inside.contains(',') => inside
                .split(',')
                .find_map(|choice| with(&name[..choice.len().min(name.len())], name.strip_prefix(choice)?)),
            // The shortest that fits; names are short.
            Part::Braces(_) => {
                let ends = name.char_indices().map(|(at, _)| at).skip(1).chain([name.len()]);
                ends.filter(|end| *end > 0).find_map(|end| with(&name[..end], &name[end..]))
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_name_is_taken_apart_where_it_was_put_together() {
            let pattern = "data_source/{name}/{score,rewards}/mean";
            let name = filled(pattern, &[&"openai/gsm8k", &"score"]);
            assert_eq!(name, "data_source/openai/gsm8k/score/mean");
            assert_eq!(matches(pattern, &name), Some(vec!["openai/gsm8k", "score"]));
            assert_eq!(matches(pattern, "data_source/a/score"), None);
            assert_eq!(matches(pattern, "data_source//score/mean"), None);
            assert_eq!(matches("lag/mean", "lag/mean"), Some(vec![]));
            assert_eq!(matches("a/q{1,2}", "a/q3"), None);
            assert_eq!(matches("a/{x}", "a/é"), Some(vec!["é"]));
        }
    }
}
