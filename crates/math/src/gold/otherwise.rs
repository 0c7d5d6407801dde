//! Other readings of a gold answer and an answer, for where the first ones are not equal.

use super::Gold;
use super::reading::with_point;
use crate::parse::{Side, parse, reading, with_letter_as_unit};
use crate::words::Known;
use crate::{CheckOutcome, Fuel, Notation, Reason, Rules, Value, accounting, choice, equality, others};

impl Gold {
    /// The verdict on other readings of both sides that is *equal*.
    pub(super) fn by_other_readings(
        &self,
        answer: &str,
        value: &Value,
        prompt: Option<&str>,
        rules: &Rules,
        fuel: &mut Fuel,
    ) -> Option<(Reason, Value)> {
        if rules.equations == crate::Equations::Strict && rules.text_case == crate::TextCase::Exact {
            // The strict profile takes answers as written.
            return None;
        }
        // Two numbers have no other readings.
        let is_bare = |text: &str| !text.bytes().any(|byte| byte.is_ascii_alphabetic());
        if matches!((&self.value, value), (Value::Number(_), Value::Number(_))) && is_bare(answer) {
            return None;
        }
        let equal = |gold: &Value, read: &Value, fuel: &mut Fuel| {
            let reason = equality::compare(gold, read, rules, fuel);
            let reason = self.accounted(reason, (answer, read), prompt, rules);
            (reason.outcome() == CheckOutcome::Equal).then(|| (reason, read.clone()))
        };
        // `A: B` for the choice B.
        let is_choice = self.choice.is_some() && choice::content(answer).is_some();
        if is_choice {
            return None;
        }
        // The letter of a choice that the task has, for its content.
        if let Some(prompt) = prompt
            && self.choice.is_none()
            && let Some(content) = choice::of_answer(answer, &self.known(None, rules))
                .and_then(|letter| choice::content_in(prompt, letter))
            && let Ok(content) = parse(&content, fuel)
            && let Some(found) = equal(&self.value, &content, fuel)
        {
            return Some(found);
        }
        let readings = if value.has_text() || accounting::has_words(value) || choice::content(answer).is_some() {
            in_words(answer, value, Side::Answer, &self.known(prompt, rules), fuel)
        } else {
            Vec::new()
        };
        let golds = std::iter::once(&self.value).chain(&self.others);
        for (index, gold) in golds.enumerate() {
            // The two first readings were compared already.
            for read in std::iter::once(value).chain(&readings).skip(usize::from(index == 0)) {
                if let Some(found) = equal(gold, read, fuel) {
                    return Some(found);
                }
            }
        }
        others::of_formulas(&self.value, value)
            .into_iter()
            .find_map(|(gold, read)| equal(&gold, &read, fuel))
            .or_else(|| {
                let is_quantity = matches!(value, Value::Quantity(_));
                let is_open = matches!(self.value, Value::Expr(_) | Value::Relation(_));
                let gold = (is_quantity && is_open).then(|| with_letter_as_unit(&self.text, fuel)).flatten()?;
                equal(&gold, value, fuel)
            })
            .or_else(|| {
                // A last letter is a unit where the gold answer has no letters of its own.
                let is_open = matches!(value, Value::Expr(_) | Value::Relation(_) | Value::Quantity(_));
                let unit = (is_open && matches!(self.value, Value::Number(_) | Value::Quantity(_)))
                    .then(|| with_letter_as_unit(answer, fuel))
                    .flatten()?;
                equal(&self.value, &unit, fuel)
            })
    }

    /// The verdict with commas between digits read as decimal points, if the other side has a decimal point.
    pub(super) fn with_decimal_point(
        &self,
        answer: &str,
        value: &Value,
        rules: &Rules,
        fuel: &mut Fuel,
    ) -> Option<Reason> {
        let is_decimal = |value: &Value| matches!(value, Value::Number(number) if matches!(number.notation, Notation::Decimal { .. }));
        let reason = match (&self.with_point, value) {
            (Some(gold), value) if is_decimal(value) => equality::compare(gold, value, rules, fuel),
            // With a power of ten it is one number, whatever the other side is.
            _ if is_decimal(&self.value) || matches!(self.value, Value::Number(_)) && answer.contains("10^") => {
                equality::compare(&self.value, &with_point(answer, rules, fuel)?, rules, fuel)
            }
            _ => return None,
        };
        (reason.outcome() == CheckOutcome::Equal).then_some(reason)
    }
}

/// Other readings of an answer that is text, or that a choice's letter stands before: without the words of the table.
pub(super) fn in_words(answer: &str, first: &Value, side: Side, known: &Known, fuel: &mut Fuel) -> Vec<Value> {
    let mut found =
        if first.has_text() || accounting::has_words(first) { reading(answer, side, known, fuel) } else { Vec::new() };
    if let Some(content) = choice::content(answer)
        && let Ok(value) = parse(&content, fuel)
        && !value.has_text()
    {
        found.push(value);
    }
    // Without words it is the same again.
    found.retain(|value| value != first);
    found
}
