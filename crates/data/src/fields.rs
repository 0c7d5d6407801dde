//! What data sets call their columns: the one place that knows.
//!
//! | | the first of these that a row has |
//! |---|---|
//! | prompt | `prompt`, `problem`, `question`, `question_content`, `question.question_content` |
//! | gold answer | `gold`, `reward_model.ground_truth`, `final_answer`, `answer` (what follows its last `####`, if there is one), `label`, `solution` (its last `\boxed{}`) |
//! | tests | `public_test_cases`, `private_test_cases` and `metadata` as LiveCodeBench publishes them, also within `question`; `tests`, `input_output` (APPS, TACO), `test_cases`, `verification_info.test_cases`; `reward_model.ground_truth` if it has inputs and outputs |
//! | verifier | `verifier` (`none`: answers are not judged), `custom.endpoint`; else what [`Verifiers`] say of `data_source` |
//! | demonstration | `demonstration` |
//! | hint | `hint`, where hints are asked for |
//! | name | `id`, `question_id`, `question.question_id` |

use std::sync::Arc;

use evenkeel_chat::Prompt;
use evenkeel_proto::FieldError;
use serde_json::Value;

use crate::digest::{Digest, RowIdentity};
use crate::environments::{EnvironmentTask, Environments};
use crate::gold::gold;
use crate::messages;
use crate::names::Names;
use crate::payload::Payload;
use crate::read::Columns;
use crate::row::{DataRow, RowError, refused, text};
use crate::verifiers::{CUSTOM, DATA_SOURCE, VERIFIER, VerifierChoice, Verifiers};
use crate::{Demonstration, Reason, Shape, Task, TaskKind, code};

const PROMPT: &[&str] = &["prompt", "problem", "question", "question_content", "question.question_content"];
const GOLD: &[&str] = &["gold", "reward_model.ground_truth", "final_answer", "answer", "label", "solution"];
const DEMONSTRATION: &[&str] = &["demonstration"];
const HINT: &str = "hint";
const ID: &[&str] = &["id", "question_id", "question.question_id"];
const PROFILE: &str = "profile";
/// Columns with pictures and the like, which no model here can see.
const MEDIA: &[&str] = &["images", "image", "videos", "video", "audio", "audios"];
const TOOLS: &str = "tools";
/// Most bytes of a row's columns besides prompt, gold answer and tests, unless set.
const MAX_COLUMNS: usize = 64 << 10;

/// Which columns of a row are read: the usual ones, unless named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    prompt: Names,
    gold: Names,
    demonstration: Names,
    id: Names,
    verifiers: Verifiers,
    environments: Environments,
    program_prompt: ProgramPrompt,
    max_columns: usize,
    hints: bool,
}

/// How programming questions that are texts are asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProgramPrompt {
    /// The wording of LiveCodeBench.
    #[default]
    LiveCodeBench,
    /// The question of the row, followed by the starter code.
    Plain,
}

impl Default for Fields {
    fn default() -> Self {
        Self::named("", "", "", "")
    }
}

impl Fields {
    /// Columns by path, as `reward_model.ground_truth`; an empty name takes the usual ones.
    pub fn named(prompt: &str, gold: &str, demonstration: &str, id: &str) -> Self {
        Self {
            prompt: Names::or_usual(prompt, PROMPT),
            gold: Names::or_usual(gold, GOLD),
            demonstration: Names::or_usual(demonstration, DEMONSTRATION),
            id: Names::or_usual(id, ID),
            verifiers: Verifiers::default(),
            environments: Environments::default(),
            program_prompt: ProgramPrompt::default(),
            max_columns: MAX_COLUMNS,
            hints: false,
        }
    }

    /// Sets the most bytes of other columns that reward functions and environments get. Prompt, gold answer and tests
    /// do not count.
    #[must_use]
    pub fn with_max_columns(self, max_columns: usize) -> Self {
        Self { max_columns, ..self }
    }

    /// Sets whether the hints of rows are read.
    #[must_use]
    pub fn with_hints(self, hints: bool) -> Self {
        Self { hints, ..self }
    }

    /// Sets how programming questions are asked.
    #[must_use]
    pub fn with_program_prompt(self, program_prompt: ProgramPrompt) -> Self {
        Self { program_prompt, ..self }
    }

    /// Sets the verifiers that rows may go to.
    #[must_use]
    pub fn with_verifiers(self, verifiers: Verifiers) -> Self {
        Self { verifiers, ..self }
    }

    /// Sets the environments that rows may name.
    #[must_use]
    pub fn with_environments(self, environments: Environments) -> Self {
        Self { environments, ..self }
    }

    /// The columns that reading a row may look at: all of them where a reward function or an environment may get them.
    pub fn columns(&self) -> Columns {
        if !self.verifiers.is_empty() || !self.environments.is_empty() {
            return Columns::All;
        }
        let named = [&self.prompt, &self.gold, &self.demonstration, &self.id].into_iter().flat_map(Names::iter);
        let columns = named.chain([CUSTOM, PROFILE, VERIFIER, DATA_SOURCE, TOOLS]).chain(MEDIA.iter().copied());
        let columns = columns.chain(self.hints.then_some(HINT));
        Columns::new(columns.chain(code::COLUMNS.iter().copied()))
    }

    /// The shape in which a row is published.
    pub fn shape(&self, row: &DataRow) -> Shape {
        match (&self.prompt, &self.gold) {
            (Names::Usual(_), Names::Usual(_)) => Shape::of(row),
            _ => Shape::Named,
        }
    }

    /// What a row asks: a text or messages. A programming question that is a text is asked in the words of
    /// LiveCodeBench.
    ///
    /// # Errors
    /// No prompt; one that is neither a text nor messages with one of the user; pictures and other media; tools without
    /// an environment.
    pub fn prompt(&self, row: &DataRow) -> Result<Prompt, RowError> {
        self.require_text(row)?;
        let missing = || match self.prompt.iter().find(|name| row.is_null(name)) {
            Some(name) => RowError::kind(Reason::EmptyPrompt, name, &Value::Null, "a text or a list of messages"),
            None => self.prompt.missing(Reason::MissingPrompt, "prompt", row),
        };
        let (name, value) = self.asked(row).ok_or_else(missing)?;
        let mut value = match value {
            Value::String(text) if text.trim().is_empty() => value.clone(),
            Value::String(text) if self.is_program(row) => match self.program_prompt {
                ProgramPrompt::LiveCodeBench => return Ok(code::in_words_of_livecodebench(row, name, text)),
                ProgramPrompt::Plain => Value::String(code::with_starter_code(row, name, text)),
            },
            value => value.clone(),
        };
        let inexact = |number: &str| {
            let found = format!("messages with the number {number}");
            let allowed = "whole numbers of at most 64 bits; write a longer one as a text";
            RowError::field(Reason::InvalidMessages, refused(name, found, allowed))
        };
        if messages::has_float(&value)
            && let Some(number) = row.json(name).as_deref().and_then(messages::beyond_64_bits)
        {
            return Err(inexact(number));
        }
        messages::drop_nulls(&mut value);
        messages::read_arguments(&mut value).map_err(|number| inexact(&number))?;
        let reason = if value.is_string() { Reason::EmptyPrompt } else { Reason::InvalidMessages };
        Prompt::new(name, value).map_err(|error| RowError::field(reason, error))
    }

    /// Refuses columns that belong to the prompt elsewhere, and that no model here would see.
    fn require_text(&self, row: &DataRow) -> Result<(), RowError> {
        let tools = self.environments.is_empty().then_some(TOOLS);
        let has_content = |name: &&str| row.get(name).is_some_and(|value| !is_empty(value));
        match MEDIA.iter().copied().chain(tools).find(has_content) {
            None => Ok(()),
            Some(TOOLS) => {
                let allowed = "absent without an environment (data.environment), which has the tools";
                Err(RowError::field(Reason::InvalidMessages, refused(TOOLS, "present", allowed)))
            }
            Some(name) => {
                let allowed = "absent or empty, since prompts are texts";
                Err(RowError::field(Reason::InvalidMessages, refused(name, "present", allowed)))
            }
        }
    }

    /// Whether a row is judged by its tests.
    fn is_program(&self, row: &DataRow) -> bool {
        let by_columns = matches!(self.gold, Names::Usual(_));
        match self.verifiers.choose(row, by_columns) {
            Ok(VerifierChoice::Code) => true,
            Ok(VerifierChoice::Columns) => by_columns && code::has_tests(row),
            _ => false,
        }
    }

    /// What a row asks, for messages and lints: its prompt, or the last message of a chat.
    pub fn question<'a>(&self, row: &'a DataRow) -> Option<&'a str> {
        match self.asked(row)?.1 {
            Value::Array(messages) => messages.last()?.get("content")?.as_str(),
            value => value.as_str(),
        }
    }

    fn asked<'a, 'b>(&'a self, row: &'b DataRow) -> Option<(&'a str, &'b Value)> {
        // LiveCodeBench's columns may stand in an object of that name.
        let nested = |name: &str, value: &Value| name == "question" && value.is_object();
        self.prompt.iter().find_map(|name| Some((name, row.get(name).filter(|value| !nested(name, value))?)))
    }

    /// An answer to imitate, if the row has one.
    ///
    /// # Errors
    /// One that is neither a text nor a list of texts.
    pub fn demonstration(&self, row: &DataRow) -> Result<Option<Demonstration>, RowError> {
        let read = |(name, value): (&str, &Value)| match value {
            Value::Array(turns) if turns.is_empty() => {
                Err(RowError::field(Reason::InvalidRow, refused(name, "empty", "a text, or one for each turn")))
            }
            Value::Array(turns) => {
                let turns = turns.iter().map(|turn| plain(name, turn)).collect::<Result<_, _>>()?;
                Ok(Demonstration::Turns(turns))
            }
            value => plain(name, value).map(Demonstration::Written),
        };
        self.demonstration.find(row).map(read).transpose()
    }

    /// The hint of a row, if it has one and hints are read.
    ///
    /// # Errors
    /// One that is no text.
    pub fn hint(&self, row: &DataRow) -> Result<Option<Arc<str>>, RowError> {
        let found = row.get(HINT).filter(|hint| self.hints && *hint != "");
        found.map(|hint| plain(HINT, hint).map(Arc::from)).transpose()
    }

    /// The row's name, if it has one.
    pub fn id<'a>(&self, row: &'a DataRow) -> Option<&'a Value> {
        self.id.find(row).map(|(_, value)| value)
    }

    /// What answers to a row are judged against.
    ///
    /// # Errors
    /// A row with neither gold answer nor tests; columns that cannot be read; a verifier that nobody declared.
    pub fn task(&self, row: &DataRow) -> Result<Task, RowError> {
        // A user who names the gold answer's column wants it compared, whatever else is in the row.
        let by_columns = matches!(self.gold, Names::Usual(_));
        match self.verifiers.choose(row, by_columns)? {
            VerifierChoice::Custom(name) => Ok(self.custom(name, row)),
            VerifierChoice::Code => self.code(row),
            VerifierChoice::Unjudged => Ok(Task::unjudged()),
            VerifierChoice::Columns if by_columns && let Some(task) = code::task(row)? => Ok(task),
            VerifierChoice::Columns if self.is_scored_by_environment(row) => Ok(Task::of_environment()),
            VerifierChoice::Columns | VerifierChoice::Math => self.math(row),
        }
    }

    /// Where a row is done in several turns; `None` where it is answered in one.
    ///
    /// # Errors
    /// An environment that nobody declared.
    pub fn environment(&self, row: &DataRow) -> Result<Option<EnvironmentTask>, RowError> {
        self.environments.task(row, || Payload::of(row).json())
    }

    /// Whether a row needs no gold answer, since its environment has a score of its own.
    fn is_scored_by_environment(&self, row: &DataRow) -> bool {
        self.gold.find(row).is_none() && self.environments.scores(row)
    }

    /// The task of a row for a custom verifier.
    fn custom(&self, name: &str, row: &DataRow) -> Task {
        let task = Payload::of(row).task(name);
        match self.gold {
            Names::Named(_) => task.shown_with(self.golds(row).unwrap_or_default()),
            Names::Usual(_) => task,
        }
    }

    /// What tells a row from others with the same prompt: its gold answer, and whatever else its reward function or an
    /// environment with a score of its own gets.
    ///
    /// # Errors
    /// More columns than they may get.
    pub(crate) fn identity(&self, row: &DataRow, task: &Task, in_environment: bool) -> Result<RowIdentity, RowError> {
        let is_custom = task.kind() == TaskKind::Custom;
        let is_scored = self.environments.scores(row);
        if !is_custom && !in_environment {
            return Ok(RowIdentity { context: None, gold: task.digest() });
        }
        let payload = Payload::of(row);
        let column = |names: &Names| {
            names.find(row).map(|(name, _)| name.split('.').next().unwrap_or(name).to_owned()).unwrap_or_default()
        };
        let [prompt, gold, demonstration, id] = [&self.prompt, &self.gold, &self.demonstration, &self.id].map(column);
        let asked = [prompt.as_str(), &gold].into_iter().chain(code::COLUMNS.iter().copied());
        payload.require_short(&asked.collect::<Vec<_>>(), self.max_columns)?;
        let without = [prompt.as_str(), &demonstration, &id];
        // An environment with a score takes the gold answer for what it likes.
        let context = match (is_scored, is_custom) {
            (true, _) => Some(payload.digest(&without)),
            (false, true) => Some(payload.digest(&[&without[..], &[&gold]].concat())),
            (false, false) => None,
        };
        let found = self.gold.find(row).and_then(|(name, _)| row.json(name)).unwrap_or_default();
        let gold = match (is_scored, is_custom) {
            (true, _) => Digest::of_texts([]),
            (false, true) => Digest::of_texts([found.as_str()]),
            (false, false) => task.digest(),
        };
        Ok(RowIdentity { context, gold })
    }

    fn math(&self, row: &DataRow) -> Result<Task, RowError> {
        let golds = self.golds(row)?;
        let task = Task::math(golds).ok_or_else(|| {
            RowError::field(Reason::EmptyGold, FieldError::new("the list of gold answers", "empty", "one or more"))
        })?;
        let task = task.with_prompt(self.question(row));
        Ok(match row.get(PROFILE) {
            Some(profile) => task.with_profile(&text(PROFILE, profile)?),
            None => task,
        })
    }

    /// The question of a row with tests, whatever else is in the row.
    ///
    /// # Errors
    /// A row without tests; columns that cannot be read.
    pub fn code(&self, row: &DataRow) -> Result<Task, RowError> {
        let missing = "no tests, allowed: the columns of a LiveCodeBench row, also in `question`";
        code::task(row)?.ok_or_else(|| RowError::new(Reason::InvalidTests, missing))
    }

    /// The gold answers of a row, as they are written; some data sets list several of equal worth. Null in a list
    /// counts as absent.
    ///
    /// # Errors
    /// No gold answer; one that is neither text, number nor truth value; a solution without a box.
    pub fn golds(&self, row: &DataRow) -> Result<Vec<String>, RowError> {
        const ALLOWED: &str = "a text or a number";
        let found = self.gold.iter().find_map(|name| Some((name, row.texts(name)?)));
        let (name, texts) = found.ok_or_else(|| match self.gold.iter().find(|name| row.is_null(name)) {
            Some(name) => RowError::kind(Reason::EmptyGold, name, &Value::Null, ALLOWED),
            None => self.gold.missing(Reason::MissingGold, "gold answer", row),
        })?;
        let unreadable = |value| RowError::kind(Reason::UnreadableGold, name, value, ALLOWED);
        texts.into_iter().map(|text| gold(name, text.map_err(unreadable)?)).collect()
    }
}

/// Whether a column has nothing in it.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.values().all(Value::is_null),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn plain(name: &str, value: &Value) -> Result<String, RowError> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        Value::String(_) => Err(RowError::field(Reason::InvalidRow, refused(name, "empty", "a text"))),
        other => Err(RowError::kind(Reason::InvalidRow, name, other, "a text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskKind;

    fn row(json: &str) -> DataRow {
        DataRow::parse(1, json).unwrap()
    }

    #[test]
    fn the_columns_decide_which_verifier_judges() {
        let fields = Fields::default().with_verifiers(Verifiers::new([("judge", Vec::<String>::new())], ""));
        let kind = |json: &str| fields.task(&row(json)).map(|task| task.kind());
        let tests = r#"[{"input": "1", "output": "2"}]"#;
        assert_eq!(kind(r#"{"answer": "2"}"#), Ok(TaskKind::Math));
        assert_eq!(kind(&format!(r#"{{"public_test_cases": {tests}}}"#)), Ok(TaskKind::Code));
        assert_eq!(kind(&format!(r#"{{"question": {{"public_test_cases": {tests}}}}}"#)), Ok(TaskKind::Code));
        assert_eq!(kind(r#"{"custom": {"endpoint": "judge", "payload": {"a": 1}}}"#), Ok(TaskKind::Custom));
        assert_eq!(kind(r#"{"answer": "2", "profile": "exact"}"#), Ok(TaskKind::Math));
        assert_eq!(kind(r#"{"answer": "2", "verifier": "judge"}"#), Ok(TaskKind::Custom));
        assert_eq!(kind(r#"{"verifier": "none"}"#), Ok(TaskKind::Unjudged));
        assert_eq!(kind(r#"{"answer": "2", "verifier": "none"}"#), Ok(TaskKind::Unjudged));
        assert_eq!(
            kind(&format!(r#"{{"answer": "2", "verifier": "math", "public_test_cases": {tests}}}"#)),
            Ok(TaskKind::Math)
        );
        let error = kind(r#"{"custom": {"endpoint": "nobody"}}"#).unwrap_err();
        assert_eq!(error.reason, Reason::UnknownVerifier, "{error}");
        let error = kind(r#"{"custom": {"payload": 1}}"#).unwrap_err().to_string();
        assert!(error.starts_with("`custom.endpoint` is absent"), "{error}");
    }

    #[test]
    fn prompts_are_texts_or_messages() {
        let fields = Fields::default();
        let asked = |json: &str| fields.prompt(&row(json)).map_err(|error| (error.reason, error.to_string()));
        let text = |text: &str| Ok(Prompt::Text(text.to_owned()));
        assert_eq!(asked(r#"{"problem": "1+1?"}"#), text("1+1?"));
        let lcb = r#"{"question": {"question_content": "double it", "private_test_cases": "eJx", "starter_code": "def f", "metadata": {"func_name": "f"}}}"#;
        let Prompt::Either { text: words, .. } = asked(lcb).unwrap() else { panic!("both forms") };
        assert!(words.contains("### Question:\ndouble it\n") && words.contains("```python\ndef f\n```"), "{words}");
        let plain = Fields::default().with_program_prompt(ProgramPrompt::Plain).prompt(&row(lcb)).unwrap();
        assert_eq!(plain, Prompt::Text("double it\n\nStarter code:\n```python\ndef f\n```".to_owned()));
        assert!(matches!(asked(r#"{"prompt": "a", "tests": []}"#).unwrap(), Prompt::Either { .. }));
        assert_eq!(asked(r#"{"prompt": "a", "tests": [], "verifier": "math"}"#), text("a"));
        let chat = r#"{"prompt": [{"role": "user", "content": "1+1?"}]}"#;
        assert!(matches!(asked(chat).unwrap(), Prompt::Messages(messages) if messages.len() == 1));
        assert_eq!(fields.question(&row(chat)), Some("1+1?"));
        for (json, reason, words) in [
            (r#"{"prompt": " "}"#, Reason::EmptyPrompt, "prompt is empty"),
            (r#"{"prompt": null}"#, Reason::EmptyPrompt, "`prompt` is null"),
            (r#"{"prompt": 1}"#, Reason::InvalidMessages, "prompt is 1"),
            (r#"{"prompt": [{"role": "x", "content": "a"}]}"#, Reason::InvalidMessages, "prompt[0].role is \"x\""),
            (r#"{"prompt": [{"role": "system", "content": "a"}]}"#, Reason::InvalidMessages, "prompt is messages of"),
            (r#"{"q": 1}"#, Reason::MissingPrompt, "no prompt, allowed: one of prompt, problem"),
        ] {
            let (found, message) = asked(json).unwrap_err();
            assert!(found == reason && message.starts_with(words), "{json}: {found} {message}");
        }
    }
}
