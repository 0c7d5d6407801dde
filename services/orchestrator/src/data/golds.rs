//! Gold answers that a run cannot learn from, found before it starts.

use std::fmt::Write;

use evenkeel_math::{Policy, Profile, lint};

use super::Dataset;
use crate::error::RunError;
use crate::load::Cancel;

/// How many problems are named.
const NAMED: usize = 3;

/// What is wrong with gold answers of a data set under a profile of the verifier (empty: the default one), as one message with
/// counts and the first names; nothing where all are sound. A name that no profile has is the reward service's to refuse.
pub(crate) fn unsound(dataset: &Dataset, profile: &str, cancel: &Cancel) -> Result<Option<String>, RunError> {
    let policy = profile.parse::<Profile>().map_or_else(|_| Policy::default(), |profile| profile.policy());
    let (mut counts, mut named) = (Vec::<(&str, usize)>::new(), Vec::new());
    let mut total = 0;
    for problem in dataset.train.iter().chain(&dataset.held_out) {
        cancel.check()?;
        let Some(finding) = lint(&problem.gold, Some(&problem.prompt), &policy) else { continue };
        total += 1;
        match counts.iter_mut().find(|(code, _)| *code == finding.code()) {
            Some((_, count)) => *count += 1,
            None => counts.push((finding.code(), 1)),
        }
        if named.len() < NAMED {
            named.push(format!("`{}`: {finding}", problem.id));
        }
    }
    if total == 0 {
        return Ok(None);
    }
    let problems = dataset.train.len() + dataset.held_out.len();
    let mut message = format!("{total} of {problems} gold answers are unsound (");
    for (place, (code, count)) in counts.iter().enumerate() {
        let _ = write!(message, "{}{count} {code}", if place > 0 { ", " } else { "" });
    }
    let _ = write!(message, "); {}", named.join("; "));
    if total > NAMED {
        message.push_str("; see `evenkeel verify math --lint-golds`");
    }
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Problem;
    use crate::settings::Task;

    fn dataset(golds: &[(&str, &str)]) -> Dataset {
        let problem = |(number, (prompt, gold)): (usize, &(&str, &str))| Problem {
            id: format!("p{number}"),
            prompt: (*prompt).into(),
            gold: (*gold).into(),
            demonstration: None,
        };
        let train = golds.iter().enumerate().map(problem).collect();
        Dataset { source: "test".into(), task: Task::Jsonl, train, held_out: Vec::new() }
    }

    fn found(golds: &[(&str, &str)]) -> Option<String> {
        unsound(&dataset(golds), "", &Cancel::default()).unwrap()
    }

    #[test]
    fn sound_answers_are_not_mentioned() {
        assert_eq!(found(&[("1+1?", "2"), ("half?", "\\frac12")]), None);
    }

    #[test]
    fn unsound_answers_are_counted_and_the_first_are_named() {
        let found = found(&[("1+1?", ""), ("1+2?", "3"), ("Factor completely: $x^2-1$", "(x-1)(x+1)")]);
        let found = found.expect("two are unsound");
        assert!(
            found.starts_with("2 of 3 gold answers are unsound (1 gold_empty, 1 form_sensitive); `p0`: "),
            "{found}"
        );
        assert!(found.contains("`p2`: "), "{found}");
    }
}
