//! The parts that a shaped reward is the weighted sum of, as they are kept with answers and samples.

use std::collections::BTreeMap;

/// The part of a shaped reward that is the verifier's reward, between `shaping.wrong` and `shaping.correct`.
pub const CORRECTNESS: &str = "correctness";

/// The parts that say more than the raw reward, by name; none where there is only one.
pub(crate) fn telling_parts(
    components: &BTreeMap<String, f64>,
    reward: Option<f64>,
) -> impl Iterator<Item = (&str, f64)> {
    let several = Some(components).filter(|components| components.len() > 1);
    let parts = several.into_iter().flatten().map(|(name, value)| (name.as_str(), *value));
    parts.filter(move |(name, value)| *name != CORRECTNESS || Some(*value) != reward)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_where_there_are_several_and_correctness_where_it_is_not_the_reward() {
        let told = |parts: &[(&str, f64)], reward| {
            let components = parts.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            telling_parts(&components, reward).map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>()
        };
        assert_eq!(told(&[("style", 0.5)], Some(1.0)), []);
        let both = [(CORRECTNESS, 1.0), ("style", 0.5)];
        assert_eq!(told(&both, Some(1.0)), [("style".to_owned(), 0.5)]);
        assert_eq!(told(&both, Some(0.0)).len(), 2);
    }
}
