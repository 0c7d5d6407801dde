//! Gold answers that a run cannot learn from, found before it starts.

use std::fmt::Write;

use evenkeel_math::{Policy, Profile, lint};

use crate::{Cancel, Cancelled, Dataset};

/// How many problems are named.
const NAMED: usize = 3;

/// What is wrong with gold answers of a data set, as one message with counts and the first names; `None` where all are sound.
///
/// # Errors
/// It was cancelled.
pub fn unsound_golds(dataset: &Dataset, cancel: &Cancel) -> Result<Option<String>, Cancelled> {
    let (mut counts, mut named) = (Vec::<(&str, usize)>::new(), Vec::new());
    let (mut golds, mut unsound) = (0, 0);
    for problem in dataset.problems() {
        cancel.check()?;
        // A name that no profile has is the reward service's to refuse.
        let profile = problem.task.math_profile().parse::<Profile>();
        let policy = profile.map_or_else(|_| Policy::default(), |profile| profile.policy());
        for gold in problem.task.golds() {
            golds += 1;
            let Some(finding) = lint(gold, Some(&problem.prompt), &policy) else { continue };
            unsound += 1;
            match counts.iter_mut().find(|(code, _)| *code == finding.code()) {
                Some((_, count)) => *count += 1,
                None => counts.push((finding.code(), 1)),
            }
            if named.len() < NAMED {
                named.push(format!("`{}`: {finding}", problem.id));
            }
        }
    }
    if unsound == 0 {
        return Ok(None);
    }
    let counts: Vec<_> = counts.into_iter().map(|(code, count)| format!("{count} {code}")).collect();
    let mut message =
        format!("{unsound} of {golds} gold answers are unsound ({}); {}", counts.join(", "), named.join("; "));
    if unsound > NAMED {
        let _ = write!(message, "; see `evenkeel verify math --lint-golds`");
    }
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Problem, Task};

    fn found(golds: &[(&str, &str)]) -> Option<String> {
        let problem = |(number, (prompt, gold)): (usize, &(&str, &str))| Problem {
            id: format!("p{number}"),
            prompt: (*prompt).into(),
            task: Task::math([(*gold).to_owned()]).unwrap(),
            demonstration: None,
        };
        let train = golds.iter().enumerate().map(problem).collect();
        let dataset = Dataset { name: "test".into(), train, held_out: Vec::new() };
        unsound_golds(&dataset, &Cancel::default()).unwrap()
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
