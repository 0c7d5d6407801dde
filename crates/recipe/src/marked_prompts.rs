//! Whether prompts ask for an answer in a form in which the verifier for mathematics finds it: an answer that is not
//! marked is no answer.

use evenkeel_chat::Prompt;
use evenkeel_data::{EnvironmentTask, Problem, TaskKind};
use evenkeel_math::{Marker, Profile};
use evenkeel_orchestrator::EnvironmentOrigin;

/// A suffix that asks for one.
pub const SUFFIX: &str = "\n\nPut your final answer within \\boxed{}.";
/// The suffix of [`SUFFIX`] as TOML writes it, between quotation marks.
pub const WRITTEN_SUFFIX: &str = "\\n\\nPut your final answer within \\\\boxed{}.";

/// Counts the prompts of problems that are judged as mathematics, and those that ask for a marked answer.
#[derive(Debug, Default)]
pub struct MarkedPrompts {
    prompts: u64,
    asking: u64,
    /// What the verifier looks for, as the first of them is judged.
    markers: Vec<Marker>,
}

impl MarkedPrompts {
    /// Adds a problem, whose prompt the model sees as `shown`. `profile` is that of the reward service.
    pub fn add(&mut self, problem: &Problem, shown: &str, profile: Profile) {
        if problem.task.kind() != TaskKind::Math || problem.environment.as_ref().is_some_and(scores) {
            return;
        }
        let profile = problem.task.math_profile().parse().unwrap_or(profile);
        let markers = profile.rules().markers;
        self.prompts += 1;
        self.asking += u64::from(markers.iter().any(|marker| asks_for(*marker, shown)));
        if self.markers.is_empty() {
            self.markers = markers;
        }
    }

    /// What to do if no prompt asks for a marked answer.
    pub fn advice(&self) -> Option<String> {
        if self.prompts == 0 || self.asking > 0 {
            return None;
        }
        let wanted: Vec<&str> = self.markers.iter().map(|marker| form(*marker)).collect();
        Some(format!(
            "no prompt asks for a marked answer, and the verifier judges only what is marked ({}): set data.suffix, \
             such as data.suffix = \"{WRITTEN_SUFFIX}\"",
            wanted.join(", ")
        ))
    }
}

/// Whether an environment may score its episodes itself.
fn scores(task: &EnvironmentTask) -> bool {
    let origin = EnvironmentOrigin::of("environment", &task.environment);
    !matches!(origin, Ok(EnvironmentOrigin::BuiltIn(_) | EnvironmentOrigin::Sandbox))
}

/// A prompt without the template of a model: what its messages say, and the suffix after the last one.
pub fn plain_text(prompt: &Prompt, suffix: &str) -> String {
    let text = match prompt {
        Prompt::Text(text) | Prompt::Either { text, .. } => text.clone(),
        Prompt::Messages(messages) => {
            let message = |message: &evenkeel_chat::Message| {
                let content = message.fields().get("content");
                let content = content.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                format!("{}: {}", message.role(), content.unwrap_or_default())
            };
            messages.iter().map(message).collect::<Vec<_>>().join("\n")
        }
    };
    text + suffix
}

/// How the answer looks that a marker finds.
fn form(marker: Marker) -> &'static str {
    match marker {
        Marker::Boxed => "\\boxed{42}",
        Marker::Hashes => "#### 42",
        Marker::AnswerLine => "a last line \"Answer: 42\"",
        Marker::Unmarked => "any number",
    }
}

/// Whether a prompt seems to ask for it. One that shows the form by an example counts as well.
fn asks_for(marker: Marker, prompt: &str) -> bool {
    let text = prompt.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match marker {
        Marker::Boxed => any(&["\\boxed", "\\fbox", "boxed{", "in a box", "a boxed"]),
        Marker::Hashes => any(&["####"]),
        Marker::AnswerLine => any(&["answer:", "answer is"]),
        Marker::Unmarked => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_data::{DataRow, Fields, ProblemOrigin, Rules};

    fn advice(prompts: &[&str], profile: Profile) -> Option<String> {
        let mut marked = MarkedPrompts::default();
        for prompt in prompts {
            let row = DataRow::parse(1, serde_json::json!({"prompt": prompt, "answer": "4"}).to_string()).unwrap();
            let read =
                Problem::read(&row, &Fields::default(), &Rules::default(), ProblemOrigin::default(), || "a".to_owned());
            marked.add(&read.unwrap(), prompt, profile);
        }
        marked.advice()
    }

    #[test]
    fn prompts_of_which_none_asks_for_a_marked_answer_are_noticed() {
        let said = advice(&["How many apples?", "And pears?"], Profile::Default).unwrap();
        assert!(said.contains("data.suffix = \"\\n\\nPut your final answer within \\\\boxed{}.\""), "{said}");
        assert!(said.contains("\\boxed{42}"), "{said}");
        for asking in ["In \\boxed{}, please.", "End with a final Answer: LINE"] {
            assert_eq!(advice(&["How many?", asking], Profile::Default), None, "{asking}");
        }
        assert_eq!(advice(&["End with #### and the number"], Profile::Gsm8k), None);
        assert_eq!(advice(&["How many?"], Profile::Unmarked), None);
        assert_eq!(advice(&[], Profile::Default), None);
        let task = EnvironmentTask::new("shop.py");
        assert!(scores(&task) && !scores(&EnvironmentTask::new("calculator")));
    }
}
