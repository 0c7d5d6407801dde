//! What a replay is asked to do, from its options.

use anyhow::Result;
use evenkeel_learner::{Aggregation, SideDial};
use evenkeel_proto::FieldError;

use crate::arguments::ReplayOptions;

const AGGREGATION: &str = "learner.objective.aggregation";
const OBJECTIVE: &str = "learner.objective";
const EXPONENT: &str = "learner.objective.length_exponent";
const RATIO: &str = "learner.objective.side_ratio";

/// Sections that decide what an answer is worth.
const JUDGING: [&str; 3] = ["data.", "reward.", "shaping."];

/// Settings of the learner that decide where steps are computed, not what.
const COMPUTING: [&str; 2] = ["learner.compute.device", "learner.compute.threads"];

/// What to do with the recorded steps.
pub(super) enum Asked {
    /// Judge the answers again, with these settings.
    Judge(Vec<String>),
    /// Weigh the groups again by these rules; the settings say where it is computed.
    Weigh { rules: Vec<Aggregation>, dials: Vec<SideDial>, settings: Vec<String> },
}

impl Asked {
    /// # Errors
    /// Settings that a replay does not take; those of both kinds together.
    pub(super) fn of(options: &ReplayOptions) -> Result<Self, FieldError> {
        let mut rules = Vec::new();
        let mut judging = Vec::new();
        let mut computing = Vec::new();
        let mut exponents = Vec::new();
        let mut ratios = Vec::new();
        for setting in &options.set {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            match key.trim() {
                AGGREGATION => {
                    for name in listed(value) {
                        rules.push(name.parse::<Aggregation>().map_err(|error| refused(AGGREGATION, name, &error))?);
                    }
                }
                EXPONENT => exponents.extend(numbers(EXPONENT, value)?),
                RATIO => ratios.extend(numbers(RATIO, value)?),
                key if COMPUTING.contains(&key) => computing.push(setting.clone()),
                key if JUDGING.iter().any(|section| key.starts_with(section)) => judging.push(setting.clone()),
                key => {
                    let allowed = format!(
                        "settings of data, reward and shaping to judge again, or {AGGREGATION} to weigh again, with \
                         {EXPONENT} and {RATIO} for sides, and {}",
                        COMPUTING.join(", ")
                    );
                    return Err(FieldError::quoted("--set", key, allowed));
                }
            }
        }
        let dials = dials(&rules, exponents, ratios)?;
        match (rules.is_empty(), &options.verifier) {
            (true, _) if !computing.is_empty() => {
                Err(FieldError::quoted("--set", &computing[0], format!("together with {AGGREGATION}")))
            }
            (true, _) => Ok(Self::Judge(judging)),
            (false, Some(verifier)) => {
                Err(FieldError::quoted("--verifier", verifier, format!("absent with {AGGREGATION}")))
            }
            (false, None) if !judging.is_empty() => {
                Err(FieldError::quoted("--set", &judging[0], format!("absent with {AGGREGATION}")))
            }
            (false, None) => Ok(Self::Weigh { rules, dials, settings: computing }),
        }
    }
}

/// The parts of a list, written as on a command line or as in TOML.
fn listed(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(|part| part.trim_matches(|character: char| "[]\"' ".contains(character)))
}

fn numbers(field: &str, value: &str) -> Result<Vec<f64>, FieldError> {
    let number = |text: &str| text.parse().map_err(|_| FieldError::quoted(field, text, "numbers, with commas between"));
    listed(value).map(number).collect()
}

/// Every exponent with every ratio; 1 where one of them is not given.
fn dials(rules: &[Aggregation], exponents: Vec<f64>, ratios: Vec<f64>) -> Result<Vec<SideDial>, FieldError> {
    let given = [(EXPONENT, exponents.first()), (RATIO, ratios.first())];
    let Some((field, value)) = given.into_iter().find_map(|(field, value)| Some((field, value?))) else {
        return Ok(Vec::new());
    };
    if !rules.contains(&Aggregation::Sides) {
        return Err(FieldError::new(field, value, format!("together with sides among the rules of {AGGREGATION}")));
    }
    let or_one = |values: Vec<f64>| if values.is_empty() { vec![1.0] } else { values };
    let ratios = or_one(ratios);
    let of_exponent = |length_exponent| ratios.iter().map(move |&ratio| SideDial { length_exponent, ratio });
    let dials: Vec<_> = or_one(exponents).into_iter().flat_map(of_exponent).collect();
    dials.iter().try_for_each(|dial| dial.validate()).map_err(|error| FieldError::from(error).within(OBJECTIVE))?;
    Ok(dials)
}

fn refused(field: &str, name: &str, error: &impl std::fmt::Display) -> FieldError {
    FieldError::quoted(field, name, format!("rules by name, with commas between them ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(set: &[&str], verifier: Option<&str>) -> Result<Asked, String> {
        let set = set.iter().map(|setting| (*setting).to_owned()).collect();
        let verifier = verifier.map(str::to_owned);
        let options = ReplayOptions { run: "run".into(), steps: None, verifier, set, limit: 50, json: false };
        Asked::of(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_are_weighed_and_everything_else_is_judged_and_never_both() {
        let weighed = asked(&["learner.objective.aggregation=token,[\"dr-grpo\"]", "learner.compute.threads=1"], None);
        assert!(
            matches!(&weighed, Ok(Asked::Weigh { rules, settings, .. }) if rules.len() == 2 && settings.len() == 1)
        );
        assert!(matches!(asked(&["data.math_profile=exact"], Some("math")), Ok(Asked::Judge(set)) if set.len() == 1));
        assert!(matches!(asked(&[], None), Ok(Asked::Judge(set)) if set.is_empty()));
        let sides = "learner.objective.aggregation=token,sides";
        let numbers = ["learner.objective.length_exponent=0,0.5", "learner.objective.side_ratio=[1, 0.1]"];
        let dialled = asked(&[sides, numbers[0], numbers[1]], None);
        assert!(
            matches!(&dialled, Ok(Asked::Weigh { dials, .. }) if dials.iter().map(|d| (d.length_exponent, d.ratio))
                .eq([(0.0, 1.0), (0.0, 0.1), (0.5, 1.0), (0.5, 0.1)]))
        );
        let rule = "learner.objective.aggregation=token";
        for (set, verifier, words) in [
            (&[rule, "data.math_profile=exact"][..], None, "--set is \"data.math_profile=exact\""),
            (&[rule], Some("math"), "--verifier is \"math\""),
            (&["learner.objective.aggregation=tokens"], None, "learner.objective.aggregation is \"tokens\""),
            (&["learner.optimizer.learning_rate=1"], None, "--set is \"learner.optimizer.learning_rate\""),
            (
                &[rule, "learner.objective.length_exponent=0.5"],
                None,
                "length_exponent is 0.5, allowed: together with sides",
            ),
            (
                &[sides, "learner.objective.length_exponent=0,2"],
                None,
                "learner.objective.length_exponent is 2, allowed: 0 to 1",
            ),
            (
                &[sides, "learner.objective.side_ratio=-1"],
                None,
                "learner.objective.side_ratio is -1, allowed: a finite",
            ),
            (&[sides, "learner.objective.side_ratio=much"], None, "learner.objective.side_ratio is \"much\""),
            (&["learner.compute.device=cpu"], None, "together with learner.objective.aggregation"),
        ] {
            let error = asked(set, verifier).err().expect("refused");
            assert!(error.contains(words), "{error}");
        }
    }
}
