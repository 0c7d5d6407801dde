//! What an answer is judged against, as one value.

use std::sync::Arc;

use crate::digest::Digest;

use evenkeel_math::{CheckInput, Decimals, Profile, Rules as MathRules, check};
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::verify_item::{Answer, Task as Message};
use evenkeel_proto::v1::{CodeLimits, CodeMode, CodeReward, CodeTask, CopiedRule, CustomTask, MathTask, VerifyItem};

/// Tests up to this size are sent with every answer: naming them would save less than a request that is repeated costs.
const SHORT_TESTS_BYTES: usize = 4 << 10;

/// In place of the name of a custom verifier: answers are not judged.
const UNJUDGED: &str = "none";

/// Longest text of a task that goes with every answer to it.
const MAX_PROMPT_BYTES: usize = 32 << 10;

/// What an answer is judged against. It goes unchanged from a row to the reward service. Clones share it, tests
/// included.
#[derive(Debug, Clone, PartialEq)]
pub struct Task(
    Arc<Message>,
    /// The gold answers of a custom task for people, from a column that the settings name.
    Option<Arc<[String]>>,
);

/// Which verifier a task needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskKind {
    /// Equality with a gold answer.
    Math,
    /// A program against tests.
    Code,
    Custom,
    /// No verifier: the score of the environment counts.
    Environment,
    /// No verifier and no score: a teacher alone decides.
    Unjudged,
}

impl TaskKind {
    /// Name of the kind in settings, rows and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Math => "math",
            Self::Code => "code",
            Self::Custom => "custom",
            Self::Environment => "environment",
            Self::Unjudged => UNJUDGED,
        }
    }
}

/// The rules that answers are judged by where their row does not say. Empty and unspecified values leave it to the
/// reward service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// Profile of the mathematical verifier.
    pub math_profile: String,
    /// What answers copied from their task are worth.
    pub math_copied: CopiedRule,
    /// Rules for programs: how they are run, their limits and their rewards.
    pub code: CodeRules,
}

/// How programs are run, and what passed tests are worth.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CodeRules {
    /// Which rules programs run under.
    pub mode: CodeMode,
    /// What one test may use.
    pub limits: CodeLimits,
    /// How passed tests become a reward.
    pub reward: CodeReward,
    /// Run every test even after one failed.
    pub run_all_tests: bool,
    /// Largest error of floats; `None` for the reward service's.
    pub float_tolerance: Option<f64>,
}

impl Task {
    /// Equal to any of these gold answers? `None` where there is no gold answer.
    pub fn math(golds: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut golds = golds.into_iter();
        let gold = golds.next()?;
        Some(Self::new(Message::Math(MathTask { gold, alternatives: golds.collect(), ..MathTask::default() })))
    }

    /// Adds the text of the prompt, so that answers copied from it are recognised. A text of more than 32 KiB is left
    /// out.
    pub fn with_prompt(mut self, prompt: Option<&str>) -> Self {
        if let Message::Math(task) = Arc::make_mut(&mut self.0) {
            task.prompt = prompt.filter(|prompt| prompt.len() <= MAX_PROMPT_BYTES).map(str::to_owned);
        }
        self
    }

    /// The task of a programming question: its tests decide.
    pub fn code(question_id: impl Into<String>, tests: TestsSource) -> Self {
        let question_id = question_id.into();
        Self::new(Message::Code(CodeTask { question_id, tests_source: Some(tests), ..CodeTask::default() }))
    }

    /// A task for a custom verifier, which gets the answer and the payload.
    pub fn custom(verifier: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self::new(Message::Custom(CustomTask { verifier: verifier.into(), payload: payload.into() }))
    }

    /// Adds the gold answers that people are shown of a custom task.
    pub(crate) fn shown_with(self, answers: Vec<String>) -> Self {
        Self(self.0, Some(answers.into()))
    }

    /// The gold answers that people are shown of a custom task, where a column is named for them.
    pub(crate) fn shown_answers(&self) -> Option<&[String]> {
        self.1.as_deref()
    }

    /// A task that the environment of the episode scores; a verifier has nothing to judge against.
    pub fn of_environment() -> Self {
        Self::custom("", "")
    }

    /// Nothing: answers are not judged, and have a reward of 0.
    pub fn unjudged() -> Self {
        Self::custom(UNJUDGED, "")
    }

    fn new(message: Message) -> Self {
        Self(Arc::new(message), None)
    }

    /// Which verifier it needs.
    pub fn kind(&self) -> TaskKind {
        match &*self.0 {
            Message::Math(_) => TaskKind::Math,
            Message::Code(_) => TaskKind::Code,
            Message::Custom(task) if task.verifier.is_empty() => TaskKind::Environment,
            Message::Custom(task) if task.verifier == UNJUDGED => TaskKind::Unjudged,
            Message::Custom(_) => TaskKind::Custom,
        }
    }

    /// The name of the custom verifier that judges it; `None` for all other tasks.
    pub fn verifier(&self) -> Option<&str> {
        match &*self.0 {
            Message::Custom(task) if self.kind() == TaskKind::Custom => Some(&task.verifier),
            _ => None,
        }
    }

    /// The gold answers of mathematics, each as good as the others; none for other tasks.
    pub fn golds(&self) -> impl Iterator<Item = &str> {
        let math = match &*self.0 {
            Message::Math(task) => Some(task),
            _ => None,
        };
        math.into_iter().flat_map(|task| std::iter::once(&task.gold).chain(&task.alternatives)).map(String::as_str)
    }

    /// Whether a gold answer of each is one of the other, in another spelling: rows that differ in nothing else do not
    /// contradict each other.
    pub(crate) fn is_answered_alike(&self, other: &Self) -> bool {
        let (Message::Math(own), Message::Math(others)) = (&*self.0, &*other.0) else { return false };
        if own.profile != others.profile {
            return false;
        }
        let rules = own.profile.parse::<Profile>().map_or_else(|_| MathRules::default(), |profile| profile.rules());
        let rules = MathRules { decimals: Decimals::Exact, ..rules };
        let is_equal = |gold: &str, answer: &str| check(gold, CheckInput::Extracted(answer), &rules).is_equal();
        // One of several is enough: any of them is accepted.
        self.golds().any(|own| other.golds().any(|others| is_equal(own, others) && is_equal(others, own)))
    }

    /// The task with the gold answers that `keep` accepts; `None` where it accepts none.
    pub(crate) fn with_golds(&self, keep: impl Fn(&str) -> bool) -> Option<Self> {
        let mut golds = self.golds().filter(|gold| keep(gold)).map(str::to_owned);
        let first = golds.next()?;
        let alternatives = golds.collect();
        match &*self.0 {
            Message::Math(task) => {
                Some(Self::new(Message::Math(MathTask { gold: first, alternatives, ..task.clone() })))
            }
            _ => None,
        }
    }

    /// A digest of what answers are judged against; the name of a question does not count.
    pub(crate) fn digest(&self) -> Digest {
        match &*self.0 {
            Message::Math(task) => Digest::of_texts(["math", &task.profile].into_iter().chain(self.golds())),
            Message::Code(task) => match &task.tests_source {
                Some(TestsSource::LiveCodeBench(cases)) => {
                    Digest::of_texts(["code", &cases.public_test_cases, &cases.private_test_cases, &cases.metadata])
                }
                Some(TestsSource::TestsDigest(digest)) => Digest::of_texts(["digest", digest]),
                _ => Digest::of_texts(["question", &task.question_id]),
            },
            Message::Custom(task) => {
                Digest::of_texts(["custom", &task.verifier, &String::from_utf8_lossy(&task.payload)])
            }
        }
    }

    /// The profile that a mathematical answer is judged by; empty for the reward service's default.
    pub fn math_profile(&self) -> &str {
        match &*self.0 {
            Message::Math(task) => &task.profile,
            _ => "",
        }
    }

    /// The name of a program's question; empty for other tasks.
    pub fn question_id(&self) -> &str {
        match &*self.0 {
            Message::Code(task) => &task.question_id,
            _ => "",
        }
    }

    /// The tests of a program; `None` for other tasks.
    pub fn tests(&self) -> Option<&TestsSource> {
        match &*self.0 {
            Message::Code(task) => task.tests_source.as_ref(),
            _ => None,
        }
    }

    /// Names the tests of a programming question instead of sending them, or the other way around. Other tasks stay as
    /// they are.
    pub fn with_tests(&self, tests: TestsSource) -> Self {
        match &*self.0 {
            Message::Code(task) => {
                // Not a clone of the whole: the old tests may be megabytes.
                let CodeTask { question_id, mode, limits, extraction, reward, run_all_tests, float_tolerance, .. } =
                    task;
                Self::new(Message::Code(CodeTask {
                    question_id: question_id.clone(),
                    tests_source: Some(tests),
                    mode: *mode,
                    limits: *limits,
                    extraction: *extraction,
                    reward: *reward,
                    run_all_tests: *run_all_tests,
                    float_tolerance: *float_tolerance,
                }))
            }
            _ => self.clone(),
        }
    }

    /// The question with its tests named by their digest; `None` where they are short, named already, or absent.
    pub fn named(&self) -> Option<Self> {
        let tests = self.tests().filter(|tests| tests.text_bytes() > SHORT_TESTS_BYTES)?;
        Some(self.with_tests(TestsSource::TestsDigest(tests.digest())))
    }

    /// Sets the rules that judge the task, where it names none of its own.
    pub fn with_rules(mut self, rules: &Rules) -> Self {
        match Arc::make_mut(&mut self.0) {
            Message::Math(task) => {
                if task.profile.is_empty() {
                    task.profile.clone_from(&rules.math_profile);
                }
                if rules.math_copied != CopiedRule::Unspecified {
                    task.settings.get_or_insert_default().copied = rules.math_copied.into();
                }
            }
            Message::Code(task) => {
                let CodeRules { mode, limits, reward, run_all_tests, float_tolerance } = rules.code;
                (task.mode, task.limits, task.reward) = (mode.into(), Some(limits), reward.into());
                (task.run_all_tests, task.float_tolerance) = (run_all_tests, float_tolerance.or(task.float_tolerance));
            }
            Message::Custom(_) => {}
        }
        self
    }

    /// Sets the profile of a mathematical task. Other tasks stay as they are.
    pub fn with_profile(mut self, profile: &str) -> Self {
        if let Message::Math(task) = Arc::make_mut(&mut self.0) {
            profile.clone_into(&mut task.profile);
        }
        self
    }

    /// The task as requests have it.
    pub fn message(&self) -> Message {
        (*self.0).clone()
    }

    /// The request to judge an answer, without a deadline and a trace.
    pub fn verify_item(&self, id: impl Into<String>, answer: Answer) -> VerifyItem {
        VerifyItem { id: id.into(), answer: Some(answer), task: Some(self.message()), ..VerifyItem::default() }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::LiveCodeBenchCases;

    use super::*;

    #[test]
    fn rules_fill_in_what_the_row_leaves_open() {
        let rules = Rules { math_profile: "exact".into(), ..Rules::default() };
        let task = Task::math(["2".to_owned(), "3".to_owned()]).unwrap();
        assert_eq!(task.golds().collect::<Vec<_>>(), ["2", "3"]);
        assert_eq!(task.clone().with_rules(&rules).math_profile(), "exact");
        assert_eq!(task.with_profile("gsm8k").with_rules(&rules).math_profile(), "gsm8k");
        assert!(Task::math([]).is_none());
    }

    #[test]
    fn a_question_keeps_its_rules_when_its_tests_are_named() {
        let code = CodeRules { mode: CodeMode::LiveCodeBench, run_all_tests: true, ..CodeRules::default() };
        let task = Task::code("q", TestsSource::TestsDigest("sha256:a".into()));
        let task = task.with_rules(&Rules { code, ..Rules::default() });
        let again = task.with_tests(TestsSource::TestsDigest("sha256:b".into()));
        assert_eq!(again.tests(), Some(&TestsSource::TestsDigest("sha256:b".into())));
        assert_eq!(again.with_tests(TestsSource::TestsDigest("sha256:a".into())), task);
    }

    #[test]
    fn long_tests_are_named_by_their_digest() {
        let tests = |bytes: usize| {
            let cases = LiveCodeBenchCases { private_test_cases: "x".repeat(bytes), ..LiveCodeBenchCases::default() };
            TestsSource::LiveCodeBench(cases)
        };
        let long = Task::code("q", tests(5000));
        let named = long.named().unwrap();
        assert_eq!(named.tests(), Some(&TestsSource::TestsDigest(tests(5000).digest())));
        assert_ne!(tests(5000).digest(), tests(5001).digest());
        for whole in [Task::code("q", tests(100)), named, Task::math(["1".to_owned()]).unwrap()] {
            assert_eq!(whole.named(), None);
        }
    }

    #[test]
    fn the_request_has_the_task_as_it_is() {
        let task = Task::custom("http://judge", *b"{}");
        let item = task.verify_item("a", Answer::Completion("text".into()));
        assert_eq!((item.id.as_str(), Task::new(item.task.unwrap())), ("a", task));
    }
}
