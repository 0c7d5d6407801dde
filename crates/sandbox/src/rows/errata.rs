//! Questions of LiveCodeBench with faulty tests, from its own list of errata (July 2025).

/// What is wrong with a question's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erratum {
    /// There are several right answers, but the tests accept only one.
    SeveralAnswers,
    /// The problem is interactive.
    Interactive,
    /// A test is wrong.
    WrongTests,
}

const SEVERAL: [&str; 11] = [
    "abc311_c",
    "abc326_d",
    "abc327_b",
    "abc333_e",
    "abc343_a",
    "abc343_e",
    "abc362_c",
    "arc185_c",
    "find-words-containing-character",
    "find-the-peaks",
    "generate-binary-strings-without-adjacent-zeros",
];
const INTERACTIVE: [&str; 2] = ["abc337_e", "abc355_e"];
const WRONG: [&str; 4] = ["abc350_c", "apply-operations-to-make-string-empty", "most-frequent-ids", "arc189_a"];

/// The erratum of a question, by its id or its title in kebab case.
#[must_use]
pub fn erratum(question: &str) -> Option<Erratum> {
    if SEVERAL.contains(&question) {
        Some(Erratum::SeveralAnswers)
    } else if INTERACTIVE.contains(&question) {
        Some(Erratum::Interactive)
    } else if WRONG.contains(&question) {
        Some(Erratum::WrongTests)
    } else {
        None
    }
}

impl Erratum {
    /// A description for people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::SeveralAnswers => "erratum: several answers are right, the tests know one",
            Self::Interactive => "erratum: the question is interactive",
            Self::WrongTests => "erratum: a test is wrong",
        }
    }
}
