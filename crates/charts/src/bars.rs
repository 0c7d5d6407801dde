//! Amounts side by side.

use std::fmt::Write;

use crate::axes::WIDTH;
use crate::csv;
use crate::html::{Html, escape};
use crate::palette::COLOURS;
use crate::scale::{Scale, number};

const ROW: f64 = 26.0;
/// Room for labels: as much as the longest needs, within these.
const LEFT: (f64, f64) = (70.0, 230.0);
/// Width of a character, about.
const CHARACTER: f64 = 6.4;
const RIGHT: f64 = 110.0;
const TOP: f64 = 4.0;

#[derive(Debug, Clone)]
pub struct Bar {
    heading: Option<String>,
    label: String,
    value: f64,
    interval: Option<(f64, f64)>,
    text: Option<String>,
    colour: usize,
}

impl Bar {
    /// An amount under its name.
    pub fn new(label: impl Into<String>, value: f64) -> Self {
        Self { heading: None, label: label.into(), value, interval: None, text: None, colour: 1 }
    }

    /// The first of a group of bars, under this heading.
    #[must_use]
    pub fn headed(self, heading: impl Into<String>) -> Self {
        Self { heading: Some(heading.into()), ..self }
    }

    /// The ends of its interval.
    #[must_use]
    pub fn between(self, low: f64, high: f64) -> Self {
        Self { interval: Some((low, high)), ..self }
    }

    /// What is shown next to it instead of its number.
    #[must_use]
    pub fn written(self, text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..self }
    }

    /// A colour other than the first, from 1 to [`COLOURS`].
    #[must_use]
    pub fn coloured(self, colour: usize) -> Self {
        Self { colour: colour.clamp(1, COLOURS), ..self }
    }
}

/// Amounts one below the other, from 0.
#[derive(Debug, Clone)]
pub struct Bars {
    title: String,
    caption: String,
    bars: Vec<Bar>,
}

impl Bars {
    /// Bars that are not finite are left out.
    pub fn new(title: impl Into<String>, caption: impl Into<String>, bars: impl IntoIterator<Item = Bar>) -> Self {
        let bars = bars.into_iter().filter(|bar| bar.value.is_finite()).collect();
        Self { title: title.into(), caption: caption.into(), bars }
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.bars.is_empty()
    }

    /// The data as CSV: name, value, and the ends of the interval; the name begins with the heading where there are
    /// headings.
    pub fn to_csv(&self) -> String {
        let mut text = "name,value,low,high\n".to_owned();
        let mut group = String::new();
        for Bar { heading, label, value, interval, .. } in &self.bars {
            if let Some(heading) = heading {
                group = format!("{heading}: ");
            }
            let label = format!("{group}{label}");
            let value = value.to_string();
            let (low, high) = interval.map_or_else(Default::default, |(low, high)| (low.to_string(), high.to_string()));
            text.push_str(&csv::of_rows([vec![label.as_str(), &value, &low, &high]]));
        }
        text
    }

    pub fn to_html(&self) -> Html {
        let ends = self.bars.iter().flat_map(|bar| {
            let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
            [low, bar.value, high]
        });
        let scale = Scale::of(ends, Some(0.0), None, 4);
        let longest = self.bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
        let label_width = (CHARACTER * longest as f64 + 14.0).clamp(LEFT.0, LEFT.1);
        let x_of = |value: f64| label_width + scale.at(value) * (WIDTH - label_width - RIGHT);
        let headings = self.bars.iter().filter(|bar| bar.heading.is_some()).count();
        let height = 2.0 * TOP + ROW * (self.bars.len() + headings) as f64;
        let mut row = 0.0;
        let mut svg = String::new();
        let zero = x_of(0.0);
        let _ = write!(svg, "<line class=\"zero\" x1=\"{zero:.1}\" x2=\"{zero:.1}\" y1=\"0\" y2=\"{height}\"/>");
        for bar in &self.bars {
            if let Some(heading) = &bar.heading {
                let y = TOP + ROW * (row + 0.75);
                let _ = write!(svg, "<text class=\"head\" x=\"4\" y=\"{y:.1}\">{}</text>", escape(heading));
                row += 1.0;
            }
            let middle = TOP + ROW * (row + 0.5);
            row += 1.0;
            let end = x_of(bar.value);
            let left = zero.min(end);
            let width = (end - zero).abs().max(0.5);
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                 <rect class=\"bar c{}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"16\" rx=\"2\"/>",
                label_width - 8.0,
                middle + 3.5,
                escape(&cut(&bar.label)),
                bar.colour,
                middle - 8.0,
            );
            let mut far = end.max(zero);
            if let Some((low, high)) = bar.interval {
                let low = x_of(low);
                let high = x_of(high);
                far = far.max(high);
                let _ = write!(svg, "<path class=\"error ink\" d=\"M{low:.1} {middle:.1}L{high:.1} {middle:.1}\"/>");
            }
            let text = bar.text.clone().unwrap_or_else(|| number(bar.value));
            let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", far + 6.0, middle + 3.5, escape(&text));
        }
        let title = escape(&self.title);
        Html::built(format!(
            "<figure class=\"bars\"><figcaption><h3>{title}</h3><p>{}</p></figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">{svg}</svg>\
             <div class=\"legend\">{}</div></figure>\n",
            escape(&self.caption),
            csv::link(&self.title, &self.to_csv()),
        ))
    }
}

/// A label as far as there is room for it; the data has all of it.
fn cut(label: &str) -> String {
    let room = ((LEFT.1 - 14.0) / CHARACTER) as usize;
    match label.char_indices().nth(room) {
        None => label.to_owned(),
        Some((end, _)) => format!("{}…", &label[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_begin_at_zero_and_carry_their_text() {
        let bars = [Bar::new("gen<eration", 3.0).written("3.0 s"), Bar::new("loss", -1.0).between(-2.0, 0.5)];
        let bars = Bars::new("Time", "of a step", bars);
        let html = bars.to_html().into_string();
        assert!(html.contains("gen&lt;eration") && html.contains(">3.0 s<") && html.contains(">-1<"), "{html}");
        assert_eq!((html.matches("class=\"bar c").count(), html.matches("class=\"error").count()), (2, 1));
        assert_eq!(bars.to_csv(), "name,value,low,high\ngen<eration,3,,\nloss,-1,-2,0.5\n");
        assert!(Bars::new("Time", "", [Bar::new("a", f64::NAN)]).is_empty());
        let long = Bars::new("Time", "", [Bar::new("é".repeat(50), 1.0)]);
        assert!(long.to_html().into_string().contains("é…</text>") && long.to_csv().contains(&"é".repeat(50)));
        let grouped = [Bar::new("a", 1.0).headed("first"), Bar::new("b", 2.0), Bar::new("a", 3.0).headed("second")];
        let grouped = Bars::new("Share", "of each", grouped);
        assert_eq!(grouped.to_html().into_string().matches("class=\"head\"").count(), 2);
        assert!(grouped.to_csv().ends_with("first: b,2,,\nsecond: a,3,,\n"), "{}", grouped.to_csv());
    }
}
