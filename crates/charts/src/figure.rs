//! Figures of a section.

use crate::bars::Bars;
use crate::chart::Chart;
use crate::histogram::Histogram;
use crate::html::Html;
use crate::plane::Plane;

/// A figure of any kind.
#[derive(Debug, Clone)]
pub enum Figure {
    Chart(Chart),
    /// Two quantities over each other.
    Plane(Plane),
    /// Amounts side by side.
    Bars(Bars),
    /// How often values occur.
    Histogram(Histogram),
}

impl Figure {
    fn title(&self) -> &str {
        match self {
            Self::Chart(chart) => chart.title(),
            Self::Plane(plane) => plane.title(),
            Self::Bars(bars) => bars.title(),
            Self::Histogram(histogram) => histogram.title(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Chart(chart) => chart.is_empty(),
            Self::Plane(plane) => plane.is_empty(),
            Self::Bars(bars) => bars.is_empty(),
            Self::Histogram(histogram) => histogram.is_empty(),
        }
    }

    /// What is constant, in a sentence.
    fn sentence(&self) -> Option<String> {
        match self {
            Self::Chart(chart) => chart.sentence(),
            Self::Plane(_) | Self::Bars(_) | Self::Histogram(_) => None,
        }
    }

    fn to_html(&self) -> Html {
        match self {
            Self::Chart(chart) => chart.to_html(),
            Self::Plane(plane) => plane.to_html(),
            Self::Bars(bars) => bars.to_html(),
            Self::Histogram(histogram) => histogram.to_html(),
        }
    }
}

impl From<Chart> for Figure {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

impl From<Plane> for Figure {
    fn from(plane: Plane) -> Self {
        Self::Plane(plane)
    }
}

impl From<Bars> for Figure {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

impl From<Histogram> for Figure {
    fn from(histogram: Histogram) -> Self {
        Self::Histogram(histogram)
    }
}

/// Figures side by side. Below them a sentence for each whose values never change, and one that names those without
/// data.
pub fn figures(all: impl IntoIterator<Item = Figure>) -> Html {
    let mut drawn = Html::new();
    let mut sentences = Html::new();
    let mut absent = Vec::new();
    for figure in all {
        if figure.is_empty() {
            absent.push(figure.title().to_owned());
        } else if let Some(sentence) = figure.sentence() {
            sentences.push(Html::element("li", &[], sentence));
        } else {
            drawn.push(figure.to_html());
        }
    }
    if !absent.is_empty() {
        sentences.push(Html::element("li", &[], format!("Without a value: {}.", absent.join(", "))));
    }
    let mut html = Html::new();
    if !drawn.is_empty() {
        html.push(Html::element("div", &[("class", "charts")], drawn));
    }
    if !sentences.is_empty() {
        html.push(Html::element("ul", &[("class", "said")], sentences));
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Point, Series, Style};

    #[test]
    fn no_figure_is_empty_or_constant() {
        let chart = |title: &str, values: &[f64]| {
            let points = (1..).zip(values).map(|(x, y)| Point::new(f64::from(x), *y));
            Chart::new(title, "what").with(Series::new("a", Style::Line, points))
        };
        let all = [chart("Moving", &[1.0, 2.0]), chart("Flat", &[1.0, 1.0]), chart("Nothing", &[]), chart("None", &[])];
        let html = figures(all.map(Figure::from)).into_string();
        assert_eq!(html.matches("<figure>").count(), 1);
        assert!(
            html.contains("<li>Flat: 1 at all 2 points (what).</li><li>Without a value: Nothing, None.</li>"),
            "{html}"
        );
        assert!(figures([]).is_empty());
    }
}
