//! Numbers: exactly, and as rounded decimals if the rules allow it. All arithmetic is on integers.

use dashu_int::ops::{Abs, UnsignedAbs};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use crate::{Decimals, Magnitude, Notation, Number, Percent, Reason, Rules, Units};

/// Digits after the point from which a gold decimal stands for every number that rounds to it.
const GOLD_DIGITS: usize = 2;
/// Digits after the point from which a decimal of the answer stands for every number that rounds to it.
const ANSWER_DIGITS: usize = 3;
/// Longest decimal that counts as rounded.
const MAX_ROUNDED_PLACES: usize = 1000;

pub(super) fn compare(gold: &Number, answer: &Number, rules: &Rules) -> Reason {
    match (rules.units, gold.currency, answer.currency) {
        (Units::Compare | Units::Require, Some(gold), Some(answer)) if gold != answer => return Reason::DifferentUnit,
        // Money is no share.
        (Units::Compare | Units::Require, Some(_), None) if answer.percent && !gold.percent => {
            return Reason::DifferentUnit;
        }
        (Units::Require, Some(_), None) => return Reason::MissingUnit,
        _ => {}
    }
    let (gold_value, answer_value) = match (&gold.magnitude, &answer.magnitude) {
        (Magnitude::Exact(gold), Magnitude::Exact(answer)) => (gold, answer),
        _ => return compare_huge(gold, answer),
    };
    let plain = |side: &Number, value: &RBig| Interpretation { value: value.clone(), notation: side.notation };
    if gold.percent == answer.percent {
        // The percent signs cancel; a decimal keeps the digits it was written with.
        let reason = compare_interpretations(&plain(gold, gold_value), &plain(answer, answer_value), rules);
        // An exact gold answer may be rounded in percent: 33.33% has four places.
        if reason == Reason::TooFewDigits && gold.percent && gold.notation == Notation::Fraction {
            let hundredths =
                [(gold, gold_value), (answer, answer_value)].map(|(side, value)| as_hundredth(side, value));
            return compare_interpretations(&hundredths[0], &hundredths[1], rules);
        }
        return reason;
    }
    let interpretation =
        |side: &Number, value: &RBig| if side.percent { as_hundredth(side, value) } else { plain(side, value) };
    let scaled =
        compare_interpretations(&interpretation(gold, gold_value), &interpretation(answer, answer_value), rules);
    if is_equal(scaled) {
        return Reason::EqualPercent;
    }
    // A number below 1 is a share, and the same number with the sign is another one: 0.5% is not 0.5.
    let share = if gold.percent { answer_value } else { gold_value };
    if rules.percent == Percent::Either
        && (share.is_int() || share.clone().abs() > RBig::ONE)
        && is_equal(compare_interpretations(&plain(gold, gold_value), &plain(answer, answer_value), rules))
    {
        return Reason::EqualPercent;
    }
    scaled
}

fn is_equal(reason: Reason) -> bool {
    reason.outcome() == crate::CheckOutcome::Equal
}

/// Numbers too long for arithmetic: normal forms are compared, and nothing else is claimed.
fn compare_huge(gold: &Number, answer: &Number) -> Reason {
    let digits = |side: &Number| !matches!(side.notation, Notation::Fraction);
    if gold.percent != answer.percent || !digits(gold) || !digits(answer) {
        return Reason::TooLarge;
    }
    match (&gold.magnitude, &answer.magnitude) {
        (Magnitude::LongDecimal(gold), Magnitude::LongDecimal(answer)) if gold == answer => Reason::EqualDecimal,
        // One normal form is longer than the other, or their digits differ.
        _ => Reason::DifferentNumber,
    }
}

/// A number under one interpretation of its percent sign.
struct Interpretation {
    value: RBig,
    notation: Notation,
}

impl Interpretation {
    /// Digits after the point. `None` unless it is a decimal.
    fn places(&self) -> Option<usize> {
        match self.notation {
            Notation::Decimal { places, .. } => Some(places),
            Notation::Integer | Notation::Fraction => None,
        }
    }

    /// Significant digits after the point.
    fn significant_places(&self) -> usize {
        match self.notation {
            Notation::Decimal { significant, places } => significant.min(places),
            Notation::Integer | Notation::Fraction => 0,
        }
    }
}

/// The number divided by 100.
fn as_hundredth(number: &Number, value: &RBig) -> Interpretation {
    let notation = match number.notation {
        Notation::Decimal { significant, places } => Notation::Decimal { significant, places: places + 2 },
        notation => notation,
    };
    Interpretation { value: value / IBig::from(100), notation }
}

fn compare_interpretations(gold: &Interpretation, answer: &Interpretation, rules: &Rules) -> Reason {
    if gold.value == answer.value {
        let decimal = gold.places().or(answer.places()).is_some();
        return match () {
            () if decimal => Reason::EqualDecimal,
            () if gold.value.is_int() => Reason::EqualInteger,
            () => Reason::EqualRational,
        };
    }
    if rules.decimals == Decimals::Exact || gold.value.is_int() || answer.value.is_int() {
        return Reason::DifferentNumber;
    }
    // The shorter of two decimals was rounded more.
    let (decimal, digits) = match (gold.places(), answer.places()) {
        (None, None) => return Reason::DifferentNumber,
        (Some(gold_places), Some(answer_places)) if answer_places < gold_places => (answer, ANSWER_DIGITS),
        (Some(_), _) if is_in_eighths(&gold.value) => return Reason::DifferentNumber,
        (Some(_), _) => (gold, GOLD_DIGITS),
        (None, Some(_)) => (answer, ANSWER_DIGITS),
    };
    let places = decimal.places().unwrap_or(0);
    if places > MAX_ROUNDED_PLACES
        || !rounds_to(&decimal.value, if std::ptr::eq(decimal, gold) { &answer.value } else { &gold.value }, places)
    {
        return Reason::DifferentNumber;
    }
    if decimal.significant_places() >= digits { Reason::EqualRounded } else { Reason::TooFewDigits }
}

/// Whether a decimal with this many places is the other number, rounded at its last digit. A number halfway between two
/// decimals ends one digit later and needs no rounding.
fn rounds_to(decimal: &RBig, other: &RBig, places: usize) -> bool {
    let cross = |a: &RBig, b: &RBig| a.numerator() * IBig::from(b.denominator().clone());
    let difference: UBig = (cross(decimal, other) - cross(other, decimal)).abs().unsigned_abs();
    let difference = difference * UBig::from(10_u8).pow(places);
    difference * UBig::from(2_u8) < decimal.denominator() * other.denominator()
}

/// Whether a decimal is a multiple of one eighth, as 18.50 and 0.125: as a gold answer it is meant exactly.
pub(super) fn is_in_eighths(value: &RBig) -> bool {
    *value.denominator() <= UBig::from(8_u8) && UBig::from(8_u8) % value.denominator() == UBig::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fuel, Value, parse::parse};

    fn judged(gold: &str, answer: &str, rules: &Rules) -> Reason {
        let number = |text| match parse(text, &mut Fuel::new(10_000)) {
            Ok(Value::Number(number)) => number,
            other => panic!("{text} is {other:?}"),
        };
        compare(&number(gold), &number(answer), rules)
    }

    fn default(gold: &str, answer: &str) -> Reason {
        judged(gold, answer, &Rules::default())
    }

    #[test]
    fn equality_is_exact() {
        assert_eq!(default("5", "5.0"), Reason::EqualDecimal);
        assert_eq!(default("1/2", "\\frac{50}{100}"), Reason::EqualRational);
        assert_eq!(default("0025", "25"), Reason::EqualInteger);
        assert_eq!(default("5", "5.0001"), Reason::DifferentNumber);
        let long = "123456789".repeat(40);
        assert_eq!(default(&format!("{long}1"), &format!("{long}2")), Reason::DifferentNumber);
        assert_eq!(default(&long, &long), Reason::EqualInteger);
        assert_eq!(default("0.0000001", "0.0000002"), Reason::DifferentNumber);
    }

    #[test]
    fn a_rounded_decimal_needs_digits() {
        assert_eq!(default("1/3", "0.333"), Reason::EqualRounded);
        assert_eq!(default("1/3", "0.33"), Reason::TooFewDigits);
        assert_eq!(default("1/3", "0.334"), Reason::DifferentNumber);
        assert_eq!(default("2/3", "0.667"), Reason::EqualRounded);
        assert_eq!(default("2/3", "0.666"), Reason::DifferentNumber);
        assert_eq!(default("-2/3", "-0.667"), Reason::EqualRounded);
        assert_eq!(default("-2/3", "-0.666"), Reason::DifferentNumber);
        assert_eq!(default("0.12", "1/8"), Reason::DifferentNumber);
        assert_eq!(default("5/16", "0.313"), Reason::DifferentNumber);
        assert_eq!(default("0.25", "0.254"), Reason::DifferentNumber);
        assert_eq!(default("-2/3", "-0.665"), Reason::DifferentNumber);
        assert_eq!(default("0.33", "1/3"), Reason::EqualRounded);
        assert_eq!(default("0.3", "1/3"), Reason::TooFewDigits);
        assert_eq!(default("1/12", "0.0833"), Reason::EqualRounded);
        assert_eq!(default("7.78", "7.7812"), Reason::EqualRounded);
        assert_eq!(default("7.7812", "7.78"), Reason::TooFewDigits);
        assert_eq!(default("4.9999", "5"), Reason::DifferentNumber);
        let exact = Rules { decimals: Decimals::Exact, ..Rules::default() };
        assert_eq!(judged("1/3", "0.333", &exact), Reason::DifferentNumber);
        assert_eq!(judged("1/2", "0.5", &exact), Reason::EqualDecimal);
    }

    #[test]
    fn a_percent_sign_is_a_hundredth_or_nothing() {
        assert_eq!(default("50\\%", "1/2"), Reason::EqualPercent);
        assert_eq!(default("50\\%", "50"), Reason::EqualPercent);
        assert_eq!(default("50", "50\\%"), Reason::EqualPercent);
        assert_eq!(default("1/3", "33.3\\%"), Reason::EqualPercent);
        assert_eq!(default("50\\%", "50\\%"), Reason::EqualInteger);
        assert_eq!(default("0.5", "50"), Reason::DifferentNumber);
        assert_eq!(default("0.5", "0.5\\%"), Reason::DifferentNumber);
        assert_eq!(default("33\\frac{1}{3}\\%", "33.33\\%"), Reason::EqualRounded);
        let hundredth = Rules { percent: Percent::Hundredth, ..Rules::default() };
        assert_eq!(judged("50\\%", "50", &hundredth), Reason::DifferentNumber);
        assert_eq!(judged("50\\%", "0.5", &hundredth), Reason::EqualPercent);
    }

    #[test]
    fn currencies_agree_where_they_must() {
        assert_eq!(default("10", "\\$10"), Reason::EqualInteger);
        assert_eq!(default("\\$10", "10€"), Reason::DifferentUnit);
        let rules_with = |units| Rules { units, ..Rules::default() };
        assert_eq!(judged("\\$10", "10", &rules_with(Units::Require)), Reason::MissingUnit);
        assert_eq!(judged("\\$10", "10€", &rules_with(Units::Ignore)), Reason::EqualInteger);
    }

    #[test]
    fn numbers_of_any_length_compare() {
        let long = "7".repeat(30_000);
        assert_eq!(default(&long, &format!("{long}.000")), Reason::EqualDecimal);
        assert_eq!(default(&long, &format!("{long}1")), Reason::DifferentNumber);
        assert_eq!(default("3", &long), Reason::DifferentNumber);
        assert_eq!(default("1/3", &long), Reason::TooLarge);
    }
}
