//! How often values occur.

use std::fmt::Write;

use crate::axes::{Axes, HEIGHT, WIDTH};
use crate::csv;
use crate::html::{Html, escape};
use crate::palette::COLOURS;
use crate::scale::{Scale, number};

/// About as many bins as are drawn.
const BINS: usize = 24;

/// Values of one kind.
#[derive(Debug, Clone)]
struct Class {
    label: String,
    colour: usize,
    values: Vec<f64>,
}

/// Counts of values within equal ranges, those of several kinds stacked.
#[derive(Debug, Clone)]
pub struct Histogram {
    title: String,
    caption: String,
    x_label: String,
    y_label: String,
    classes: Vec<Class>,
}

/// A range with how many values of each kind are in it.
#[derive(Debug, Clone, PartialEq)]
struct Bin {
    low: f64,
    high: f64,
    counts: Vec<usize>,
}

impl Histogram {
    /// A histogram; `x_label` names the values with their unit, `y_label` what is counted.
    pub fn new(
        title: impl Into<String>,
        caption: impl Into<String>,
        x_label: impl Into<String>,
        y_label: impl Into<String>,
    ) -> Self {
        let title = title.into();
        let caption = caption.into();
        Self { title, caption, x_label: x_label.into(), y_label: y_label.into(), classes: Vec::new() }
    }

    /// Adds values of a kind in a colour from 1 to [`COLOURS`]; those that are not finite are left out.
    #[must_use]
    pub fn with(mut self, label: impl Into<String>, colour: usize, values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        if !values.is_empty() {
            self.classes.push(Class { label: label.into(), colour: colour.clamp(1, COLOURS), values });
        }
        self
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.classes.iter().flat_map(|class| class.values.iter().copied())
    }

    /// Ranges of one round width, each without its upper end; whole numbers have whole widths.
    fn bins(&self) -> Vec<Bin> {
        let ticks = Scale::of(self.values(), None, None, BINS).ticks;
        let (Some(&low), Some(mut width)) = (ticks.first(), ticks.get(1).map(|next| next - ticks[0])) else {
            return Vec::new();
        };
        if self.values().all(|value| value.fract() == 0.0) {
            width = width.max(1.0).round();
        }
        let low = (low / width).floor() * width;
        let place = |value: f64| ((value - low) / width + 1e-9).floor().max(0.0) as usize;
        let count = self.values().map(place).max().map_or(0, |last| last + 1);
        let bin = |at: usize| Bin {
            low: low + at as f64 * width,
            high: low + (at + 1) as f64 * width,
            counts: vec![0; self.classes.len()],
        };
        let mut bins: Vec<Bin> = (0..count).map(bin).collect();
        for (index, class) in self.classes.iter().enumerate() {
            class.values.iter().for_each(|value| bins[place(*value)].counts[index] += 1);
        }
        let first = bins.iter().position(|bin| bin.counts.iter().any(|count| *count > 0)).unwrap_or(0);
        bins.split_off(first)
    }

    /// The data as CSV: the ends of each range, and a column of counts for each kind.
    pub fn to_csv(&self) -> String {
        let mut text = format!("{} from,below", csv::csv_cell(&self.x_label));
        self.classes.iter().for_each(|class| text += &format!(",{}", csv::csv_cell(&class.label)));
        text.push('\n');
        for bin in self.bins() {
            text += &format!("{},{}", bin.low, bin.high);
            bin.counts.iter().for_each(|count| text += &format!(",{count}"));
            text.push('\n');
        }
        text
    }

    pub fn to_html(&self) -> Html {
        let bins = self.bins();
        let highest = bins.iter().map(|bin| bin.counts.iter().sum::<usize>()).max().unwrap_or(0);
        let ends = bins.iter().flat_map(|bin| [bin.low, bin.high]);
        let axes = Axes {
            x: Scale::tight(ends, 6).with_ticks(Scale::of(self.values(), None, None, 6).ticks),
            y: Scale::of([highest as f64].into_iter(), Some(0.0), None, 4),
        };
        let mut svg = String::new();
        axes.grid(&mut svg, &self.x_label, &self.y_label);
        for bin in &bins {
            let left = axes.x_of(bin.low) + 0.5;
            let right = axes.x_of(bin.high) - 0.5;
            let mut below = 0;
            let mut said = format!("{} to {}:", number(bin.low), number(bin.high));
            for (class, count) in self.classes.iter().zip(&bin.counts) {
                let _ = write!(said, " {count} {}", class.label);
            }
            for (class, count) in self.classes.iter().zip(&bin.counts).filter(|(_, count)| **count > 0) {
                let top = axes.y_of((below + count) as f64);
                let base = axes.y_of(below as f64);
                let _ = write!(
                    svg,
                    "<rect class=\"bar c{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
                    height=\"{:.1}\"><title>{}</title></rect>",
                    class.colour,
                    (right - left).max(1.0),
                    (base - top).max(0.5),
                    escape(&said),
                );
                below += count;
            }
        }
        let title = escape(&self.title);
        Html::built(format!(
            "<figure><figcaption><h3>{title}</h3><p>{}</p></figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{svg}</svg>\
             <div class=\"legend\">{}{}</div></figure>\n",
            escape(&self.caption),
            self.legend(),
            csv::link(&self.title, &self.to_csv()),
        ))
    }

    /// Each kind with how many values it has.
    fn legend(&self) -> String {
        let mut legend = String::new();
        for class in &self.classes {
            let _ = write!(
                legend,
                "<span class=\"key\"><svg class=\"swatch\" viewBox=\"0 0 28 8\" aria-hidden=\"true\"><rect class=\"bar \
                 c{}\" x=\"8\" y=\"0\" width=\"12\" height=\"8\"/></svg>{} <b>{}</b></span>",
                class.colour,
                escape(&class.label),
                class.values.len()
            );
        }
        legend
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Histogram {
        Histogram::new("Lengths", "of answers", "tokens", "answers").with("ri<ght", 1, values)
    }

    #[test]
    fn every_value_is_in_one_bar_and_kinds_are_stacked() {
        let histogram = of((0..100).map(f64::from)).with("wrong", 2, [5.0, 5.0]);
        let bins = histogram.bins();
        assert_eq!(bins.iter().map(|bin| bin.counts[0]).sum::<usize>(), 100);
        let fives = bins.iter().find(|bin| bin.low <= 5.0 && 5.0 < bin.high).unwrap();
        assert_eq!(fives.counts[1], 2);
        assert!(bins.iter().all(|bin| bin.high - bin.low == bins[0].high - bins[0].low));
        let html = histogram.to_html().into_string();
        assert!(
            html.contains("ri&lt;ght <b>100</b>")
                && html.contains(">answers</text>")
                && html.contains(">tokens</text>")
        );
        assert!(
            histogram.to_csv().starts_with("tokens from,below,ri<ght,wrong\n0,5,5,0\n5,10,5,2\n"),
            "{}",
            histogram.to_csv()
        );
    }

    #[test]
    fn few_whole_numbers_have_a_bar_each() {
        let bins = of([3.0, 3.0, 4.0, 6.0]).bins();
        let counted: Vec<_> = bins.iter().map(|bin| (bin.low, bin.counts[0])).collect();
        assert_eq!(counted, [(3.0, 2), (4.0, 1), (5.0, 0), (6.0, 1)]);
        assert!(of([]).is_empty() && of([f64::NAN]).is_empty());
        assert_eq!(of([7.0]).bins().iter().map(|bin| bin.counts[0]).sum::<usize>(), 1);
    }

    proptest! {
        #[test]
        fn any_values_are_drawn_within_bounds(values in prop::collection::vec(-1e12..1e12_f64, 1..60)) {
            let histogram = of(values.iter().copied());
            let bins = histogram.bins();
            prop_assert_eq!(bins.iter().map(|bin| bin.counts[0]).sum::<usize>(), values.len());
            prop_assert!(bins.len() <= 4 * BINS);
            prop_assert!(!histogram.to_html().into_string().contains("NaN"));
        }
    }
}
