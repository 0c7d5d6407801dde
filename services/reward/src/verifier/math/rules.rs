//! Converts the rules of a task to those of `evenkeel-math`.

use std::fmt::Display;

use evenkeel_math::{
    CheckLimits, Copied, DecimalComma, Decimals, Equations, Marker, Order, Percent, Rules, TextCase, Thinking, Units,
};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    AnswerMarker, CopiedRule, DecimalCommaRule, DecimalRule, EquationRule, MathSettings, MathTask, OrderRule,
    PercentRule, TextCaseRule, ThinkingRule, UnitRule,
};

use super::super::known::known;
use crate::settings::MathDefaults;

/// The rules of a task. Field paths are relative to the task.
pub(crate) fn for_task(task: &MathTask, defaults: &MathDefaults) -> Result<Rules, FieldError> {
    let profile = match task.profile.as_str() {
        "" => defaults.profile,
        name => name.parse()?,
    };
    let limits = CheckLimits { max_answer_bytes: defaults.max_answer.bytes_usize(), fuel: defaults.fuel };
    let mut rules = Rules { limits, ..profile.rules() };
    if let Some(settings) = &task.settings {
        override_with(&mut rules, settings, defaults).map_err(|error| error.within("settings"))?;
    }
    Ok(rules)
}

fn override_with(rules: &mut Rules, settings: &MathSettings, defaults: &MathDefaults) -> Result<(), FieldError> {
    if !settings.markers.is_empty() {
        rules.markers = markers(&settings.markers)?;
    }
    match known!(settings.decimals: DecimalRule) {
        DecimalRule::Unspecified => {}
        DecimalRule::Exact => rules.decimals = Decimals::Exact,
        DecimalRule::Rounded => rules.decimals = Decimals::Rounded,
    }
    match known!(settings.percent: PercentRule) {
        PercentRule::Unspecified => {}
        PercentRule::Hundredth => rules.percent = Percent::Hundredth,
        PercentRule::Either => rules.percent = Percent::Either,
    }
    match known!(settings.units: UnitRule) {
        UnitRule::Unspecified => {}
        UnitRule::Compare => rules.units = Units::Compare,
        UnitRule::Ignore => rules.units = Units::Ignore,
        UnitRule::Require => rules.units = Units::Require,
    }
    match known!(settings.order: OrderRule) {
        OrderRule::Unspecified => {}
        OrderRule::Free => rules.order = Order::Free,
        OrderRule::Strict => rules.order = Order::Strict,
    }
    match known!(settings.text_case: TextCaseRule) {
        TextCaseRule::Unspecified => {}
        TextCaseRule::Fold => rules.text_case = TextCase::Fold,
        TextCaseRule::Exact => rules.text_case = TextCase::Exact,
    }
    match known!(settings.equations: EquationRule) {
        EquationRule::Unspecified => {}
        EquationRule::Names => rules.equations = Equations::Names,
        EquationRule::Strict => rules.equations = Equations::Strict,
    }
    match known!(settings.decimal_comma: DecimalCommaRule) {
        DecimalCommaRule::Unspecified => {}
        DecimalCommaRule::Point => rules.decimal_comma = DecimalComma::Point,
        DecimalCommaRule::List => rules.decimal_comma = DecimalComma::List,
    }
    match known!(settings.copied: CopiedRule) {
        CopiedRule::Unspecified => {}
        CopiedRule::Refuse => rules.copied = Copied::Refuse,
        CopiedRule::Accept => rules.copied = Copied::Accept,
    }
    match known!(settings.thinking: ThinkingRule) {
        ThinkingRule::Unspecified => {}
        ThinkingRule::Tail => rules.thinking = Thinking::Tail,
        ThinkingRule::Ignore => rules.thinking = Thinking::Ignore,
    }
    if let Some(fuel) = settings.fuel {
        if !(1..=defaults.max_fuel).contains(&fuel) {
            return Err(FieldError::new("fuel", fuel, format!("1 to {}", defaults.max_fuel)));
        }
        rules.limits.fuel = fuel;
    }
    Ok(())
}

fn markers(numbers: &[i32]) -> Result<Vec<Marker>, FieldError> {
    let mut markers = Vec::new();
    // Even a list of millions is refused at its first repetition.
    for (index, &number) in numbers.iter().enumerate() {
        let refused = |value: &dyn Display, allowed| FieldError::new(format!("markers[{index}]"), value, allowed);
        let unnamed = || refused(&number, "a named value of AnswerMarker");
        let asked = AnswerMarker::try_from(number).map_err(|_| unnamed())?;
        let marker = match asked {
            AnswerMarker::Boxed => Marker::Boxed,
            AnswerMarker::Hashes => Marker::Hashes,
            AnswerMarker::AnswerLine => Marker::AnswerLine,
            AnswerMarker::Unmarked => Marker::Unmarked,
            AnswerMarker::Unspecified => return Err(unnamed()),
        };
        if markers.contains(&marker) {
            return Err(refused(&format_args!("{} again", asked.as_str_name()), "each marker once"));
        }
        markers.push(marker);
    }
    Ok(markers)
}

#[cfg(test)]
mod tests {
    use evenkeel_math::Profile;

    use super::*;

    fn of(task: MathTask) -> Result<Rules, String> {
        for_task(&task, &MathDefaults::default()).map_err(|error| error.to_string())
    }

    fn with(settings: MathSettings) -> Result<Rules, String> {
        of(MathTask { settings: Some(settings), ..MathTask::default() })
    }

    #[test]
    fn a_task_without_settings_has_the_workers_profile() {
        assert_eq!(of(MathTask::default()), Ok(Rules::default()));
        let defaults = MathDefaults { profile: Profile::Gsm8k, ..MathDefaults::default() };
        assert_eq!(for_task(&MathTask::default(), &defaults), Ok(Profile::Gsm8k.rules()));
    }

    #[test]
    fn settings_of_a_task_override_the_profile() {
        let rules = with(MathSettings {
            markers: vec![AnswerMarker::AnswerLine.into(), AnswerMarker::Boxed.into()],
            decimals: DecimalRule::Exact.into(),
            order: OrderRule::Strict.into(),
            equations: EquationRule::Strict.into(),
            decimal_comma: DecimalCommaRule::List.into(),
            thinking: ThinkingRule::Ignore.into(),
            copied: CopiedRule::Accept.into(),
            fuel: Some(77),
            ..MathSettings::default()
        })
        .unwrap();
        assert_eq!(rules.markers, [Marker::AnswerLine, Marker::Boxed]);
        assert_eq!((rules.decimals, rules.order, rules.limits.fuel), (Decimals::Exact, Order::Strict, 77));
        assert_eq!(rules.equations, Equations::Strict);
        assert_eq!((rules.decimal_comma, rules.thinking), (DecimalComma::List, Thinking::Ignore));
        assert_eq!((rules.percent, rules.copied), (Percent::Either, Copied::Accept));
    }

    #[test]
    fn unknown_values_are_refused_by_name() {
        let profile = MathTask { profile: "aime".into(), ..MathTask::default() };
        assert_eq!(of(profile).unwrap_err(), "profile is `aime`, allowed: default, exact, gsm8k, dapo, unmarked");
        let settings = MathSettings::default;
        assert_eq!(
            with(MathSettings { percent: 9, ..settings() }).unwrap_err(),
            "settings.percent is 9, allowed: a value of PercentRule"
        );
        assert_eq!(
            with(MathSettings { markers: vec![1, 0], ..settings() }).unwrap_err(),
            "settings.markers[1] is 0, allowed: a named value of AnswerMarker"
        );
        assert_eq!(
            with(MathSettings { markers: vec![1, 2, 1], ..settings() }).unwrap_err(),
            "settings.markers[2] is ANSWER_MARKER_BOXED again, allowed: each marker once"
        );
        assert_eq!(
            with(MathSettings { fuel: Some(0), ..settings() }).unwrap_err(),
            "settings.fuel is 0, allowed: 1 to 4000000"
        );
    }
}
