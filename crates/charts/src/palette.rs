//! The colours of pages.
//!
//! Every colour of a line has a contrast of at least 3 to 1 with the page and the figure behind it (WCAG 2.2, 1.4.11),
//! text at least 4.5 to 1 (1.4.3). The first four, which nearly every figure does with, differ by at least 25 units of
//! CIELAB for every kind of colour vision and all eight by at least 17, as simulated by Machado, Oliveira and Fernandes
//! (2009) at full severity. The tests compute both. Lines differ by their dashes as well.

use std::fmt::Write;

pub const COLOURS: usize = 8;

/// Steps of the ramp that stands for the course of a run.
pub(crate) const RAMP: usize = 8;

/// The colours of one appearance.
struct Theme {
    page: &'static str,
    card: &'static str,
    ink: &'static str,
    soft: &'static str,
    rule: &'static str,
    zero: &'static str,
    series: [&'static str; COLOURS],
    /// From the first to the last step: from little to much contrast, in one hue that ends in another.
    ramp: [&'static str; RAMP],
}

const LIGHT: Theme = Theme {
    page: "#fbfbf9",
    card: "#ffffff",
    ink: "#1d2328",
    soft: "#5d676f",
    rule: "#e3e5e2",
    zero: "#a4abae",
    series: ["#3865a2", "#7c491a", "#1f3a2b", "#8329d1", "#958723", "#b02965", "#2f94b3", "#c6685c"],
    ramp: ["#4f93c4", "#497fc5", "#466bc8", "#4456ca", "#403ecc", "#432db4", "#43218c", "#3b1664"],
};

const DARK: Theme = Theme {
    page: "#14181b",
    card: "#1c2226",
    ink: "#e6e9ea",
    soft: "#9aa5ac",
    rule: "#2d353a",
    zero: "#6b777f",
    series: ["#527cad", "#c0652a", "#c4eae3", "#9649e0", "#d5cb80", "#d42765", "#73bdd5", "#e9a09f"],
    ramp: ["#3e73bb", "#4185b9", "#4599ba", "#4baab9", "#60bebc", "#89cdc1", "#b2dccf", "#d5ebe1"],
};

/// The custom properties of every appearance: light, dark where the reader's system is, and light on paper.
pub(crate) fn variables() -> String {
    let light = LIGHT.variables();
    let dark = DARK.variables();
    format!(
        ":root {{ color-scheme: light dark; {light}}}\n\
         @media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n\
         @media print {{ :root {{ color-scheme: light; {light}}} }}\n"
    )
}

impl Theme {
    fn variables(&self) -> String {
        let named = [
            ("page", self.page),
            ("card", self.card),
            ("ink", self.ink),
            ("soft", self.soft),
            ("rule", self.rule),
            ("zero", self.zero),
        ];
        let mut text = String::new();
        for (name, colour) in named {
            let _ = write!(text, "--{name}: {colour}; ");
        }
        for (index, colour) in self.series.iter().enumerate() {
            let _ = write!(text, "--c{}: {colour}; ", index + 1);
        }
        for (index, colour) in self.ramp.iter().enumerate() {
            let _ = write!(text, "--s{index}: {colour}; ");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rgb = [f64; 3];

    /// A colour with linear components.
    fn linear(hex: &str) -> Rgb {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn luminance([r, g, b]: Rgb) -> f64 {
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let a = luminance(linear(a));
        let b = luminance(linear(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Normal vision, protanopia, deuteranopia, tritanopia: Machado et al. 2009, table of severity 1.
    const VISIONS: [[Rgb; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    fn lab(hex: &str, vision: &[Rgb; 3]) -> Rgb {
        let [r, g, b] = linear(hex);
        let seen = vision.map(|row| (row[0] * r + row[1] * g + row[2] * b).clamp(0.0, 1.0));
        let dot = |row: Rgb, white: f64| (row[0] * seen[0] + row[1] * seen[1] + row[2] * seen[2]) / white;
        let x = dot([0.4124564, 0.3575761, 0.1804375], 0.95047);
        let y = dot([0.2126729, 0.7151522, 0.0721750], 1.0);
        let z = dot([0.0193339, 0.1191920, 0.9503041], 1.08883);
        let [x, y, z] =
            [x, y, z].map(|t| if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn nearest(colours: &[&str], vision: &[Rgb; 3]) -> f64 {
        let labs: Vec<Rgb> = colours.iter().map(|colour| lab(colour, vision)).collect();
        let distance = |a: &Rgb, b: &Rgb| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        let pairs = labs.iter().enumerate().flat_map(|(index, a)| labs[..index].iter().map(move |b| distance(a, b)));
        pairs.fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn every_colour_stands_out_from_what_is_behind_it() {
        for theme in [LIGHT, DARK] {
            for behind in [theme.page, theme.card] {
                for colour in theme.series.iter().chain(&theme.ramp) {
                    assert!(contrast(colour, behind) >= 3.0, "{colour} on {behind}: {}", contrast(colour, behind));
                }
                for text in [theme.ink, theme.soft] {
                    assert!(contrast(text, behind) >= 4.5, "{text} on {behind}: {}", contrast(text, behind));
                }
            }
        }
    }

    #[test]
    fn colours_differ_for_every_kind_of_colour_vision() {
        for theme in [LIGHT, DARK] {
            for (index, vision) in VISIONS.iter().enumerate() {
                let first = nearest(&theme.series[..4], vision);
                let all = nearest(&theme.series, vision);
                assert!(first >= 25.0 && all >= 17.0, "{} vision {index}: {first} {all}", theme.page);
            }
        }
    }

    #[test]
    fn the_ramp_is_a_ramp_in_grey_as_well() {
        for theme in [LIGHT, DARK] {
            let contrasts: Vec<f64> = theme.ramp.iter().map(|colour| contrast(colour, theme.card)).collect();
            assert!(contrasts.is_sorted(), "{contrasts:?}");
        }
    }
}
