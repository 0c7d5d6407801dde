//! What the row of a task gives as its answer, whatever judges it.

use evenkeel_proto::v1::verify_item::Task as Message;

use crate::{DataRow, Fields, Task, TaskKind};

impl Task {
    /// The gold answers, for people: also those that only a verifier of the user's own compares. None where the row has
    /// none in the column that the settings name, or in a usual one.
    pub fn known_answers(&self) -> Vec<String> {
        if self.kind() != TaskKind::Custom {
            return self.golds().map(str::to_owned).collect();
        }
        if let Some(answers) = self.shown_answers() {
            return answers.to_vec();
        }
        match self.message() {
            Message::Custom(task) => answers_in(&task.payload),
            _ => Vec::new(),
        }
    }
}

/// The gold answers in a row as JSON, by the usual columns.
pub fn answers_in(payload: &[u8]) -> Vec<String> {
    let row = std::str::from_utf8(payload).ok().and_then(|row| DataRow::parse(0, row).ok());
    row.and_then(|row| Fields::default().golds(&row).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verifiers;

    #[test]
    fn a_row_whose_verifier_is_the_users_own_has_an_answer_as_well() {
        let task = Task::custom("mine", *b"{\"prompt\": \"1+1?\", \"answer\": 2}");
        assert_eq!(task.known_answers(), ["2"]);
        let row = DataRow::parse(1, r#"{"prompt": "1+1?", "extra": {"antwort": 2}, "verifier": "mine"}"#).unwrap();
        let verifiers = Verifiers::new([("mine", Vec::<String>::new())], "");
        let fields = Fields::named("", "extra.antwort", "", "").with_verifiers(verifiers);
        assert_eq!(fields.task(&row).unwrap().known_answers(), ["2"], "the column that the settings name");
        assert!(Task::custom("mine", *b"not JSON").known_answers().is_empty());
        assert_eq!(Task::math(["3".to_owned()]).unwrap().known_answers(), ["3"]);
    }
}
