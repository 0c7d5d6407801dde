//! Relations: equations, inequalities, memberships, and the values they assign.

use dashu_ratio::RBig;

use super::{compare as compare_values, equation, inequality, is_equal, pairwise, region, scalar};
use crate::expr::Node;
use crate::value::Assignments;
use crate::{CheckOutcome, Equations, Fuel, Notation, Reason, Relation, Rules, Sign, Value};

/// At least one side is a relation.
pub(super) fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    match (gold, answer) {
        (Value::Relation(a), Value::Relation(b)) => compare_relations(a, b, rules, fuel),
        (Value::Relation(relation), other) if let Some(set) = members_of(relation, other) => {
            set.map_or(Reason::DifferentRelation, |(set, items)| compare_values(set, &items, rules, fuel))
        }
        (other, Value::Relation(relation)) if let Some(set) = members_of(relation, other) => {
            set.map_or(Reason::DifferentRelation, |(set, items)| compare_values(&items, set, rules, fuel))
        }
        (Value::Relation(chain), Value::Tuple(_) | Value::List(_)) if let Some(list) = assignments(chain) => {
            compare_values(&list, answer, rules, fuel)
        }
        (Value::Tuple(_) | Value::List(_), Value::Relation(chain)) if let Some(list) = assignments(chain) => {
            compare_values(gold, &list, rules, fuel)
        }
        (Value::Relation(relation), other) => {
            if let Some(reason) = region::compare_relation(relation, other, false, rules, fuel) {
                return reason;
            }
            if rules.equations == Equations::Strict {
                return Reason::DifferentKind;
            }
            match relation.named_value() {
                Some(value) => compare_values(value, other, rules, fuel),
                None => compare_with_chain(relation, other, rules, fuel),
            }
        }
        (other, Value::Relation(relation)) => {
            if let Some(reason) = region::compare_relation(relation, other, true, rules, fuel) {
                return reason;
            }
            if let Some(tuple) = in_order_of_names(relation) {
                return compare_values(other, &tuple, rules, fuel);
            }
            match relation.named_value().or_else(|| value_of_sum(relation)).or_else(|| value_of_expression(relation)) {
                Some(value) => match inconsistency(relation, rules, fuel) {
                    Some(reason) => reason,
                    None => compare_values(other, value, rules, fuel),
                },
                None => compare_chain(other, relation, rules, fuel),
            }
        }
        _ => Reason::DifferentKind,
    }
}

/// The values of `(b, a) = (3, 5)` in the order of the names, where these are letters: (5, 3). `None` for anything
/// else.
fn in_order_of_names(relation: &Relation) -> Option<Value> {
    let ([Value::Tuple(names), Value::Tuple(values)], [Sign::Equal]) =
        (relation.members.as_slice(), relation.signs.as_slice())
    else {
        return None;
    };
    let name = |value: &Value| match value {
        Value::Expr(expr) => expr.as_symbol().map(str::to_owned),
        _ => None,
    };
    let names: Vec<String> = names.items.iter().map(name).collect::<Option<_>>()?;
    if names.len() != values.items.len() || names.is_sorted() {
        return None;
    }
    let mut pairs: Vec<(String, Value)> = names.into_iter().zip(values.items.iter().cloned()).collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    let items = pairs.into_iter().map(|(_, value)| value).collect();
    Some(Value::Tuple(crate::Tuple { items, ..*values }))
}

/// The set of `x \\in \\{2, -3\\}`, and a list as its members: bare, or assigned to that name. `Some(None)` if they are
/// assigned to another one. `None` for anything else.
#[allow(clippy::option_option, reason = "no such relation, another name, or both sides")]
fn members_of<'v>(relation: &'v Relation, other: &Value) -> Option<Option<(&'v Value, Value)>> {
    let ([name, set @ Value::Set(_)], [Sign::In]) = (relation.members.as_slice(), relation.signs.as_slice()) else {
        return None;
    };
    let Value::List(items) = other else { return None };
    if !name.is_name() {
        return None;
    }
    let Some(assigned) = Assignments::of(items) else { return Some(Some((set, other.clone()))) };
    let is_same = assigned.common_name().is_some_and(|assigned| assigned == name.to_string());
    Some(is_same.then(|| (set, Value::List(assigned.values))))
}

/// A chain of numbers as a gold answer, `\\frac35 = 0.6`: any of them, if they are equal.
fn compare_with_chain(gold: &Relation, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let is_chain = gold.signs.iter().all(|sign| *sign == Sign::Equal) && gold.members.iter().all(is_number);
    let Some(first) = gold.members.first().filter(|_| is_chain) else { return Reason::DifferentKind };
    match inconsistency(gold, rules, fuel) {
        Some(reason) => reason,
        None => compare_values(first, answer, rules, fuel),
    }
}

/// The value of `m + n = 113`, since many tasks ask for such a sum. Not with coefficients, and not in a gold answer:
/// then it is one equation of several.
fn value_of_sum(relation: &Relation) -> Option<&Value> {
    let [Value::Expr(sum), .., last] = relation.members.as_slice() else { return None };
    let is_sum =
        sum.names().len() > 1 && sum.nodes().iter().all(|node| matches!(node, Node::Symbol(_) | Node::Add(..)));
    let is_chain = relation.signs.iter().all(|sign| *sign == Sign::Equal);
    (is_sum && is_chain && is_number(last)).then_some(last)
}

/// The value of `P(X \le 2) = 0.3` or `\lim_{x \to 0} f(x) = 5`: what is left of the sign is no expression, but names a
/// value.
fn value_of_expression(relation: &Relation) -> Option<&Value> {
    let [Value::Text(text), value] = relation.members.as_slice() else { return None };
    let text = text.as_str();
    let argument = text.trim_start_matches(char::is_alphabetic);
    let is_call = (1..=4).contains(&(text.len() - argument.len())) && argument.starts_with('(') && text.ends_with(')');
    let is_operator =
        ["\\lim", "\\int", "\\max", "\\min", "\\Pr", "\\gcd"].iter().any(|operator| text.starts_with(operator));
    let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| word.chars().nth(3).is_some()).count();
    let is_named = (is_call || is_operator) && words == 0 && !text.contains(" or ");
    (is_named && relation.signs == [Sign::Equal] && is_number(value)).then_some(value)
}

/// The contradiction in a chain with a name, if any: `x = 6 = 5` does not answer 5.
fn inconsistency(relation: &Relation, rules: &Rules, fuel: &mut Fuel) -> Option<Reason> {
    let rounded = relation.signs.iter().position(|sign| *sign == Sign::Approximately);
    let exact = rounded.filter(|at| *at > 0).map_or(relation.members.len(), |at| at + 1);
    let numbers: Vec<&Value> = relation.members.iter().take(exact).filter(|member| is_number(member)).collect();
    let (last, others) = numbers.split_last()?;
    for other in others {
        let reason = compare_values(last, other, rules, fuel);
        if is_equal(reason) {
            continue;
        }
        // Either may be the rounded one.
        if reason.outcome() == CheckOutcome::Undecided || !is_equal(compare_values(other, last, rules, fuel)) {
            return Some(if reason.outcome() == CheckOutcome::Undecided { reason } else { Reason::FalseChain });
        }
    }
    let approximate = relation.members.get(exact..).unwrap_or_default();
    // A fraction is exact.
    let is_fraction = |value: &Value| matches!(value, Value::Number(number) if number.notation == Notation::Fraction);
    approximate.iter().any(|value| is_fraction(value) && value != *last).then_some(Reason::FalseChain)
}

/// Whether a value beside an exact one may be its approximation: a number that is no fraction, and near it.
fn is_approximately(exact: &Value, value: &Value, fuel: &mut Fuel) -> bool {
    match (amount(exact).scalar(), amount(value)) {
        (Some(exact), Value::Number(number)) => {
            let is_digit =
                || number.notation == Notation::Integer && number.exact().is_some_and(|n| n < &RBig::from(10));
            number.notation != Notation::Fraction && !is_digit() && scalar::is_near(&exact, &number, fuel)
        }
        _ => false,
    }
}

fn is_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::Expr(expr) => expr.is_closed(),
        Value::Quantity(quantity) => is_number(&quantity.amount),
        _ => false,
    }
}

/// A chain of numbers without a name, such as `42 = 7`, has a value only if all of them are equal.
fn compare_chain(gold: &Value, relation: &Relation, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let rounded = relation.signs.iter().position(|sign| *sign == Sign::Approximately);
    let end = rounded.map_or(relation.members.len(), |at| at + 1);
    let (exact, approximate) = relation.members.split_at(end);
    let [first, rest @ ..] = exact else { return Reason::DifferentKind };
    let is_chain = relation.signs.iter().all(|sign| matches!(sign, Sign::Equal | Sign::Approximately));
    if !exact.iter().all(is_number) || !is_chain {
        return Reason::DifferentKind;
    }
    // `25\pi \approx 81.68` states something false.
    if !approximate.iter().all(|value| is_approximately(first, value, fuel)) {
        return Reason::FalseChain;
    }
    let agree =
        pairwise(rest.iter().map(|member| (first, member)), Reason::EqualRelation, Reason::FalseChain, rules, fuel);
    if !is_equal(agree) {
        return agree;
    }
    // The units of the first member are those of the chain.
    compare_values(gold, first, rules, fuel)
}

/// A quantity without its unit.
fn amount(value: &Value) -> Value {
    match value {
        Value::Quantity(quantity) => (*quantity.amount).clone(),
        value => value.clone(),
    }
}

/// `a = b = 2` as a list of assignments. `None` for other chains.
fn assignments(relation: &Relation) -> Option<Value> {
    let (value, names) = relation.members.split_last()?;
    let is_chain = relation.signs.iter().all(|sign| *sign == Sign::Equal);
    if names.len() < 2 || !is_chain || !names.iter().all(Value::is_name) || value.is_name() {
        return None;
    }
    let one = |name: &Value| Relation { members: vec![name.clone(), value.clone()], signs: vec![Sign::Equal] };
    Some(Value::List(names.iter().map(|name| Value::Relation(one(name))).collect()))
}

fn compare_relations(gold: &Relation, answer: &Relation, rules: &Rules, fuel: &mut Fuel) -> Reason {
    if let (Some(a), Some(b)) = (gold.equation(), answer.equation()) {
        return equation::compare(a, b, rules, fuel);
    }
    if gold.signs == [Sign::Congruent; 2] && gold.signs == answer.signs {
        return congruences(gold, answer, rules, fuel);
    }
    // `D = (0, 2)` and `0 < x < 2`
    if let (Some(set @ (Value::Tuple(_) | Value::Region(_))), None) = (gold.named_value(), answer.named_value())
        && gold.equation().is_some_and(|(name, _)| is_set_name(name))
        && let Some(reason) = region::compare_relation(answer, set, true, rules, fuel)
    {
        return reason;
    }
    // Chains that name the same quantity are compared by their values.
    if let (Some(a), Some(b)) = (gold.named_value(), answer.named_value()) {
        let same_name = pairwise(
            gold.members.iter().zip(&answer.members).take(1),
            Reason::EqualRelation,
            Reason::DifferentRelation,
            rules,
            fuel,
        );
        return if is_equal(same_name) { compare_values(a, b, rules, fuel) } else { same_name };
    }
    if let Some(reason) = region::compare_relations(gold, answer, rules, fuel)
        && (is_equal(reason) || reason.outcome() == CheckOutcome::Undecided)
    {
        return reason;
    }
    let alike = member_by_member(gold, answer, rules, fuel);
    if is_equal(alike) {
        return alike;
    }
    match inequality::compare(gold, answer, rules, fuel) {
        Some(reason) => reason,
        None => alike,
    }
}

/// A capital letter, as sets have.
fn is_set_name(name: &Value) -> bool {
    let is_capital = |name: &str| name.starts_with(char::is_uppercase);
    matches!(name, Value::Expr(expr) if expr.as_symbol().is_some_and(is_capital))
}

/// `x \\equiv 7 \\pmod{12}` and `x \\equiv 19 \\pmod{12}`, as members x, 7 and 12.
fn congruences(gold: &Relation, answer: &Relation, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let number = |value: &Value| if let Value::Number(number) = value { number.exact().cloned() } else { None };
    let ([name, value, modulus], [other_name, other_value, other_modulus]) =
        (gold.members.as_slice(), answer.members.as_slice())
    else {
        return Reason::DifferentRelation;
    };
    if let (Some(a), Some(b), Some(m), Some(n)) =
        (number(value), number(other_value), number(modulus), number(other_modulus))
        && m == n
        && !m.is_zero()
        && ((a - b) / m).is_int()
    {
        let same_name = compare_values(name, other_name, rules, fuel);
        return if is_equal(same_name) { Reason::EqualRelation } else { same_name };
    }
    member_by_member(gold, answer, rules, fuel)
}

/// Compares members and signs one by one, in either direction.
fn member_by_member(gold: &Relation, answer: &Relation, rules: &Rules, fuel: &mut Fuel) -> Reason {
    if gold.members.len() != answer.members.len() {
        return Reason::DifferentRelation;
    }
    let mut last = Reason::DifferentRelation;
    if gold.signs == answer.signs {
        let pairs = gold.members.iter().zip(&answer.members);
        last = pairwise(pairs, Reason::EqualRelation, Reason::DifferentRelation, rules, fuel);
    }
    let flips = gold.signs.iter().eq(answer.signs.iter().rev().map(|sign| sign.flipped()).collect::<Vec<_>>().iter());
    let turns = |sign: &Sign| !matches!(sign, Sign::To | Sign::In);
    if !is_equal(last) && flips && gold.signs.iter().all(turns) {
        let pairs = gold.members.iter().zip(answer.members.iter().rev());
        let backward = pairwise(pairs, Reason::EqualRelation, Reason::DifferentRelation, rules, fuel);
        if is_equal(backward) {
            return backward;
        }
    }
    last
}
