//! Inequalities in several variables: equal up to a positive factor after moving everything to one side.

use super::equation::{difference, proportional};
use crate::{Fuel, Reason, Relation, Rules, Sign};

/// `None` unless both are single inequalities.
pub(super) fn compare(gold: &Relation, answer: &Relation, _: &Rules, fuel: &mut Fuel) -> Option<Reason> {
    let ([gold_left, gold_right], [gold_sign]) = (gold.members.as_slice(), gold.signs.as_slice()) else { return None };
    let ([left, right], [sign]) = (answer.members.as_slice(), answer.signs.as_slice()) else { return None };
    let is_single = |sign: Sign| sign.is_order() || sign == Sign::NotEqual;
    if !is_single(*gold_sign) || !is_single(*sign) {
        return None;
    }
    let gold_side = difference((gold_left, gold_right))?;
    let side = match () {
        () if gold_sign == sign => difference((left, right))?,
        () if *gold_sign == sign.flipped() => difference((right, left))?,
        () => return Some(Reason::DifferentRelation),
    };
    Some(proportional(&gold_side, &side, gold_sign.is_order(), fuel))
}
