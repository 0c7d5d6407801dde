//! Units of measurement: their dimensions and their factors to base units.

use std::borrow::Cow;
use std::fmt;

use dashu_int::IBig;
use dashu_ratio::RBig;

use crate::words;

/// Exponents of length, mass, time, temperature, charge, information, angle and money.
type Dimensions = [i8; 8];

/// A product of powers of units.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    dimensions: Dimensions,
    /// Factor to base units.
    factor: RBig,
    /// Words that are not known units: what was counted.
    label: String,
}

/// Known names: dimension, its exponent, numerator and denominator of the factor.
type Known = (&'static [&'static str], usize, i8, u64, u64);

const LENGTH: usize = 0;
const MASS: usize = 1;
const TIME: usize = 2;
const TEMPERATURE: usize = 3;
const CHARGE: usize = 4;
const DATA: usize = 5;
const ANGLE: usize = 6;
const MONEY: usize = 7;

const KNOWN: &[Known] = &[
    (&["m", "meter", "meters", "metre", "metres"], LENGTH, 1, 1, 1),
    (&["km", "kilometer", "kilometers", "kilometre", "kilometres"], LENGTH, 1, 1000, 1),
    (&["cm", "centimeter", "centimeters", "centimetre", "centimetres"], LENGTH, 1, 1, 100),
    (&["mm", "millimeter", "millimeters", "millimetre", "millimetres"], LENGTH, 1, 1, 1000),
    (&["nm", "nanometer", "nanometers"], LENGTH, 1, 1, 1_000_000_000),
    (&["angstrom", "angstroms"], LENGTH, 1, 1, 10_000_000_000),
    (&["in", "inch", "inches"], LENGTH, 1, 254, 10_000),
    (&["ft", "foot", "feet"], LENGTH, 1, 3048, 10_000),
    (&["yd", "yard", "yards"], LENGTH, 1, 9144, 10_000),
    (&["mi", "mile", "miles"], LENGTH, 1, 1_609_344, 1000),
    (&["L", "l", "liter", "liters", "litre", "litres"], LENGTH, 3, 1, 1000),
    (&["mL", "ml", "milliliter", "milliliters", "millilitre", "millilitres"], LENGTH, 3, 1, 1_000_000),
    (&["g", "gram", "grams"], MASS, 1, 1, 1000),
    (&["kg", "kilogram", "kilograms"], MASS, 1, 1, 1),
    (&["mg", "milligram", "milligrams"], MASS, 1, 1, 1_000_000),
    (&["ton", "tons", "tonne", "tonnes"], MASS, 1, 1000, 1),
    (&["lb", "lbs", "pound", "pounds"], MASS, 1, 45_359_237, 100_000_000),
    (&["oz", "ounce", "ounces"], MASS, 1, 45_359_237, 1_600_000_000),
    (&["s", "sec", "second", "seconds"], TIME, 1, 1, 1),
    (&["ms", "millisecond", "milliseconds"], TIME, 1, 1, 1000),
    (&["min", "minute", "minutes"], TIME, 1, 60, 1),
    (&["h", "hr", "hrs", "hour", "hours"], TIME, 1, 3600, 1),
    (&["day", "days"], TIME, 1, 86_400, 1),
    (&["week", "weeks"], TIME, 1, 604_800, 1),
    (&["month", "months"], TIME, 1, 2_629_746, 1),
    (&["yr", "year", "years"], TIME, 1, 31_556_952, 1),
    (&["Hz", "hertz"], TIME, -1, 1, 1),
    (&["acre", "acres"], LENGTH, 2, 40_468_564_224, 10_000_000),
    (&["K", "kelvin", "C", "celsius", "F", "fahrenheit"], TEMPERATURE, 1, 1, 1),
    (&["coulomb", "coulombs"], CHARGE, 1, 1, 1),
    (&["bit", "bits"], DATA, 1, 1, 1),
    (&["byte", "bytes"], DATA, 1, 8, 1),
    (&["degree", "degrees", "deg"], ANGLE, 1, 1, 1),
    (&["dollar", "dollars", "USD", "usd"], MONEY, 1, 1, 1),
    (&["cent", "cents"], MONEY, 1, 1, 100),
];

/// Names of a unit, and the powers of known units whose product it is.
type Derived = (&'static [&'static str], &'static [(&'static str, i64)]);

const DERIVED: &[Derived] = &[
    (&["mph"], &[("mile", 1), ("hour", -1)]),
    (&["kph", "kmh"], &[("km", 1), ("hour", -1)]),
    (&["N", "newton", "newtons"], &[("kg", 1), ("m", 1), ("s", -2)]),
    (&["J", "joule", "joules"], &[("N", 1), ("m", 1)]),
    (&["W", "watt", "watts"], &[("J", 1), ("s", -1)]),
    (&["Pa", "pascal", "pascals"], &[("N", 1), ("m", -2)]),
];

/// Single letters that are units within `\text{}`, in addition to the known ones; elsewhere single letters are
/// variables.
const SYMBOLS: &[&str] = &["V", "A", "T", "H", "B"];

/// Words of a label.
pub(crate) const MAX_WORDS: usize = 4;

impl Unit {
    /// The unit of a number without one: an empty product.
    pub(crate) fn none() -> Self {
        Self { dimensions: [0; 8], factor: RBig::ONE, label: String::new() }
    }

    /// The prefix of millionths.
    pub(crate) fn micro() -> Self {
        Self { factor: RBig::from_parts(IBig::ONE, 1_000_000_u32.into()), ..Self::none() }
    }

    /// The names of all units that are known; those of one unit together.
    pub fn names() -> impl Iterator<Item = &'static [&'static str]> {
        let known = KNOWN.iter().map(|(names, ..)| *names);
        known.chain(DERIVED.iter().map(|(names, _)| *names)).chain(SYMBOLS.chunks(1))
    }

    /// The unit with this name.
    pub(crate) fn known(name: &str) -> Option<Self> {
        if let Some((_, factors)) = DERIVED.iter().find(|(names, _)| names.contains(&name)) {
            return factors.iter().try_fold(Self::none(), |product, (name, exponent)| {
                Some(product.times(&Self::known(name)?.power(*exponent)?))
            });
        }
        let spelled = folded(name);
        let (_, dimension, exponent, above, below) =
            KNOWN.iter().find(|(names, ..)| names.contains(&name) || names.contains(&&*spelled))?;
        let mut unit = Self::none();
        if *dimension == TEMPERATURE {
            // Temperature scales have different zeros, so that no factor converts between them.
            unit.label = match &*spelled {
                "C" | "celsius" => "celsius".to_owned(),
                "F" | "fahrenheit" => "fahrenheit".to_owned(),
                _ => String::new(),
            };
        }
        if let Some(own) = unit.dimensions.get_mut(*dimension) {
            *own = *exponent;
        }
        unit.factor = RBig::from_parts(IBig::from(*above), (*below).into());
        Some(unit)
    }

    /// The unit of a currency sign.
    pub(crate) fn currency(sign: char) -> Self {
        match sign {
            '$' => Self::known("dollar").unwrap_or_else(Self::none),
            sign => Self { label: sign.to_string(), ..Self::none() },
        }
    }

    /// The unit of something counted. `None` for words that mean something else.
    pub(crate) fn counted(word: &str) -> Option<Self> {
        let is_letter = word.chars().nth(1).is_none() && !SYMBOLS.contains(&word) && !words::is_counter(word);
        if is_letter || words::is_changing(word) || !word.chars().all(char::is_alphabetic) {
            return None;
        }
        let word = folded(word);
        // Ignores the plural; "units" is the empty unit. The case of symbols counts.
        let is_symbol = word.chars().any(char::is_uppercase);
        let singular = if is_symbol { word.into_owned() } else { words::singular(&word) };
        let label = match &*singular {
            "unit" => String::new(),
            "volt" => "V".to_owned(),
            "ampere" | "amp" => "A".to_owned(),
            "tesla" => "T".to_owned(),
            singular => singular.to_owned(),
        };
        Some(Self { label, ..Self::none() })
    }

    /// This unit times another.
    #[must_use]
    pub(crate) fn times(mut self, other: &Self) -> Self {
        for (own, others) in self.dimensions.iter_mut().zip(other.dimensions) {
            *own = own.saturating_add(others);
        }
        self.factor *= other.factor.clone();
        if !self.label.is_empty() && !other.label.is_empty() {
            self.label.push(' ');
        }
        self.label.push_str(&other.label);
        self
    }

    /// The words of it that are no known unit.
    pub(crate) fn nouns(&self) -> impl Iterator<Item = &str> {
        const KNOWN: [&str; 9] = ["V", "A", "T", "H", "B", "ohm", "celsius", "fahrenheit", "kWh"];
        let is_sign = |word: &str| !word.chars().any(char::is_alphabetic);
        self.label.split(' ').filter(move |word| !word.is_empty() && !is_sign(word) && !KNOWN.contains(word))
    }

    /// This unit to a power. `None` for powers that do not occur.
    pub(crate) fn power(&self, exponent: i64) -> Option<Self> {
        // The square of something counted is no unit.
        if exponent.unsigned_abs() != 1 && !self.label.is_empty() && self.dimensions == [0; 8] {
            return None;
        }
        let small = i8::try_from(exponent).ok().filter(|small| (-9..=9).contains(small))?;
        let size = isize::from(small).abs();
        let factor = self.factor.clone().pow(size);
        Some(Self {
            dimensions: self.dimensions.map(|own| own.saturating_mul(small)),
            factor: if small < 0 { RBig::ONE / factor } else { factor },
            label: if small < 0 { self.label_per() } else { self.label.clone() },
        })
    }

    /// The label of what something is counted for. Signs and symbols of measures stay as they are.
    fn label_per(&self) -> String {
        let is_noun = |word: &str| self.nouns().any(|noun| noun == word);
        let words = self
            .label
            .split(' ')
            .map(|word| if is_noun(word) { format!("{}{word}", words::PER) } else { word.to_owned() });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether both have the same dimensions.
    pub(crate) fn has_dimensions_of(&self, other: &Self) -> bool {
        self.dimensions == other.dimensions && self.label == other.label
    }

    /// The factor to base units.
    pub(crate) fn factor(&self) -> &RBig {
        &self.factor
    }

    /// Whether it is a temperature, on any scale.
    pub(crate) fn is_temperature(&self) -> bool {
        Self::known("K").is_some_and(|kelvin| kelvin.dimensions == self.dimensions)
    }

    /// Whether it is the empty unit.
    pub(crate) fn is_none(&self) -> bool {
        self.dimensions == [0; 8] && self.label.is_empty()
    }
}

/// A word in lower case. Case distinguishes symbols: `mW` and `MW`.
fn folded(word: &str) -> Cow<'_, str> {
    let is_word = word.chars().nth(2).is_some() && !word.chars().skip(1).any(char::is_uppercase);
    if is_word && word.starts_with(char::is_uppercase) { word.to_lowercase().into() } else { word.into() }
}

impl fmt::Display for Unit {
    /// Writes the unit in base units: `1/100 m^2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BASIC: [&str; 8] = ["m", "kg", "s", "K", "C", "bit", "deg", "$"];
        let mut parts = Vec::new();
        if self.factor != RBig::ONE {
            parts.push(self.factor.to_string());
        }
        for (name, exponent) in BASIC.iter().zip(self.dimensions) {
            match exponent {
                0 => {}
                1 => parts.push((*name).to_owned()),
                exponent => parts.push(format!("{name}^{exponent}")),
            }
        }
        if !self.label.is_empty() {
            parts.push(self.label.clone());
        }
        f.write_str(&parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_convert_where_they_measure_the_same() {
        let unit = |name| Unit::known(name).unwrap();
        assert!(unit("cm").has_dimensions_of(&unit("miles")));
        assert!(!unit("cm").has_dimensions_of(&unit("hours")));
        assert!(!unit("cm").has_dimensions_of(&unit("cm").power(2).unwrap()));
        let speed = unit("km").times(&unit("h").power(-1).unwrap());
        assert_eq!(*speed.factor(), RBig::from_parts(5.into(), 18_u8.into()));
    }

    #[test]
    fn words_that_hedge_count_nothing() {
        assert_eq!(Unit::counted("apples"), Unit::counted("apple"));
        assert_eq!(Unit::counted("boxes"), Unit::counted("box"));
        assert_eq!(Unit::counted("or"), None);
        assert_eq!(Unit::counted("not"), None);
        assert!(Unit::counted("units").is_some_and(|unit| unit.is_none()));
    }
}
