//! Answers of several kinds, each with its gold answer and another value.

use super::parts::Of;
use crate::random::Random;

/// A right answer and another value of the same kind.
pub(crate) struct Answer {
    /// The gold answer.
    pub(crate) gold: String,
    /// The answer as it is written.
    pub(crate) value: String,
    /// Another value, in TeX.
    pub(crate) other: String,
    /// The other value in words, below a hundred.
    pub(crate) spelled: String,
    /// The base of the gold answer, and another one in which the answer has digits.
    pub(crate) bases: (u32, u32),
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Number,
    Digits,
    Choice,
    Other,
}

impl Answer {
    pub(crate) fn new(random: &mut Random) -> Self {
        let small = 3 + random.below(7);
        let bases = (0, 0);
        let made = |kind, value: String, other: String| Self {
            gold: value.clone(),
            value,
            other,
            spelled: String::new(),
            bases,
            kind,
        };
        match random.below(20) {
            0 => made(Kind::Number, format!("\\frac{{{small}}}{{11}}"), format!("\\frac{{{}}}{{11}}", small + 1)),
            1 => made(Kind::Number, format!("{}.5", small + 9), format!("{}.5", small + 10)),
            2 => made(Kind::Other, format!("{small}\\sqrt{{7}}"), format!("{}\\sqrt{{7}}", small + 1)),
            3 => made(Kind::Other, format!("{small}x^2 + 5"), format!("{small}x^2 + 7")),
            4 => made(Kind::Other, format!("({small}, 25)"), format!("({small}, 26)")),
            5 | 6 => {
                let letters = ["A", "B", "C", "D", "E"];
                let at = random.below(5);
                made(Kind::Choice, letters[at].to_owned(), letters[(at + 1) % 5].to_owned())
            }
            7 => {
                let own = 7 + random.below(3) as u32;
                let value = format!("{}{}", 1 + random.below(6), random.below(7));
                Self {
                    gold: format!("{value}_{own}"),
                    bases: (own, own + 3),
                    ..made(Kind::Digits, value, String::new())
                }
            }
            kind => {
                let value = if kind < 14 { 13 + random.below(84) } else { 100 + random.below(900) };
                let other = value + 1 + random.below(3);
                // A base has all digits of the answer.
                let bases = [11, 12, 16];
                Self {
                    spelled: spelled(other),
                    bases: (0, *random.of(&bases)),
                    ..made(Kind::Integer, value.to_string(), other.to_string())
                }
            }
        }
    }

    /// Whether a part may stand beside an answer of its kind.
    pub(crate) fn may_have(&self, of: Of) -> bool {
        match of {
            Of::Any => true,
            Of::Number => matches!(self.kind, Kind::Integer | Kind::Number),
            Of::Integer => self.kind == Kind::Integer,
            Of::Digits => self.kind == Kind::Digits,
            Of::Choice => self.kind == Kind::Choice,
        }
    }
}

fn spelled(number: usize) -> String {
    const UNITS: [&str; 10] = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    match (number / 10, number % 10) {
        (tens @ 2..=9, 0) => TENS[tens].to_owned(),
        (tens @ 2..=9, units) => format!("{}-{}", TENS[tens], UNITS[units]),
        (1, 4) => "fourteen".to_owned(),
        (1, 6) => "sixteen".to_owned(),
        (1, 7) => "seventeen".to_owned(),
        _ => number.to_string(),
    }
}
