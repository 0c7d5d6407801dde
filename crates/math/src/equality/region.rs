//! Sets of real numbers. The endpoints of both sides partition the line into points and gaps; two sets are equal if
//! they contain the same of these. Inequalities in one variable are sets too.

mod partition;
mod solve;

use super::{is_equal, list, pairwise};
use crate::{Fuel, Reason, Region, Relation, Rules, Tuple, Value};
use partition::Partition;
use solve::{Solved, solved};

/// At least one side is a region, neither is a relation.
pub(super) fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    match (as_region(gold), as_region(answer)) {
        (Some(gold), Some(answer)) => regions(&gold, &answer, rules, fuel),
        _ => Reason::DifferentKind,
    }
}

/// The reason for equal tuples that are intervals by their brackets.
pub(super) fn interval_reason(tuple: &Tuple) -> Option<Reason> {
    let mixed = matches!((tuple.open, tuple.close), ('[', ')') | ('(', ']'));
    let infinite = tuple.items.iter().any(|item| matches!(item, Value::Infinite { .. }));
    (tuple.items.len() == 2 && (mixed || infinite)).then_some(Reason::EqualRegion)
}

/// A region, and the quantity that lies in it if one is named.
pub(super) struct NamedRegion {
    pub(super) name: Option<String>,
    pub(super) region: Region,
}

/// The region of a value without conditions.
pub(super) fn named(value: &Value) -> Option<NamedRegion> {
    match value {
        Value::Relation(relation) => {
            let Solved { name, region } = solved(relation)?;
            Some(NamedRegion { name: Some(name), region })
        }
        // A number is not a set.
        Value::Number(_) | Value::Expr(_) => None,
        value => Some(NamedRegion { name: None, region: as_region(value)? }),
    }
}

/// The region in which all relations hold. Where they exclude each other, as in `x < 1, x > 2`, alternatives are meant.
/// `None` if they are not about one quantity.
pub(super) fn intersection(relations: &[Relation], rules: &Rules, fuel: &mut Fuel) -> Option<NamedRegion> {
    let solved: Vec<Solved> = relations.iter().map(solved).collect::<Option<_>>()?;
    let name = solved.first()?.name.clone();
    if solved.iter().any(|solved| solved.name != name) {
        return None;
    }
    let parts: Vec<Region> = solved.into_iter().map(|solved| solved.region).collect();
    let all = Region::Intersection(parts.clone());
    let nothing = Region::Points(Vec::new());
    let is_empty = Partition::compare(&all, &nothing, rules, fuel) == Some(Reason::EqualRegion);
    Some(NamedRegion { name: Some(name), region: if is_empty { Region::Union(parts) } else { all } })
}

/// Lists of points and intervals are unions.
fn as_region(value: &Value) -> Option<Region> {
    match value {
        Value::List(items) => {
            let mut name = None;
            let parts: Option<Vec<Region>> = items
                .iter()
                .map(|item| match item {
                    Value::Number(_) | Value::Expr(_) => Some(Region::Points(vec![item.clone()])),
                    Value::Relation(relation) => {
                        // Every relation must be about the same name.
                        let solved = solved(relation)?;
                        (*name.get_or_insert_with(|| solved.name.clone()) == solved.name).then_some(solved.region)
                    }
                    // `(2, 3), (3, 2)` are points: no interval ends before it begins.
                    Value::Tuple(tuple) if is_backward(tuple) => None,
                    item => Region::of(item),
                })
                .collect();
            parts.map(Region::Union)
        }
        value => Region::of(value),
    }
}

/// Whether two items are numbers of which the second is not above the first.
fn is_backward(tuple: &Tuple) -> bool {
    let exact = |item: &Value| if let Value::Number(number) = item { number.exact().cloned() } else { None };
    matches!(tuple.items.as_slice(), [low, high] if exact(low).zip(exact(high)).is_some_and(|(low, high)| low >= high))
}

pub(super) fn regions(gold: &Region, answer: &Region, rules: &Rules, fuel: &mut Fuel) -> Reason {
    if let Some(reason) = Partition::compare(gold, answer, rules, fuel) {
        return reason;
    }
    // Endpoints that are not numbers have no order, but may still be equal.
    alike(gold, answer, rules, fuel)
}

/// Regions of the same structure with equal endpoints.
fn alike(gold: &Region, answer: &Region, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let parts = |a: &[Region], b: &[Region], fuel: &mut Fuel| {
        if a.len() != b.len() {
            return Reason::DifferentRegion;
        }
        a.iter()
            .zip(b)
            .map(|(a, b)| alike(a, b, rules, fuel))
            .find(|reason| !is_equal(*reason))
            .unwrap_or(Reason::EqualRegion)
    };
    match (gold, answer) {
        (Region::Reals, Region::Reals) => Reason::EqualRegion,
        (Region::Interval(a, b), Region::Interval(x, y)) => {
            if (a.closed, b.closed) != (x.closed, y.closed) {
                return Reason::DifferentRegion;
            }
            let ends = [(&*a.value, &*x.value), (&*b.value, &*y.value)];
            pairwise(ends.into_iter(), Reason::EqualRegion, Reason::DifferentRegion, rules, fuel)
        }
        (Region::Points(a), Region::Points(b)) => {
            let reason = list::compare_items(a, b, rules, fuel);
            if is_equal(reason) { Reason::EqualRegion } else { reason }
        }
        (Region::Union(a), Region::Union(b)) | (Region::Intersection(a), Region::Intersection(b)) => parts(a, b, fuel),
        (Region::Minus(a, b), Region::Minus(x, y)) => {
            let first = alike(a, x, rules, fuel);
            if is_equal(first) { alike(b, y, rules, fuel) } else { first }
        }
        _ => Reason::DifferentRegion,
    }
}

/// A relation against a value that may be a region. `None` if the relation cannot be solved.
pub(super) fn compare_relation(
    relation: &Relation,
    other: &Value,
    relation_is_answer: bool,
    rules: &Rules,
    fuel: &mut Fuel,
) -> Option<Reason> {
    let Solved { region, .. } = solved(relation)?;
    let other = match other {
        // A single number is not a set.
        Value::Number(_) | Value::Expr(_) => return Some(Reason::DifferentKind),
        other => match as_region(other) {
            Some(other) => other,
            None => return Some(Reason::DifferentKind),
        },
    };
    Some(if relation_is_answer { regions(&other, &region, rules, fuel) } else { regions(&region, &other, rules, fuel) })
}

/// Two relations solved for the same quantity.
pub(super) fn compare_relations(gold: &Relation, answer: &Relation, rules: &Rules, fuel: &mut Fuel) -> Option<Reason> {
    let gold = solved(gold)?;
    let answer = solved(answer)?;
    if gold.name != answer.name {
        return Some(Reason::DifferentRelation);
    }
    Some(regions(&gold.region, &answer.region, rules, fuel))
}
