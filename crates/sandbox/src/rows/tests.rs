//! The tests of a problem.

use std::any::Any;

use evenkeel_host::tests_digest;

use crate::compare::json;
use crate::compare::value::Value;

/// How a program receives its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestKind {
    /// The program reads standard input and writes to standard output.
    Stdin,
    /// A function is called. Each line of the input is an argument as JSON, the output is a value as JSON.
    Functional,
}

/// One test: an input and what is expected for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// How the program receives the input.
    pub kind: TestKind,
    /// Standard input, or the arguments as JSON, one a line.
    pub input: String,
    /// The expected output. It never leaves the host.
    pub output: String,
    /// Other outputs that are as good, in strict mode.
    pub alternatives: Vec<String>,
}

/// Why tests are invalid: a defect of the data, never a wrong answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTests {
    /// The list of tests is empty.
    #[error("no tests")]
    None,
    /// A test calls a function, but none is named; or it uses standard input although a function is named.
    #[error("test {0} is of another kind than the function's name implies")]
    Kind(usize),
    /// A test says that it calls a function, but none is named.
    #[error("test {0} is functional, and no function is named")]
    NoFunction(usize),
    /// Two tests name different functions.
    #[error("test {0} names another function than those before it")]
    SeveralFunctions(usize),
    /// The tests exceed the memory limit.
    #[error("the tests hold more than {0} bytes")]
    TooLarge(usize),
    /// Part of a functional test is not JSON.
    #[error("test {test}: the {part} is {problem}")]
    Json {
        /// Index of the test, from 0.
        test: usize,
        /// Name of the part: `input` or `output`.
        part: &'static str,
        /// Place and kind of the fault in the part.
        problem: json::NotJson,
    },
}

/// The tests of a problem: at least one, all of the same kind.
#[derive(Debug)]
pub struct Tests {
    tests: Vec<Test>,
    function: Option<String>,
    /// The expected values of each functional test, at least one, or the first defect.
    expected: Result<Vec<Vec<Value>>, BadTests>,
    digest: String,
    held_bytes: usize,
    /// Dropped with the tests, for example a reservation of their memory.
    _until_dropped: Option<Box<dyn Any + Send + Sync>>,
}

impl Test {
    /// A test with one expected output.
    #[must_use]
    pub fn new(kind: TestKind, input: impl Into<String>, output: impl Into<String>) -> Self {
        Self { kind, input: input.into(), output: output.into(), alternatives: Vec::new() }
    }

    /// All outputs that are right, at least one.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.output).chain(&self.alternatives).map(String::as_str)
    }

    pub(super) fn held_bytes(&self) -> usize {
        let alternatives = self.alternatives.iter().map(|text| size_of::<String>() + text.capacity()).sum::<usize>();
        size_of::<Self>() + self.input.capacity() + self.output.capacity() + alternatives
    }
}

impl Tests {
    /// Parses tests. `function` is the function or method to call, if any.
    ///
    /// # Errors
    ///
    /// [`BadTests::None`] and [`BadTests::Kind`]. Invalid JSON is reported by [`Self::defect`] instead, since the
    /// reference grader has a result for it.
    pub fn new(tests: Vec<Test>, function: Option<String>) -> Result<Self, BadTests> {
        Self::within(tests, function, usize::MAX)
    }

    /// [`Self::new`] with a limit on the memory of the tests.
    ///
    /// # Errors
    ///
    /// Those of [`Self::new`], and [`BadTests::TooLarge`].
    pub fn within(tests: Vec<Test>, function: Option<String>, max_bytes: usize) -> Result<Self, BadTests> {
        let function = function.filter(|name| !name.is_empty());
        let kind = if function.is_some() { TestKind::Functional } else { TestKind::Stdin };
        if tests.is_empty() {
            return Err(BadTests::None);
        }
        if let Some(index) = tests.iter().position(|test| test.kind != kind) {
            return Err(BadTests::Kind(index));
        }
        let texts = tests.iter().map(Test::held_bytes).sum();
        let mut available = max_bytes.checked_sub(texts).ok_or(BadTests::TooLarge(max_bytes))?;
        let before = available;
        let expected = if kind == TestKind::Functional { expected(&tests, &mut available) } else { Ok(Vec::new()) };
        if matches!(&expected, Err(BadTests::Json { problem, .. }) if problem.is_too_large()) {
            return Err(BadTests::TooLarge(max_bytes));
        }
        let digest = digest(&tests, function.as_deref());
        let held_bytes = texts + (before - available);
        Ok(Self { tests, function, expected, digest, held_bytes, _until_dropped: None })
    }

    /// Keeps a value until the tests are dropped.
    #[must_use]
    pub fn with(self, until_dropped: impl Any + Send + Sync) -> Self {
        Self { _until_dropped: Some(Box::new(until_dropped)), ..self }
    }

    /// The tests, in their order.
    #[must_use]
    pub fn tests(&self) -> &[Test] {
        &self.tests
    }

    /// Number of tests, at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.tests.len()
    }

    /// The function or method to call.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        self.function.as_deref()
    }

    /// The first input or output that is not valid JSON.
    #[must_use]
    pub fn defect(&self) -> Option<&BadTests> {
        self.expected.as_ref().err()
    }

    /// The values that a functional test accepts, at least one. None for other tests.
    #[must_use]
    pub fn expected(&self, index: usize) -> &[Value] {
        self.expected.as_ref().ok().and_then(|expected| expected.get(index)).map_or(&[], Vec::as_slice)
    }

    /// Whether no test expects any output, so that a program that does nothing passes.
    #[must_use]
    pub fn expect_nothing(&self) -> bool {
        self.function.is_none() && self.tests.iter().all(|test| test.outputs().any(|output| output.trim().is_empty()))
    }

    /// `sha256:` and 64 hex digits: identifies these tests in later requests. Defined in `reward.proto`.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Bytes of inputs and expected outputs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tests.iter().map(|test| test.input.len() + test.outputs().map(str::len).sum::<usize>()).sum()
    }

    /// Memory of the tests in bytes, including their expected values.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

fn expected(tests: &[Test], available: &mut usize) -> Result<Vec<Vec<Value>>, BadTests> {
    let read = |test, part, text: &str, available: &mut usize| {
        json::read_within(text, available).map_err(|problem| BadTests::Json { test, part, problem })
    };
    let one = |(index, test): (usize, &Test)| {
        // Arguments are validated, but not kept.
        test.input.split('\n').try_for_each(|line| read(index, "input", line, &mut available.clone()).map(drop))?;
        test.outputs().map(|output| read(index, "output", output, available)).collect()
    };
    tests.iter().enumerate().map(one).collect()
}

fn digest(tests: &[Test], function: Option<&str>) -> String {
    const ALTERNATIVE: u8 = 3;
    let kind = |kind| match kind {
        TestKind::Stdin => 1,
        TestKind::Functional => 2,
    };
    let tests = tests.iter().flat_map(|test| {
        let alternatives = test.alternatives.iter().map(|output| (ALTERNATIVE, "", output.as_str()));
        std::iter::once((kind(test.kind), test.input.as_str(), test.output.as_str())).chain(alternatives)
    });
    tests_digest(function.unwrap_or_default(), tests)
}
