//! The verdict on one answer.

use std::borrow::Cow;

use super::bad::unreadable;
use super::reading::{read, read_answer, read_percent};
use super::{CheckInput, Gold};
use crate::extract::{Allowed, Extracted, NoAnswer, extract, extract_for, statement_after};
use crate::parse::{is_range, offers_alternatives, parse};
use crate::words::Known;
use crate::{CheckOutcome, Fuel, Marker, Percent, Reason, Rules, Units, Value, Verdict, accounting, choice, equality};

impl Gold {
    /// The words that may stand behind a number.
    pub(super) fn known(&self, prompt: Option<&str>, rules: &Rules) -> Known {
        let mut known = Known::default();
        let mut add = |text: &str| {
            known.add(text);
            known.add_contents(choice::contents_of(Known::within(text)));
        };
        add(&self.text);
        match prompt {
            Some(prompt) => add(prompt),
            // Word problems without their text: one noun.
            None if rules.units == Units::Ignore => known.others = 1,
            None => {}
        }
        known
    }

    /// The verdict, except for copies.
    pub(super) fn verdict<'a>(&self, prompt: Option<&str>, submission: CheckInput<'a>, rules: &Rules) -> Verdict<'a> {
        let mut fuel = Fuel::new(rules.limits.fuel);
        let max = rules.limits.max_answer_bytes;
        let read = match submission {
            CheckInput::Extracted(answer) if answer.len() > max => {
                return Verdict::without_answer(Reason::AnswerTooLong);
            }
            CheckInput::Extracted(answer) => read_answer(answer, rules, &mut fuel),
            CheckInput::Completion(text) => match self.extracted(text, prompt, rules) {
                Ok((found, _)) if found.bytes() > max => return Verdict::without_answer(Reason::AnswerTooLong),
                Ok((Extracted::One(answer), true)) => read_percent(answer, &mut fuel).ok_or(NoAnswer::NotUnderstood),
                Ok((Extracted::Several { .. }, true)) => Err(NoAnswer::NotUnderstood),
                found => found.map(|(found, _)| read(found, &mut fuel)),
            },
        };
        let (extracted, value) = match read {
            Ok(read) => read,
            Err(none) => return Verdict::without_answer(none.reason()),
        };
        // Equal integers need no more.
        if let (Ok(answer @ Value::Number(number)), Value::Number(gold)) = (&value, &self.value)
            && gold == number
        {
            let reason = equality::compare(&self.value, answer, rules, &mut fuel);
            return Verdict { extracted: Some(extracted), value: value.ok(), ..Verdict::without_answer(reason) };
        }
        let choices = self.choice.is_some().then(|| self.known(prompt, rules));
        let chosen = |answer: &str| {
            let reason = self.compare_choice(answer, prompt, choices.as_ref()?)?;
            // `B. Madrid`, cut behind the letter, where Madrid is another choice.
            let CheckInput::Completion(text) = submission else { return Some(reason) };
            let stated = statement_after(text, answer)
                .zip(prompt)
                .and_then(|(stated, prompt)| choice::by_content(stated, prompt));
            let is_other = stated.is_some_and(|stated| Some(stated) != self.choice);
            Some(if is_other && reason == Reason::EqualChoice { Reason::NotUnderstood } else { reason })
        };
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                // A choice letter may precede text that cannot be parsed.
                let reason = chosen(&extracted).unwrap_or(unreadable(error));
                return Verdict { extracted: Some(extracted), ..Verdict::without_answer(reason) };
            }
        };
        // A box without a letter, and then "Answer: D": the letter answers a choice.
        if let (Some(gold), CheckInput::Completion(text)) = (self.choice, submission)
            && choice::of_answer(&extracted, &Known::default()).is_none()
            && rules.markers.contains(&Marker::AnswerLine)
            && let Ok(Extracted::One(line)) =
                extract(text, &Rules { markers: vec![Marker::AnswerLine], ..rules.clone() })
            && let Some(chosen) = choice::of_answer(line, &Known::default())
        {
            let reason = if chosen == gold { Reason::EqualChoice } else { Reason::DifferentChoice };
            return Verdict { extracted: Some(Cow::Borrowed(line)), ..Verdict::without_answer(reason) };
        }
        let mut reason = match chosen(&extracted) {
            Some(reason) => reason,
            None => equality::compare(&self.value, &value, rules, &mut fuel),
        };
        if reason.outcome() == CheckOutcome::NotEqual
            && let Some(by_point) = self.with_decimal_point(&extracted, &value, rules, &mut fuel)
        {
            reason = by_point;
        }
        if let Some(letters) = &self.choices
            && choice::several(&extracted).as_ref() == Some(letters)
        {
            reason = Reason::EqualChoice;
        }
        let mut value = value;
        let is_open = |reason: Reason| {
            let is_final = matches!(
                reason,
                Reason::EqualChoice | Reason::DifferentChoice | Reason::MissingUnit | Reason::OutOfFuel
            );
            reason.outcome() != CheckOutcome::Equal && !is_final
        };
        if reason != Reason::EqualChoice {
            reason = self.accounted(reason, (&extracted, &value), prompt, rules);
        }
        if is_open(reason)
            && let Some((by_reading, read)) = self.by_other_readings(&extracted, &value, prompt, rules, &mut fuel)
        {
            (reason, value) = (by_reading, read);
        }
        Verdict { extracted: Some(extracted), value: Some(value), ..Verdict::without_answer(reason) }
    }

    /// The answer of a completion, and whether a percent sign stands beside it. What words beside a box change otherwise is
    /// harmless where the problem or the gold answer has it: a base, a percent sign, what somebody says.
    fn extracted<'a>(
        &self,
        text: &'a str,
        prompt: Option<&str>,
        rules: &Rules,
    ) -> Result<(Extracted<'a>, bool), NoAnswer> {
        let base = match &self.value {
            Value::Based(based) => Some(based.base),
            _ => None,
        };
        // Most texts have nothing that the words of the problem may explain.
        if base.is_none()
            && let found = extract(text, rules)
            && found != Err(NoAnswer::NotUnderstood)
        {
            return found.map(|found| (found, false));
        }
        let known = self.known(prompt, rules);
        let allowed = Allowed { in_percent: false, base, known: &known };
        match extract_for(text, rules, &allowed) {
            Err(NoAnswer::NotUnderstood) if self.is_percent() => {
                extract_for(text, rules, &Allowed { in_percent: true, ..allowed }).map(|found| (found, true))
            }
            found => found.map(|found| (found, false)),
        }
    }

    fn is_percent(&self) -> bool {
        matches!(&self.value, Value::Number(number) if number.percent)
    }

    /// The reason, unless a part of the answer is not accounted for.
    pub(super) fn accounted(
        &self,
        reason: Reason,
        (answer, value): (&str, &Value),
        prompt: Option<&str>,
        rules: &Rules,
    ) -> Reason {
        // As a word, percent is a hundredth.
        if reason == Reason::EqualPercent && rules.percent == Percent::Either && says_percent(answer) {
            let rules = Rules { percent: Percent::Hundredth, ..rules.clone() };
            let exactly = equality::compare(&self.value, value, &rules, &mut Fuel::new(rules.limits.fuel));
            return if exactly.outcome() == CheckOutcome::Equal { reason } else { Reason::NotUnderstood };
        }
        // `A = B` is no choice.
        if self.choice.is_some()
            && *value != self.value
            && matches!(value, Value::Relation(relation) if relation.members.iter().all(Value::is_name))
        {
            return Reason::NotUnderstood;
        }
        if reason.outcome() == CheckOutcome::NotEqual
            && let Some(by_range) = self.as_range((answer, value), rules)
        {
            return by_range;
        }
        let offers = |text: &str| offers_alternatives(text, &mut Fuel::new(rules.limits.fuel));
        match reason.outcome() {
            // The gold answer itself, whatever it says.
            CheckOutcome::Equal if *value == self.value => reason,
            // `2 or 3` is no pair.
            CheckOutcome::Equal
                if accounting::is_ordered(&self.value) && offers(answer) && !accounting::is_ordered(value)
                    || accounting::is_ordered(value) && offers(&self.text) && !accounting::is_ordered(&self.value) =>
            {
                Reason::NotUnderstood
            }
            CheckOutcome::Equal if accounting::has_words(value) => {
                if accounting::is_accounted(value, &self.known(prompt, rules)) { reason } else { Reason::NotUnderstood }
            }
            // What is not mathematics was not compared with a formula.
            CheckOutcome::NotEqual
                if value.has_text() && !self.value.has_text() && self.choice.is_none() && self.choices.is_none() =>
            {
                Reason::NotUnderstood
            }
            _ => reason,
        }
    }

    /// The verdict on a gold answer that is a range or a score, `1-2`: with spaces around its dash it is the same, and
    /// with its difference it was not compared.
    fn as_range(&self, (answer, value): (&str, &Value), rules: &Rules) -> Option<Reason> {
        let mut fuel = Fuel::new(rules.limits.fuel);
        let Value::Text(_) = &self.value else { return None };
        let range = joined(&self.text);
        if !is_range(&range, &mut fuel) {
            return None;
        }
        let same = |text: &str, fuel: &mut Fuel| match parse(text, fuel) {
            Ok(joined @ Value::Text(_)) => Some(equality::compare(&self.value, &joined, rules, fuel)),
            _ => None,
        };
        match same(&joined(answer), &mut fuel) {
            Some(reason) if reason.outcome() == CheckOutcome::Equal => Some(reason),
            _ => (!value.has_text()).then_some(Reason::NotUnderstood),
        }
    }

    /// The verdict as multiple choice. `None` unless both answers are choices.
    fn compare_choice(&self, answer: &str, prompt: Option<&str>, known: &Known) -> Option<Reason> {
        let gold = self.choice?;
        let chosen =
            choice::of_answer(answer, known).or_else(|| choice::in_lower_case(answer).filter(|letter| *letter == gold));
        let content = |text: &str| choice::by_content(text, prompt?);
        let chosen = chosen.or_else(|| content(answer))?;
        // `(C) Bob` where Bob is another choice.
        if let Some(stated) = choice::content(answer).and_then(|stated| content(&stated))
            && stated != chosen
        {
            return Some(Reason::NotUnderstood);
        }
        Some(if chosen == gold { Reason::EqualChoice } else { Reason::DifferentChoice })
    }
}

/// A text without the spaces around its dashes.
fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut is_after_dash = false;
    for c in text.chars() {
        let is_dash = matches!(c, '-' | '–' | '—' | '\u{2212}');
        if is_dash {
            joined.truncate(joined.trim_end().len());
        }
        if !(is_after_dash && c.is_whitespace()) {
            joined.push(c);
            is_after_dash = is_dash;
        }
    }
    joined
}

fn says_percent(answer: &str) -> bool {
    let lower = answer.to_lowercase();
    ["percent", "per cent", "pct"].iter().any(|word| lower.contains(word))
}
