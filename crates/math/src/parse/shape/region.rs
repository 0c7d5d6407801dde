//! Sets of real numbers: unions, intersections and differences of intervals and points.

use std::ops::Range;

use super::{Read, Shaper};
use crate::parse::token::Kind;
use crate::{Region, Value};

/// Parts of one union.
const MAX_PARTS: usize = 256;

fn is_union(kind: &Kind<'_>) -> bool {
    matches!(kind, Kind::Command("cup") | Kind::Word("U"))
}

fn is_intersection(kind: &Kind<'_>) -> bool {
    matches!(kind, Kind::Command("cap"))
}

fn is_difference(kind: &Kind<'_>) -> bool {
    matches!(kind, Kind::Command("setminus") | Kind::Symbol('\\'))
}

impl Shaper<'_, '_, '_> {
    /// A region that is written with signs of sets, or that is all real numbers.
    pub(super) fn region(&mut self, range: Range<usize>) -> Read {
        if self.is_reals(range.clone()) {
            return Ok(Some(Value::Region(Region::Reals)));
        }
        if let Some(at) = self.tokens.find(range.clone(), is_difference) {
            let (Some(from), Some(what)) = (self.part(range.start..at)?, self.part(at + 1..range.end)?) else {
                return Ok(None);
            };
            return Ok(Some(Value::Region(Region::Minus(Box::new(from), Box::new(what)))));
        }
        if let Some(parts) = self.parts(range.clone(), is_union)? {
            return Ok(Some(Value::Region(Region::Union(parts))));
        }
        Ok(self.parts(range, is_intersection)?.map(|parts| Value::Region(Region::Intersection(parts))))
    }

    fn parts(&mut self, range: Range<usize>, is: fn(&Kind<'_>) -> bool) -> Read<Vec<Region>> {
        let mut parts = Vec::new();
        let mut start = range.start;
        while let Some(at) = self.tokens.find(start..range.end, is) {
            match self.part(start..at)? {
                Some(part) if parts.len() < MAX_PARTS => parts.push(part),
                _ => return Ok(None),
            }
            start = at + 1;
        }
        if parts.is_empty() {
            return Ok(None);
        }
        match self.part(start..range.end)? {
            Some(part) => parts.push(part),
            None => return Ok(None),
        }
        Ok(Some(parts))
    }

    /// One operand of a set operation.
    fn part(&mut self, range: Range<usize>) -> Read<Region> {
        let range = self.tokens.trimmed(range);
        if range.is_empty() {
            return Ok(None);
        }
        let value = self.value(range)?;
        Ok(Region::of(&value))
    }

    /// `\mathbb{R}`, and what stands for it.
    fn is_reals(&self, range: Range<usize>) -> bool {
        let mut kinds = range.map(|at| self.tokens.kind(at)).filter(|kind| **kind != Kind::Space);
        match kinds.next() {
            Some(Kind::Command("mathbb")) => {}
            Some(Kind::Command("R" | "reals")) => return kinds.next().is_none(),
            _ => return false,
        }
        let mut letters = kinds.filter(|kind| !matches!(kind, Kind::GroupOpen | Kind::GroupClose));
        letters.next() == Some(&Kind::Word("R")) && letters.next().is_none()
    }
}
