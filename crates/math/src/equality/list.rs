//! Lists and sets: a one-to-one matching between the items.

use super::{compare as compare_values, is_equal};
use crate::value::Assignments;
use crate::{CheckOutcome, Fuel, Order, Reason, Rules, Value};

/// Longest list that is matched in any order; rows of the search are bit masks of this width.
const MAX_MATCHED: usize = 64;

pub(super) fn compare(gold: &[Value], answer: &[Value], rules: &Rules, fuel: &mut Fuel) -> Reason {
    match (Assignments::of(gold), Assignments::of(answer)) {
        // `x = 2, x = -3` and `x_1 = 2, x_2 = -3`.
        (Some(a), Some(b))
            if a.share_a_name() != b.share_a_name()
                && a.common_name().is_some()
                && a.common_name() == b.common_name() =>
        {
            return compare_items(&a.values, &b.values, rules, fuel);
        }
        // Solutions for one name have no order; values of several names are expected in the order of the names.
        (Some(assigned), None) if assigned.values.len() == answer.len() => {
            let values = &assigned.values;
            return if assigned.share_a_name() {
                compare_items(values, answer, rules, fuel)
            } else {
                in_order(values, answer, rules, fuel)
            };
        }
        (None, Some(assigned)) if assigned.values.len() == gold.len() => {
            let named = in_order(gold, &assigned.values, rules, fuel);
            if is_equal(named) {
                return named;
            }
        }
        _ => {}
    }
    compare_items(gold, answer, rules, fuel)
}

/// The value of a list that states one value in several notations: `\\frac34 \\text{ or } 0.75`. `None` for other
/// lists.
pub(super) fn single_value<'v>(items: &'v [Value], rules: &Rules, fuel: &mut Fuel) -> Option<&'v Value> {
    let (first, others) = items.split_first()?;
    let is_scalar = |item: &Value| matches!(item, Value::Number(_) | Value::Expr(_) | Value::Quantity(_));
    if items.len() > 3 || !items.iter().all(is_scalar) || others.iter().any(|other| other == first) {
        return None;
    }
    let same = others.iter().all(|other| is_equal(compare_values(first, other, rules, fuel)));
    same.then_some(first)
}

/// A set against anything without a rule of its own: each item is in both, multiplicity aside.
pub(super) fn compare_set(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    // `\\{1\\}, \\{2\\}` are two sets.
    let has_sets = |value: &Value| value.items().is_some_and(|items| items.iter().any(|i| matches!(i, Value::Set(_))));
    if has_sets(gold) != has_sets(answer) {
        return Reason::DifferentKind;
    }
    // `x = 2, y = 3` is a pair, and not the set of both values.
    let names_several = |value: &Value| {
        value.items().and_then(Assignments::of).is_some_and(|assigned| assigned.common_name().is_none())
    };
    if names_several(gold) && !names_several(answer) {
        return Reason::DifferentKind;
    }
    if let (Some(a), Some(b)) = (gold.items(), answer.items()) {
        let reason = compare_items(a, b, rules, fuel);
        if is_equal(reason) || reason.outcome() == CheckOutcome::Undecided {
            return if is_equal(reason) { Reason::EqualSet } else { reason };
        }
        let covers = |a: &[Value], b: &[Value], swapped: bool, fuel: &mut Fuel| {
            a.iter().all(|x| {
                b.iter().any(|y| is_equal(if swapped { item(y, x, rules, fuel) } else { item(x, y, rules, fuel) }))
            })
        };
        // A set may repeat its items; a list with repetitions is another list.
        let both_sets = matches!((gold, answer), (Value::Set(_), Value::Set(_)));
        if both_sets && !a.is_empty() && covers(a, b, false, fuel) && covers(b, a, true, fuel) {
            return Reason::EqualSet;
        }
        return reason;
    }
    match (single(gold), single(answer)) {
        // `\\{x\\}` may be the fractional part.
        (Some(Value::Expr(item)), _) | (_, Some(Value::Expr(item))) if !item.is_closed() => Reason::NotUnderstood,
        (Some(item), _) => compare_values(item, answer, rules, fuel),
        (_, Some(item)) => compare_values(gold, item, rules, fuel),
        _ => Reason::DifferentKind,
    }
}

/// The item of a one-element set.
fn single(value: &Value) -> Option<&Value> {
    match value {
        Value::Set(items) => items.first().filter(|_| items.len() == 1),
        _ => None,
    }
}

/// Items in any order, or in the given order if the rules require it.
pub(super) fn compare_items(gold: &[Value], answer: &[Value], rules: &Rules, fuel: &mut Fuel) -> Reason {
    if gold.len() != answer.len() {
        let distinct = repeated_once(gold, answer);
        return match distinct {
            Some(answer) => compare_items(gold, &answer, rules, fuel),
            None => Reason::DifferentCount,
        };
    }
    match rules.order {
        Order::Strict => in_order(gold, answer, rules, fuel),
        // Long lists are compared in the given order only.
        Order::Free if gold.len() > MAX_MATCHED => match in_order(gold, answer, rules, fuel) {
            Reason::DifferentItem => Reason::TooLarge,
            reason => reason,
        },
        Order::Free => in_any_order(gold, answer, rules, fuel),
    }
}

/// The answer without repeated items, if all items are tuples: a solution stated twice is still one solution. `None` if
/// the counts still differ.
fn repeated_once(gold: &[Value], answer: &[Value]) -> Option<Vec<Value>> {
    let are_tuples = |items: &[Value]| items.iter().all(|item| matches!(item, Value::Tuple(_)));
    if answer.len() > MAX_MATCHED || answer.len() < gold.len() || !are_tuples(gold) || !are_tuples(answer) {
        return None;
    }
    let mut distinct: Vec<Value> = Vec::with_capacity(gold.len());
    for item in answer {
        if !distinct.contains(item) {
            distinct.push(item.clone());
        }
    }
    (distinct.len() == gold.len() && distinct.len() < answer.len()).then_some(distinct)
}

fn in_order(gold: &[Value], answer: &[Value], rules: &Rules, fuel: &mut Fuel) -> Reason {
    let mut undecided = None;
    for (gold, answer) in gold.iter().zip(answer) {
        let reason = item(gold, answer, rules, fuel);
        match reason.outcome() {
            CheckOutcome::Equal => {}
            CheckOutcome::Undecided => undecided = Some(reason),
            _ => return Reason::DifferentItem,
        }
    }
    undecided.unwrap_or(Reason::EqualList)
}

fn in_any_order(gold: &[Value], answer: &[Value], rules: &Rules, fuel: &mut Fuel) -> Reason {
    // Bit c of row r: item r of the gold list may match item c of the answer.
    let mut equal = Vec::with_capacity(gold.len());
    let mut possible = Vec::with_capacity(gold.len());
    for gold in gold {
        let mut equal_row = 0_u64;
        let mut possible_row = 0_u64;
        for (column, answer) in answer.iter().enumerate() {
            match item(gold, answer, rules, fuel) {
                Reason::OutOfFuel => return Reason::OutOfFuel,
                reason if reason.outcome() == CheckOutcome::Equal => equal_row |= 1 << column,
                reason if reason.outcome() == CheckOutcome::Undecided => possible_row |= 1 << column,
                _ => {}
            }
        }
        equal.push(equal_row);
        possible.push(equal_row | possible_row);
    }
    match () {
        () if has_perfect_matching(&equal) => Reason::EqualList,
        () if has_perfect_matching(&possible) => Reason::TooLarge,
        () => Reason::DifferentItem,
    }
}

fn item(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    match fuel.spend(crate::fuel::ITEM) {
        Ok(()) => compare_values(gold, answer, rules, fuel),
        Err(_) => Reason::OutOfFuel,
    }
}

/// Whether every row can be assigned a column of its own (Kuhn's augmenting paths).
fn has_perfect_matching(rows: &[u64]) -> bool {
    let mut owners = [None; MAX_MATCHED];
    (0..rows.len()).all(|row| augment(rows, row, &mut owners, &mut 0))
}

/// Assigns a column to `row`, moving other rows to other columns if that helps. Depth is bounded by the number of
/// columns, since each is visited once.
fn augment(rows: &[u64], row: usize, owners: &mut [Option<usize>; MAX_MATCHED], visited: &mut u64) -> bool {
    loop {
        let Some(free) = rows.get(row).map(|columns| columns & !*visited) else { return false };
        if free == 0 {
            return false;
        }
        let column = free.trailing_zeros() as usize;
        *visited |= 1 << column;
        let owner = owners.get(column).copied().flatten();
        if owner.is_none_or(|owner| augment(rows, owner, owners, visited)) {
            if let Some(owner) = owners.get_mut(column) {
                *owner = Some(row);
            }
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn judged(gold: &str, answer: &str, rules: &Rules) -> Reason {
        let mut fuel = Fuel::new(100_000);
        let list = |text, fuel: &mut Fuel| match parse(text, fuel) {
            Ok(Value::List(items)) => items,
            other => panic!("{text} is {other:?}"),
        };
        let gold = list(gold, &mut fuel);
        let answer = list(answer, &mut fuel);
        compare(&gold, &answer, rules, &mut fuel)
    }

    #[test]
    fn lists_are_equal_as_multisets() {
        let rules = Rules::default();
        assert_eq!(judged("1, 2, 3", "3, 1, 2", &rules), Reason::EqualList);
        assert_eq!(judged("1 and 1/2", "0.5, 1", &rules), Reason::EqualList);
        assert_eq!(judged("1, 1, 2", "1, 2, 2", &rules), Reason::DifferentItem);
        assert_eq!(judged("1, 2", "1, 2, 2", &rules), Reason::DifferentCount);
        assert_eq!(judged("(1, 2), x", "x, (1,2)", &rules), Reason::EqualList);
    }

    #[test]
    fn solutions_for_one_name_have_no_order_and_values_of_several_names_do() {
        let rules = Rules::default();
        assert_eq!(judged("x = 2, x = -3", "-3, 2", &rules), Reason::EqualList);
        assert_eq!(judged("x = 2, x = -3", "-3, 3", &rules), Reason::DifferentItem);
        assert_eq!(judged("x = 2, x = 2", "2, -3", &rules), Reason::DifferentItem);
        assert_eq!(judged("x = 2, y = -3", "-3, 2", &rules), Reason::DifferentItem);
        assert_eq!(judged("x = 2, y = -3", "2, -3", &rules), Reason::EqualList);
        let strict = Rules { order: Order::Strict, ..rules };
        assert_eq!(judged("x = 2, x = -3", "-3, 2", &strict), Reason::DifferentItem);
        assert_eq!(judged("x = 2, x = -3", "2, -3", &strict), Reason::EqualList);
    }

    #[test]
    fn order_matters_where_the_rules_say_so() {
        let rules = Rules { order: Order::Strict, ..Rules::default() };
        assert_eq!(judged("1, 2", "2, 1", &rules), Reason::DifferentItem);
        assert_eq!(judged("1, 2", "1, 2", &rules), Reason::EqualList);
    }

    #[test]
    fn partners_are_exchanged_where_one_fits_two() {
        // 33% may be 0.33 or 33; here it has to leave the other item its only partner.
        assert_eq!(judged("33\\%, 0.33", "0.33, 33", &Rules::default()), Reason::EqualList);
        assert_eq!(judged("33\\%, 0.33", "33, 33", &Rules::default()), Reason::DifferentItem);
        assert_eq!(judged("33, 33\\%", "33\\%, 0.33", &Rules::default()), Reason::EqualList);
        assert!(has_perfect_matching(&[0b111, 0b011, 0b001]));
        assert!(!has_perfect_matching(&[0b001, 0b011, 0b001]));
    }

    #[test]
    fn a_long_list_is_equal_as_it_stands_or_undecided() {
        let list =
            |numbers: &mut dyn Iterator<Item = usize>| numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let up = list(&mut (0..100));
        let down = list(&mut (0..100).rev());
        assert_eq!(judged(&up, &up, &Rules::default()), Reason::EqualList);
        assert_eq!(judged(&up, &down, &Rules::default()), Reason::TooLarge);
    }
}
