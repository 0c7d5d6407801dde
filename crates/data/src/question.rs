//! The kinds of generated problems, and how hard they are: sums as they stand and in words, each with one whole number
//! as its answer.

use rand::Rng;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};

/// People and things of problems in words.
const NAMES: [&str; 12] =
    ["Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jack", "Kate", "Liam"];
const THINGS: [&str; 12] = [
    "apples", "books", "buttons", "coins", "eggs", "marbles", "pencils", "shells", "stamps", "stickers", "tickets",
    "toys",
];

/// A kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// `What is 12 + 7?`
    Sum,
    /// `What is 12 - 7?`
    Difference,
    /// `What is 3 * 7?`
    Product,
    /// A person has some things and gets more.
    Gain,
    /// A person has some things and gives some away.
    Loss,
    /// Boxes with as many things in each.
    Boxes,
    /// The largest of some numbers.
    Largest,
    /// Several changes, one after the other.
    Steps,
}

/// How large numbers are, and how many steps there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProblemDifficulty {
    /// Numbers up to 30; 2 or 3 steps.
    #[default]
    Easy,
    /// Numbers of two digits; 2 to 4 steps.
    Medium,
    /// Numbers of up to three digits; 3 to 6 steps.
    Hard,
}

/// A problem in words and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) text: String,
    pub(crate) answer: u32,
}

impl ProblemKind {
    /// Every kind, in an order that never changes: the random numbers of a problem depend on its place.
    pub const ALL: [Self; 8] =
        [Self::Sum, Self::Difference, Self::Product, Self::Gain, Self::Loss, Self::Boxes, Self::Largest, Self::Steps];

    /// All but `steps`, in which one answer takes several sums.
    pub const USUAL: [Self; 7] =
        [Self::Sum, Self::Difference, Self::Product, Self::Gain, Self::Loss, Self::Boxes, Self::Largest];

    /// Name of the kind in settings, metrics and ids.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Difference => "difference",
            Self::Product => "product",
            Self::Gain => "gain",
            Self::Loss => "loss",
            Self::Boxes => "boxes",
            Self::Largest => "largest",
            Self::Steps => "steps",
        }
    }

    /// A problem of this kind.
    pub(crate) fn draw(self, difficulty: ProblemDifficulty, rng: &mut impl Rng) -> Question {
        let size = Size::of(difficulty);
        let name = pick(&NAMES, rng);
        let things = pick(&THINGS, rng);
        match self {
            Self::Sum => {
                let a = size.term(rng);
                let b = size.term(rng);
                question(format!("What is {a} + {b}?"), a + b)
            }
            Self::Difference => {
                let rest = size.term(rng);
                let b = size.term(rng);
                question(format!("What is {} - {b}?", rest + b), rest)
            }
            Self::Product => {
                let a = size.factor(rng);
                let b = size.factor(rng);
                question(format!("What is {a} * {b}?"), a * b)
            }
            Self::Gain => {
                let a = size.term(rng);
                let b = size.term(rng);
                question(
                    format!("{name} has {a} {things} and gets {b} more. How many {things} does {name} have now?"),
                    a + b,
                )
            }
            Self::Loss => {
                let rest = size.term(rng);
                let b = size.term(rng);
                question(
                    format!("{name} has {} {things} and gives away {b}. How many {things} are left?", rest + b),
                    rest,
                )
            }
            Self::Boxes => {
                let a = size.factor(rng);
                let b = size.factor(rng);
                question(
                    format!("{name} has {a} boxes with {b} {things} each. How many {things} are there in all?"),
                    a * b,
                )
            }
            Self::Largest => largest(size, rng),
            Self::Steps => steps(size, name, things, rng),
        }
    }
}

/// The numbers of a difficulty.
#[derive(Clone, Copy)]
struct Size {
    /// The smallest and the largest term.
    terms: [u32; 2],
    factors: [u32; 2],
    compared: [u32; 2],
    /// How many numbers are compared.
    among: usize,
    /// The smallest and the largest number of steps.
    steps: [u32; 2],
}

impl Size {
    const fn of(difficulty: ProblemDifficulty) -> Self {
        match difficulty {
            ProblemDifficulty::Easy => {
                Self { terms: [2, 15], factors: [2, 10], compared: [10, 99], among: 3, steps: [2, 3] }
            }
            ProblemDifficulty::Medium => {
                Self { terms: [10, 49], factors: [3, 12], compared: [10, 999], among: 4, steps: [2, 4] }
            }
            ProblemDifficulty::Hard => {
                Self { terms: [25, 499], factors: [6, 25], compared: [100, 9_999], among: 6, steps: [3, 6] }
            }
        }
    }

    fn term(self, rng: &mut impl Rng) -> u32 {
        within(self.terms, rng)
    }

    fn factor(self, rng: &mut impl Rng) -> u32 {
        within(self.factors, rng)
    }
}

fn within([low, high]: [u32; 2], rng: &mut impl Rng) -> u32 {
    rng.random_range(low..=high)
}

fn pick<'a>(of: &[&'a str], rng: &mut impl Rng) -> &'a str {
    of.choose(rng).copied().unwrap_or_default()
}

fn question(text: String, answer: u32) -> Question {
    Question { text, answer }
}

/// Different numbers, of which one is the largest.
fn largest(size: Size, rng: &mut impl Rng) -> Question {
    let mut numbers: Vec<u32> = Vec::with_capacity(size.among);
    while numbers.len() < size.among {
        let number = within(size.compared, rng);
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let answer = numbers.iter().copied().max().unwrap_or_default();
    let written: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let (last, others) =
        written.split_last().map_or((String::new(), String::new()), |(last, others)| (last.clone(), others.join(", ")));
    question(format!("Which is the largest of the numbers {others} and {last}?"), answer)
}

/// Some things, and several changes of their number; never below one.
fn steps(size: Size, name: &str, things: &str, rng: &mut impl Rng) -> Question {
    let mut count = size.term(rng);
    let mut text = format!("{name} has {count} {things}.");
    for step in 0..within(size.steps, rng) {
        let then = if step == 0 { "First" } else { "Then" };
        let change = match rng.random_range(0..3) {
            0 if count > size.terms[0] => {
                let given = rng.random_range(1..count.min(size.terms[1]));
                count -= given;
                format!("gives away {given}")
            }
            1 => {
                let packs = rng.random_range(2..=4);
                let each = within([2, size.factors[1].min(10)], rng);
                count += packs * each;
                format!("buys {packs} packs of {each} {things}")
            }
            _ => {
                let found = size.term(rng);
                count += found;
                format!("finds {found} more")
            }
        };
        text.push_str(&format!(" {then} {name} {change}."));
    }
    text.push_str(&format!(" How many {things} does {name} have in the end?"));
    question(text, count)
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, rng};

    use super::*;

    fn drawn(kind: ProblemKind, difficulty: ProblemDifficulty) -> impl Iterator<Item = Question> {
        (0..500).map(move |number| kind.draw(difficulty, &mut rng(1, Stream::WordProblem { kind: 0, number })))
    }

    fn numbers(text: &str) -> Vec<u32> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    }

    #[test]
    fn a_kind_has_one_name_in_settings_and_in_metrics() {
        for kind in ProblemKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    const DIFFICULTIES: [ProblemDifficulty; 3] =
        [ProblemDifficulty::Easy, ProblemDifficulty::Medium, ProblemDifficulty::Hard];

    #[test]
    fn the_answer_is_that_of_the_words() {
        for difficulty in DIFFICULTIES {
            for kind in ProblemKind::ALL {
                for Question { text, answer } in drawn(kind, difficulty) {
                    let found = numbers(&text);
                    let expected = match (kind, &found[..]) {
                        (ProblemKind::Sum | ProblemKind::Gain, [a, b]) => a + b,
                        (ProblemKind::Difference | ProblemKind::Loss, [a, b]) => a - b,
                        (ProblemKind::Product | ProblemKind::Boxes, [a, b]) => a * b,
                        (ProblemKind::Largest, numbers) => *numbers.iter().max().unwrap(),
                        (ProblemKind::Steps, _) => count(&text),
                        _ => panic!("{kind:?}: {text}"),
                    };
                    assert_eq!(answer, expected, "{text}");
                    assert!(answer > 0 && text.ends_with('?'), "{text}");
                }
            }
        }
    }

    /// What is left in the end, read sentence by sentence.
    fn count(text: &str) -> u32 {
        let mut sentences = text.split(". ");
        let mut count = numbers(sentences.next().unwrap())[0];
        for sentence in sentences.filter(|sentence| !sentence.starts_with("How many")) {
            match (sentence, &numbers(sentence)[..]) {
                (given, [number]) if given.contains("gives away") => count -= number,
                (found, [number]) if found.contains("finds") => count += number,
                (bought, [packs, each]) if bought.contains("packs") => count += packs * each,
                other => panic!("{other:?}"),
            }
        }
        count
    }

    #[test]
    fn harder_problems_have_larger_numbers_and_more_steps() {
        for kind in ProblemKind::ALL {
            let mean =
                |difficulty| drawn(kind, difficulty).map(|question| f64::from(question.answer)).sum::<f64>() / 500.0;
            let [easy, medium, hard] = DIFFICULTIES.map(mean);
            assert!(easy < medium && medium < hard, "{kind:?}: {easy}, {medium}, {hard}");
        }
        let sentences = |difficulty| {
            drawn(ProblemKind::Steps, difficulty).map(|question| question.text.matches(". ").count()).max()
        };
        assert_eq!(DIFFICULTIES.map(sentences), [Some(4), Some(5), Some(7)]);
    }
}
