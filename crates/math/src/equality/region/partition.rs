//! The real line, partitioned at the endpoints of two regions.

use std::cmp::Ordering;

use crate::equality::compare as compare_values;
use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, EnclosureOptions, Point, Variables, evaluate};
use crate::{CheckOutcome, Fuel, Reason, Region, Rules, Value};

/// Most endpoints of both regions together.
const MAX_ENDS: usize = 256;

/// The distinct finite endpoints of two regions, ascending.
pub(super) struct Partition<'v> {
    ends: Vec<&'v Value>,
    /// Every inserted value, by address, with the equal endpoint; positions are assigned once all are inserted.
    positions: Vec<(*const Value, &'v Value, usize)>,
    rules: &'v Rules,
}

impl<'v> Partition<'v> {
    /// Whether both regions contain the same points and gaps. `None` if an endpoint is not a number.
    pub(super) fn compare(gold: &'v Region, answer: &'v Region, rules: &'v Rules, fuel: &mut Fuel) -> Option<Reason> {
        let mut found = Vec::new();
        ends(gold, &mut found);
        ends(answer, &mut found);
        if found.len() > MAX_ENDS {
            return Some(Reason::TooLarge);
        }
        let mut partition =
            Self { ends: Vec::with_capacity(found.len()), positions: Vec::with_capacity(found.len()), rules };
        for end in found {
            if let Err(reason) = partition.insert(end, fuel)? {
                return Some(reason);
            }
        }
        partition.number_ends();
        let steps = (partition.positions.len() + 1) * partition.ends.len() / 4;
        if fuel.spend(steps).is_err() {
            return Some(Reason::OutOfFuel);
        }
        // Even positions are gaps, odd ones endpoints.
        let mut positions = 0..=2 * partition.ends.len();
        let same = positions.all(|position| partition.contains(gold, position) == partition.contains(answer, position));
        Some(if same { Reason::EqualRegion } else { Reason::DifferentRegion })
    }

    /// `None` if the value is not a number.
    fn insert(&mut self, value: &'v Value, fuel: &mut Fuel) -> Option<Result<(), Reason>> {
        let mut low = 0;
        let mut high = self.ends.len();
        while low < high {
            let middle = (low + high) / 2;
            let Some(&end) = self.ends.get(middle) else { break };
            match order(value, end, self.rules, fuel)? {
                Ok(Ordering::Less) => high = middle,
                Ok(Ordering::Greater) => low = middle + 1,
                Ok(Ordering::Equal) => {
                    self.positions.push((value, end, 0));
                    return Some(Ok(()));
                }
                Err(reason) => return Some(Err(reason)),
            }
        }
        if self.ends.is_empty() {
            // The first value was not compared with anything and may not be a number.
            enclosure(value, fuel)?;
        }
        self.ends.insert(low.min(self.ends.len()), value);
        self.positions.push((value, value, 0));
        Some(Ok(()))
    }

    /// Assigns positions after all endpoints are inserted.
    fn number_ends(&mut self) {
        let mut numbers: Vec<_> = self.ends.iter().enumerate().map(|(index, end)| (&raw const **end, index)).collect();
        numbers.sort_unstable();
        for (_, end, position) in &mut self.positions {
            let found = numbers.binary_search_by_key(&&raw const **end, |(end, _)| *end);
            let number = found.ok().and_then(|found| numbers.get(found));
            *position = number.map_or(0, |(_, index)| 2 * index + 1);
        }
        self.positions.sort_unstable_by_key(|(value, ..)| *value);
    }

    /// Whether the region contains a position.
    fn contains(&self, region: &Region, position: usize) -> bool {
        match region {
            Region::Reals => true,
            Region::Interval(low, high) => {
                let after = match self.position(&low.value) {
                    Some(end) => position > end || (position == end && low.closed),
                    None => matches!(*low.value, Value::Infinite { negative: true }),
                };
                let before = match self.position(&high.value) {
                    Some(end) => position < end || (position == end && high.closed),
                    None => matches!(*high.value, Value::Infinite { negative: false }),
                };
                after && before
            }
            Region::Points(points) => points.iter().any(|point| self.position(point) == Some(position)),
            Region::Union(parts) => parts.iter().any(|part| self.contains(part, position)),
            Region::Intersection(parts) => parts.iter().all(|part| self.contains(part, position)),
            Region::Minus(from, what) => self.contains(from, position) && !self.contains(what, position),
        }
    }

    /// The position of a finite endpoint, which was inserted or equals an inserted one.
    fn position(&self, value: &Value) -> Option<usize> {
        if matches!(value, Value::Infinite { .. }) {
            return None;
        }
        let found = self.positions.binary_search_by_key(&&raw const *value, |(value, ..)| *value);
        self.positions.get(found.ok()?).map(|(.., position)| *position)
    }
}

/// The finite endpoints of a region.
fn ends<'v>(region: &'v Region, found: &mut Vec<&'v Value>) {
    let mut waiting = vec![region];
    while let Some(region) = waiting.pop() {
        match region {
            Region::Reals => {}
            Region::Interval(low, high) => {
                found.extend(
                    [&*low.value, &*high.value].into_iter().filter(|end| !matches!(end, Value::Infinite { .. })),
                );
            }
            Region::Points(points) => found.extend(points),
            Region::Union(parts) | Region::Intersection(parts) => waiting.extend(parts),
            Region::Minus(from, what) => waiting.extend([&**from, &**what]),
        }
    }
}

/// `None` if one is not a number.
fn order(a: &Value, b: &Value, rules: &Rules, fuel: &mut Fuel) -> Option<Result<Ordering, Reason>> {
    // Either may be the rounded one.
    for (a, b) in [(a, b), (b, a)] {
        match compare_values(a, b, rules, fuel) {
            Reason::OutOfFuel => return Some(Err(Reason::OutOfFuel)),
            reason if reason.outcome() == CheckOutcome::Equal => return Some(Ok(Ordering::Equal)),
            _ => {}
        }
    }
    let x = enclosure(a, fuel)?;
    let y = enclosure(b, fuel)?;
    let difference = Precision::new(320).subtract(&x, &y).ok()?;
    Some(match () {
        () if difference.is_negative() => Ok(Ordering::Less),
        () if difference.is_positive() => Ok(Ordering::Greater),
        () => Err(Reason::NotSeparated),
    })
}

fn enclosure(value: &Value, fuel: &mut Fuel) -> Option<crate::evaluate::real::Real> {
    let expr = value.scalar().filter(crate::expr::Expr::is_closed)?;
    let variables = Variables::default();
    let point = Point { variables: &variables, attempt: 0 };
    let mut domain = Enclosure { precision: Precision::new(320), options: EnclosureOptions::default(), point };
    let value = evaluate(&expr, &mut domain, fuel).ok()?;
    if value.im.is_some() { None } else { Some(value.re) }
}
