//! Numbers as people read them.

use evenkeel_host::Size;

/// A number with commas: `1,024,000`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in GiB. Less than a tenth has three digits, since parts of a small model would all be 0.0.
pub(super) fn gib(bytes: u64) -> String {
    let gib = bytes as f64 / f64::from(1 << 30);
    if gib < 0.1 { format!("{gib:.3} GiB") } else { format!("{} GiB", Size(bytes).in_gib()) }
}

/// A number with three digits and a prefix: `1.72 G`, `93.1 PFLOP`.
pub(super) fn scaled(number: f64, unit: &str) -> String {
    const PREFIXES: [&str; 8] = ["", "k", "M", "G", "T", "P", "E", "Z"];
    let mut value = number;
    let mut prefix = 0;
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let digits = match value {
        value if prefix == 0 && value.fract() == 0.0 => 0,
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}{unit}", PREFIXES[prefix]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_prefix_or_commas() {
        let cases = [
            (0.0, "0 FLOP"),
            (1.0, "1 FLOP"),
            (1234.0, "1.23 kFLOP"),
            (93.1e15, "93.1 PFLOP"),
            (999.7e9, "1.00 TFLOP"),
        ];
        for (number, wanted) in cases {
            assert_eq!(scaled(number, "FLOP"), wanted);
        }
        assert_eq!(scaled(1_720_574_976.0, ""), "1.72 G");
        assert_eq!([0, 999, 1000, 1_024_000].map(count), ["0", "999", "1,000", "1,024,000"]);
        assert_eq!((gib(64 << 30), gib(10 << 20)), ("64.0 GiB".to_owned(), "0.010 GiB".to_owned()));
    }
}
