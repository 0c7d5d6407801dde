//! Gold answers that a run cannot learn from, found before it starts.

use evenkeel_chat::Prompt;
use evenkeel_math::{Finding, Profile, Rules, lint};

use crate::text::question;
use crate::{Problem, Reason, RowError};

/// A gold answer that training can do little with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspicion {
    /// The stable name of the finding.
    pub(crate) code: &'static str,
    /// The answer and what is wrong with it.
    pub(crate) message: String,
}

/// The finding of such a prompt.
const MESSAGES_AS_TEXT: &str = "messages_as_text";

/// A prompt that is the JSON text of messages, which the model would see as one message of JSON.
fn messages_as_text(prompt: &Prompt) -> Vec<Suspicion> {
    let Prompt::Text(text) = prompt else { return Vec::new() };
    let text = text.trim();
    let is_list = text.starts_with('[') && text.ends_with(']') && text.contains("\"role\"");
    let messages =
        is_list.then(|| serde_json::from_str::<Vec<serde_json::Map<_, serde_json::Value>>>(text).ok()).flatten();
    if messages.is_some_and(|messages| messages.iter().all(|message| message.contains_key("role"))) {
        let message = "the prompt is the JSON text of messages, and is asked as one message of JSON".to_owned();
        vec![Suspicion { code: MESSAGES_AS_TEXT, message }]
    } else {
        Vec::new()
    }
}

/// Looks at the gold answers of a problem. Those that the verifier cannot read are left out where there are others.
///
/// # Errors
/// None of them can be read.
pub(crate) fn check_golds(problem: &mut Problem) -> Result<Vec<Suspicion>, RowError> {
    // A name that no profile has is the reward service's to refuse.
    let profile = problem.task.math_profile().parse::<Profile>();
    let rules = profile.map_or_else(|_| Rules::default(), |profile| profile.rules());
    let mut question_text = None;
    let mut suspicions = messages_as_text(&problem.prompt);
    let mut unreadable = Vec::new();
    let mut readable = 0;
    for gold in problem.task.golds() {
        let text = question_text.get_or_insert_with(|| question(&problem.prompt));
        let finding = lint(gold, Some(text), &rules);
        if let Some(finding) = &finding {
            suspicions.push(Suspicion { code: finding.code(), message: format!("`{gold}`: {finding}") });
        }
        match finding {
            Some(Finding::Unreadable(_)) => unreadable.push(gold.to_owned()),
            _ => readable += 1,
        }
    }
    match (readable, unreadable.is_empty()) {
        (_, true) => {}
        (0, false) => {
            let of_gold = suspicions.into_iter().find(|suspicion| suspicion.code != MESSAGES_AS_TEXT);
            let message = of_gold.map_or_else(String::new, |suspicion| suspicion.message);
            return Err(RowError::new(Reason::UnreadableGold, message));
        }
        (_, false) => {
            let task = problem.task.with_golds(|gold| !unreadable.iter().any(|bad| bad == gold));
            problem.task = task.expect("one gold answer can be read");
        }
    }
    Ok(suspicions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProblemOrigin, Task};

    fn check(prompt: &str, golds: &[&str]) -> Result<(Vec<String>, Vec<&'static str>), Reason> {
        let mut problem = Problem {
            id: "p".to_owned().into(),
            origin: ProblemOrigin::default(),
            data_source: None,
            prompt: Prompt::Text(prompt.into()),
            context: None,
            suffix: None,
            task: Task::math(golds.iter().map(|gold| (*gold).to_owned())).unwrap(),
            environment: None,
            demonstration: None,
            hint: None,
        };
        let suspicions = check_golds(&mut problem).map_err(|error| error.reason)?;
        let golds = problem.task.golds().map(str::to_owned).collect();
        Ok((golds, suspicions.iter().map(|suspicion| suspicion.code).collect()))
    }

    #[test]
    fn sound_answers_are_not_mentioned() {
        assert_eq!(check("half?", &["\\frac12", "0.5"]).unwrap(), (vec!["\\frac12".into(), "0.5".into()], vec![]));
    }

    #[test]
    fn an_answer_that_cannot_be_read_refuses_the_row_unless_there_are_others() {
        assert_eq!(check("?", &["\\frac{1}{0}"]), Err(Reason::UnreadableGold));
        assert_eq!(check("?", &["\\frac{1}{0}", "2"]).unwrap(), (vec!["2".into()], vec!["gold_undefined"]));
    }

    #[test]
    fn messages_that_became_a_text_are_mentioned() {
        let messages = r#"[{"role": "user", "content": "half?"}]"#;
        assert_eq!(check(messages, &["1"]).unwrap().1, ["messages_as_text"]);
        for other in ["[1, 2] has the role of \"role\"?", "[{\"a\": 1}]", "[{\"content\": \"\\\"role\\\"\"}]"] {
            assert!(check(other, &["1"]).unwrap().1.is_empty(), "{other}");
        }
    }

    #[test]
    fn other_findings_are_only_mentioned() {
        let (golds, codes) = check("Factor completely: $x^2-1$", &["(x-1)(x+1)"]).unwrap();
        assert_eq!((golds.len(), codes), (1, vec!["form_sensitive"]));
    }
}
