//! `guess-number`: the model guesses a whole number and is told whether it is too low or too high. The environment
//! scores it.
//!
//! The task is a row with the number in `answer`, and optionally the bounds in `low` and `high` (1 and 100); without
//! `answer` the seed draws one.

use evenkeel_proto::v1::{AssistantMessage, FinishReason, Outcome, Verdict};
use serde_json::{Map, Value, json};

use crate::environment::{Environment, TaskError};
use crate::tool::Tool;

const MAX_BOUND: i64 = 1_000_000_000_000;

pub(crate) struct GuessNumber {
    tools: Vec<Tool>,
    low: i64,
    high: i64,
    number: i64,
    guesses: u32,
    found: bool,
}

impl GuessNumber {
    pub(crate) fn new(task: &[u8], seed: u64) -> Result<Self, TaskError> {
        let row: Value =
            serde_json::from_slice(task).map_err(|error| TaskError(format!("the task is not JSON: {error}")))?;
        let bound = |name: &str, otherwise: i64| match row.get(name).filter(|value| !value.is_null()) {
            None => Ok(otherwise),
            Some(value) => whole(value)
                .filter(|value| value.abs() <= MAX_BOUND)
                .ok_or_else(|| TaskError(format!("`{name}` is {value}, allowed: a whole number up to {MAX_BOUND}"))),
        };
        let low = bound("low", 1)?;
        let high = bound("high", 100)?;
        if low > high {
            return Err(TaskError(format!("`low` is {low}, allowed: at most `high`, which is {high}")));
        }
        let drawn = low + (seed % (high - low + 1) as u64) as i64;
        let number = bound("answer", drawn)?;
        if !(low..=high).contains(&number) {
            return Err(TaskError(format!("`answer` is {number}, allowed: {low} to {high}")));
        }
        Ok(Self { tools: Self::tools(), low, high, number, guesses: 0, found: false })
    }

    pub(crate) fn tools() -> Vec<Tool> {
        let parameters = json!({
            "type": "object",
            "properties": {"number": {"type": "integer", "description": "the guess"}},
            "required": ["number"],
        });
        let description = "Guesses the number. Says whether it is higher, lower or right.";
        vec![Tool { name: "guess".to_owned(), description: description.to_owned(), parameters }]
    }

    /// Guesses that halving the interval takes at most.
    fn needed(&self) -> u32 {
        (self.high - self.low + 1).ilog2() + 1
    }
}

impl Environment for GuessNumber {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn call(&mut self, _: &str, arguments: &Map<String, Value>) -> Result<String, String> {
        let guess = arguments.get("number").and_then(whole);
        let guess = guess.ok_or_else(|| "`number` is required, a whole number".to_owned())?;
        self.guesses += 1;
        self.found = guess == self.number;
        Ok(match guess {
            _ if self.found => format!("right: it is {guess}"),
            low if low < self.number => format!("higher than {guess}"),
            _ => format!("lower than {guess}"),
        })
    }

    fn is_done(&self) -> bool {
        self.found
    }

    fn reply(&mut self, _: &AssistantMessage, _: FinishReason) -> Option<String> {
        Some(format!("Call the tool `guess` with a number from {} to {}.", self.low, self.high))
    }

    fn verdict(&mut self, id: &str) -> Option<Verdict> {
        let (outcome, reason, reward) =
            if self.found { (Outcome::Correct, "found", 1.0) } else { (Outcome::Incorrect, "not_found", 0.0) };
        let economy = if self.found { (f64::from(self.needed()) / f64::from(self.guesses)).min(1.0) } else { 0.0 };
        Some(Verdict {
            components: [("economy".to_owned(), economy)].into(),
            detail: format!("{} guesses", self.guesses),
            ..Verdict::judged(id, outcome, reason, reward)
        })
    }
}

/// A whole number, also one in a text.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(task: &str) -> Result<GuessNumber, String> {
        GuessNumber::new(task.as_bytes(), 5).map_err(|error| error.to_string())
    }

    #[test]
    fn halving_finds_every_number_with_the_full_reward() {
        for number in 1..=100 {
            let mut game = game(&format!("{{\"answer\": \"{number}\"}}")).unwrap();
            let mut low = 1;
            let mut high = 100;
            while !game.is_done() {
                let guess = (low + high) / 2;
                let said = game.call("guess", json!({"number": guess}).as_object().unwrap()).unwrap();
                match said.split(' ').next().unwrap() {
                    "higher" => low = guess + 1,
                    "lower" => high = guess - 1,
                    _ => break,
                }
            }
            let verdict = game.verdict("a").unwrap();
            assert_eq!((verdict.validate(), verdict.reward, verdict.components["economy"]), (Ok(()), Some(1.0), 1.0));
        }
    }

    #[test]
    fn a_game_without_the_number_is_worth_nothing_and_one_with_many_guesses_is_not_economical() {
        let mut game = game(r#"{"answer": 3}"#).unwrap();
        assert_eq!(game.verdict("a").unwrap().reward, Some(0.0));
        assert!(game.call("guess", &Map::new()).is_err());
        for guess in [99, 98, 97, 96, 95, 94, 93, 92, 91, 90, 89, 88, 87, 3] {
            game.call("guess", json!({"number": guess}).as_object().unwrap()).unwrap();
        }
        let verdict = game.verdict("a").unwrap();
        assert_eq!((verdict.reward, verdict.components["economy"]), (Some(1.0), 0.5));
        assert_eq!(verdict.reason_code, "found");
    }

    #[test]
    fn a_task_that_is_no_game_is_refused_by_its_field() {
        for (task, words) in [
            ("[", "not JSON"),
            (r#"{"answer": "x"}"#, "`answer` is \"x\""),
            (r#"{"answer": 200}"#, "`answer` is 200, allowed: 1 to 100"),
            (r#"{"low": 5, "high": 2}"#, "`low` is 5, allowed: at most `high`"),
            (r#"{"high": 9999999999999}"#, "`high` is 9999999999999"),
        ] {
            let error = game(task).err().unwrap();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(game(r#"{"low": 0, "high": 9}"#).unwrap().number, 5, "drawn by the seed");
    }
}
