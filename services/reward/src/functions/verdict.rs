//! From what reward functions gave to a verdict.

use std::collections::BTreeMap;

use evenkeel_proto::shown::with_traceback;
use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict};
use evenkeel_proto::{Label, NoReward, is_component_name};

use super::process::{Called, Gone};
use crate::settings::FunctionSettings;

/// Most characters of a reason.
const MAX_DETAIL: usize = 400;
/// Most characters of a traceback behind it.
const MAX_TRACEBACK: usize = 4000;
/// Most components of a verdict that are not functions.
const MAX_COMPONENTS: usize = 30;
/// Components of every reward, which no function may be called.
const RESERVED: [&str; 4] = ["correctness", "length", "format", "bare"];

/// What the values of functions are worth.
#[derive(Debug)]
pub(super) struct Scale {
    /// The table of settings that declares the file.
    table: String,
    weights: BTreeMap<String, f64>,
    range: Option<[f64; 2]>,
    require_all: bool,
}

impl Scale {
    /// The scale of the settings in `table`, for functions of these names.
    ///
    /// # Errors
    /// A function with a name that every reward has.
    pub(super) fn new(table: String, settings: &FunctionSettings, names: &[String]) -> Result<Self, String> {
        if names.len() > 1
            && let Some(name) = names.iter().find(|name| RESERVED.contains(&name.as_str()))
        {
            return Err(format!("a function is called {name}, which is a component of every reward; rename it"));
        }
        let weights = names.iter().map(|name| (name.clone(), settings.functions.get(name).copied().unwrap_or(1.0)));
        Ok(Self { table, weights: weights.collect(), range: settings.range, require_all: settings.require_all })
    }

    pub(super) fn verdict(&self, id: String, called: Result<Called, Gone>) -> Verdict {
        let Called { values, errors, extras } = match called {
            Ok(called) => called,
            Err(Gone { reason, detail }) => return self.failed(id, reason, &detail),
        };
        if let Some((code, detail)) = errors.values().next() {
            return self.failed(id, NoReward::from_label(code).unwrap_or(NoReward::Crashed), detail);
        }
        let given: BTreeMap<&String, f64> = values.iter().filter_map(|(name, value)| Some((name, (*value)?))).collect();
        if given.is_empty() || (self.require_all && given.len() < values.len()) {
            let missing: Vec<&str> =
                values.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.as_str()).collect();
            return no_reward(id, NoReward::Abstained, &format!("{} gave None", missing.join(", ")));
        }
        let range = self.range.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        if let Some((name, value)) = given.iter().find(|(_, value)| !(range[0]..=range[1]).contains(*value)) {
            let [low, high] = range;
            let [lower, higher] = [low.min(*value), high.max(*value)];
            let detail = format!(
                "{name} gave {value}, allowed: {low} to {high} (in {}: `range = [{lower:?}, {higher:?}]` allows it; \
                 without range any finite reward is taken)",
                self.table
            );
            return no_reward(id, NoReward::OutOfRange, &detail);
        }
        let scaled = |value: f64| self.range.map_or(value, |[low, high]| (value - low) / (high - low));
        let unit: BTreeMap<&String, f64> = given.into_iter().map(|(name, value)| (name, scaled(value))).collect();
        let weight = |name: &String| self.weights.get(name).copied().unwrap_or(1.0);
        let total: f64 = unit.keys().map(|name| weight(name)).sum();
        let mean = unit.iter().map(|(name, value)| weight(name) * value).sum::<f64>() / total;
        let (reward, outcome) = match self.range {
            // Nobody knows what the highest one is.
            None => (mean, Outcome::Scored),
            Some(_) if mean >= 1.0 => (1.0, Outcome::Correct),
            Some(_) => (mean.max(0.0), Outcome::Incorrect),
        };
        if !reward.is_finite() {
            return no_reward(id, NoReward::NotANumber, &format!("the weighted mean of the rewards is {reward}"));
        }
        let mut verdict = Verdict::judged(id, outcome, "reward_function", reward);
        let fits = |value: &f64| self.range.is_none() || (-1.0..=1.0).contains(value);
        let extras = extras
            .into_iter()
            .filter(|(name, value)| is_component_name(name) && !RESERVED.contains(&name.as_str()) && fits(value));
        verdict.components = extras.take(MAX_COMPONENTS).collect();
        if self.weights.len() > 1 {
            verdict.components.extend(unit.into_iter().map(|(name, value)| (name.clone(), value)));
        }
        verdict
    }

    /// No verdict of a call that failed; where it took too long, with the setting that allows more.
    fn failed(&self, id: String, reason: NoReward, detail: &str) -> Verdict {
        let setting = if reason == NoReward::Timeout { format!(" ({}.timeout)", self.table) } else { String::new() };
        no_reward(id, reason, &format!("{detail}{setting}"))
    }
}

/// No reward, which another attempt would not give either.
fn no_reward(id: String, reason: NoReward, detail: &str) -> Verdict {
    let detail = with_traceback(detail, MAX_DETAIL, MAX_TRACEBACK);
    Verdict { reason_code: reason.label().to_owned(), ..Verdict::invalid(id, InvalidReason::AttemptsExhausted, detail) }
}
