//! Enclosures hold what they should.

use super::*;

fn real(value: &str) -> Real {
    let value: RBig = value.parse().unwrap();
    Precision::new(200).rational(&value).unwrap()
}

/// Whether the enclosure agrees with a decimal of 40 digits, and is sharp.
fn is(value: &Real, digits: &str) -> bool {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = UBig::from(10_u8).pow(fraction.len());
    let numerator: IBig = format!("{whole}{fraction}").parse().unwrap();
    let mut precision = Precision::new(200);
    let expected = precision.rational(&RBig::from_parts(numerator, scale.clone())).unwrap();
    let distance = precision.subtract(value, &expected).unwrap();
    let bound = precision.rational(&RBig::from_parts(IBig::ONE, scale)).unwrap();
    precision.subtract(&bound, &distance.abs()).unwrap().is_positive() && value.is_known_to(120)
}

#[test]
fn arithmetic_is_enclosed() {
    let mut precision = Precision::new(160);
    let third = precision.divide(&Real::integer(1), &Real::integer(3)).unwrap();
    let one = precision.multiply(&third, &Real::integer(3)).unwrap();
    assert!(precision.subtract(&one, &Real::integer(1)).unwrap().contains_zero());
    assert!(!precision.subtract(&third, &real("1/2")).unwrap().contains_zero());
    assert_eq!(precision.divide(&third, &Real::integer(0)).unwrap_err(), EvalError::Undefined);
    assert_eq!(precision.sqrt(&Real::integer(49)).unwrap().as_integer(), Some(7));
    assert!(is(&precision.sqrt(&Real::integer(2)).unwrap(), "1.4142135623730950488016887242096980785696"));
}

#[test]
fn functions_are_enclosed() {
    let mut precision = Precision::new(160);
    assert!(is(&precision.pi().unwrap(), "3.1415926535897932384626433832795028841971"));
    assert!(is(&precision.exp(&Real::integer(1)).unwrap(), "2.7182818284590452353602874713526624977572"));
    assert!(is(&precision.exp(&real("-7/2")).unwrap(), "0.0301973834223185007397862923636198450716"));
    assert!(is(&precision.ln(&Real::integer(10)).unwrap(), "2.3025850929940456840179914546843642076011"));
    assert!(is(&precision.ln(&real("7/8")).unwrap(), "-0.1335313926245226231463436209313499745894"));
    let (sin, cos) = precision.sin_cos(&Real::integer(5)).unwrap();
    assert!(is(&sin, "-0.9589242746631384688931544061559939733524"));
    assert!(is(&cos, "0.2836621854632262644666391715135573083344"));
    assert!(is(&precision.arctan(&Real::integer(3)).unwrap(), "1.2490457723982544258299170772810901230778"));
    assert!(is(&precision.arctan(&real("-1/3")).unwrap(), "-0.3217505543966421934014046143586613190207"));
    assert!(is(&precision.arcsin(&Real::integer(1)).unwrap(), "1.5707963267948966192313216916397514420985"));
    assert!(is(&precision.arcsin(&real("1/2")).unwrap(), "0.5235987755982988730771072305465838140328"));
}

#[test]
fn what_leaves_no_trace_is_noticed() {
    let mut precision = Precision::new(64);
    let tiny = precision.exp(&Real::integer(-1000)).unwrap();
    precision.add(&Real::integer(1), &tiny).unwrap();
    assert!(precision.absorbed);
}

#[test]
fn integers_stay_exact() {
    let mut precision = Precision::new(64);
    let half = precision.rational(&"7/2".parse().unwrap()).unwrap();
    assert_eq!(half.floor().and_then(|floor| floor.as_integer()), Some(3));
    assert_eq!(half.as_integer(), None);
    assert_eq!(precision.multiply(&half, &Real::integer(2)).unwrap().as_integer(), Some(7));
    assert_eq!(Real::binary(-7, -1).floor().and_then(|floor| floor.as_integer()), Some(-4));
}
