//! Line charts of quantities over training steps, as SVG.

use std::fmt::Write;

use crate::axes::{Axes, HEIGHT, WIDTH};
use crate::csv;
use crate::draw;
use crate::html::{Html, escape};
use crate::palette::COLOURS;
use crate::scale::{Scale, number};
use crate::series::{Series, Style};

/// Points of a chart that answer to the mouse; more would only make the page heavy.
const HOVER_POINTS: usize = 240;

/// Points that two lines must begin with to be said to coincide for a while.
const FEW_IN_COMMON: usize = 5;

/// Series whose bands may overlap and still be told apart; those of more are fainter.
const FEW_BANDS: usize = 3;

/// Quantities over steps, one y axis for all.
#[derive(Debug, Clone)]
pub struct Chart {
    title: String,
    caption: String,
    x_label: String,
    y_label: String,
    floor: Option<f64>,
    ceiling: Option<f64>,
    series: Vec<Series>,
}

impl Chart {
    /// A chart over steps. The caption says what it shows to people who do not know the title.
    pub fn new(title: impl Into<String>, caption: impl Into<String>) -> Self {
        let title = title.into();
        let caption = caption.into();
        let x_label = "step".to_owned();
        let y_label = String::new();
        Self { title, caption, x_label, y_label, floor: None, ceiling: None, series: Vec::new() }
    }

    /// What is on the x axis, if not steps.
    #[must_use]
    pub fn over(self, x_label: impl Into<String>) -> Self {
        Self { x_label: x_label.into(), ..self }
    }

    /// What is on the y axis, with its unit.
    #[must_use]
    pub fn measured_in(self, y_label: impl Into<String>) -> Self {
        Self { y_label: y_label.into(), ..self }
    }

    /// The y axis reaches down to it at least.
    #[must_use]
    pub fn from(self, floor: f64) -> Self {
        Self { floor: Some(floor), ..self }
    }

    /// The y axis reaches up to it at least.
    #[must_use]
    pub fn up_to(self, ceiling: f64) -> Self {
        Self { ceiling: Some(ceiling), ..self }
    }

    /// Adds a series; one without points is left out. One without a colour gets the next.
    #[must_use]
    pub fn with(mut self, mut series: Series) -> Self {
        if series.colour == 0 {
            series.colour = self.series.len() % COLOURS + 1;
        }
        if !series.points.is_empty() {
            self.series.push(series);
        }
        self
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.own().next().is_none()
    }

    /// The series that the chart is about.
    fn own(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| !series.is_beside)
    }

    /// The values of its series where none of them ever changes: such a chart says less than a sentence.
    pub fn constants(&self) -> Option<Vec<(&str, f64)>> {
        let constants: Option<Vec<_>> =
            self.own().map(|series| Some((series.label.as_str(), series.constant()?))).collect();
        constants.filter(|constants| !constants.is_empty())
    }

    /// What is constant, in a sentence.
    pub(crate) fn sentence(&self) -> Option<String> {
        let constants = self.constants()?;
        let steps = self.own().map(|series| series.points.len()).max().unwrap_or(0);
        let first = constants.first()?.1;
        let values = if constants.iter().all(|(_, value)| number(*value) == number(first)) {
            number(first)
        } else {
            constants.iter().map(|(label, value)| format!("{label} {}", number(*value))).collect::<Vec<_>>().join(", ")
        };
        let when = match steps {
            1 => format!("at {} {}", self.x_label, number(self.own().next()?.points.first()?.x)),
            _ => format!("at all {steps} points"),
        };
        Some(format!("{}: {values} {when} ({}).", self.title, self.caption))
    }

    /// The data as CSV: a column for x and one for each series.
    pub fn to_csv(&self) -> String {
        csv::of_series(&self.x_label, &self.series)
    }

    pub fn to_html(&self) -> Html {
        let points = || self.own().flat_map(|series| series.points.iter());
        let axes = Axes {
            x: Scale::tight(points().map(|point| point.x), 6),
            y: Scale::of(self.own().flat_map(Series::ends), self.floor, self.ceiling, 4),
        };
        let mut svg = String::new();
        axes.grid(&mut svg, &self.x_label, &self.y_label);
        let drawn = self.drawn();
        let hover = HOVER_POINTS / drawn.len().max(1);
        // No band lies over a line.
        let (beside, own): (Vec<&Series>, Vec<&Series>) =
            drawn.iter().map(|(series, _)| *series).partition(|series| series.is_beside);
        if !beside.is_empty() {
            let mut within = String::new();
            beside.iter().for_each(|series| draw::series(&mut within, series, &axes, hover));
            axes.clipped(&mut svg, &within);
        }
        own.iter().for_each(|series| draw::band(&mut svg, series, &axes));
        own.iter().for_each(|series| draw::series(&mut svg, series, &axes, hover));
        let many = if self.series.len() > FEW_BANDS { " class=\"many\"" } else { "" };
        let title = escape(&self.title);
        Html::built(format!(
            "<figure><figcaption><h3>{title}</h3><p>{}</p></figcaption>\
             <svg{many} viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{svg}</svg>\
             <div class=\"legend\">{}{}</div></figure>\n",
            escape(&self.caption),
            self.legend(&drawn),
            csv::link(&self.title, &self.to_csv()),
        ))
    }

    /// The series that are drawn, each under its label: of those that coincide the first, which says so; and one that
    /// coincides with another for a while says until when.
    fn drawn(&self) -> Vec<(&Series, String)> {
        let mut drawn: Vec<(&Series, Vec<&str>, String)> = Vec::new();
        for series in &self.series {
            let is_like = |other: &Series| {
                let points = series.points.len();
                let others = other.points.len();
                points == others && series.style == other.style && series.common_with(other) == points
            };
            if let Some((_, labels, _)) = drawn.iter_mut().find(|(other, ..)| is_like(other)) {
                labels.push(&series.label);
                continue;
            }
            let common = drawn.iter().map(|(other, ..)| (series.common_with(other), *other));
            let longest = common.max_by_key(|(points, _)| *points).filter(|(points, _)| *points >= FEW_IN_COMMON);
            let note = longest.map_or_else(String::new, |(points, other)| {
                let until = number(series.points[points - 1].x);
                format!(", as {} up to {} {until}", other.label, self.x_label)
            });
            drawn.push((series, vec![&series.label], note));
        }
        let named = |(series, labels, note): (_, Vec<&str>, String)| match labels.as_slice() {
            [only] => (series, format!("{only}{note}")),
            several => (series, format!("{} (identical){note}", several.join(" and "))),
        };
        drawn.into_iter().map(named).collect()
    }

    /// Each series with its line and its last value.
    fn legend(&self, drawn: &[(&Series, String)]) -> String {
        let mut legend = String::new();
        for (series, label) in drawn {
            let last = series.points.last().map_or(0.0, |point| point.y);
            let colour = series.colour;
            let swatch = match series.style {
                Style::Points => format!("<circle class=\"point c{colour}\" cx=\"14\" cy=\"4\" r=\"4\"/>"),
                _ => format!("<path class=\"line c{colour} d{colour}\" d=\"M1 4L27 4\"/>"),
            };
            let _ = write!(
                legend,
                "<span class=\"key\"><svg class=\"swatch\" viewBox=\"0 0 28 8\" aria-hidden=\"true\">{swatch}</svg>{} \
                <b>{}</b></span>",
                escape(label),
                number(last)
            );
        }
        legend
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Point;

    fn chart(style: Style, points: impl IntoIterator<Item = (f64, f64)>) -> Chart {
        let points = points.into_iter().map(|(x, y)| Point::with_error(x, y, Some(0.5)));
        Chart::new("Reward", "mean").from(0.0).with(Series::new("a<b", style, points))
    }

    #[test]
    fn any_number_of_points_stays_within_the_drawing() {
        for style in [Style::Line, Style::Averaged, Style::Points, Style::ErrorBars, Style::Band] {
            for count in [0, 1, 2, 5_000] {
                let html = chart(style, (0..count).map(|i| (f64::from(i), f64::from(i * i)))).to_html().into_string();
                assert!(!html.contains("NaN") && !html.contains("inf"), "{style:?} {count}");
                assert!(html.matches("<circle").count() <= HOVER_POINTS + 1);
                assert!(!html.contains("a<b") && (count == 0 || html.contains("a&lt;b")));
            }
        }
        assert!(chart(Style::Line, []).is_empty());
    }

    #[test]
    fn an_axis_reaches_the_ends_of_intervals() {
        let chart = chart(Style::ErrorBars, [(0.0, 0.5), (20.0, 0.5)]);
        let ends: Vec<f64> = chart.series[0].ends().collect();
        assert_eq!(ends, [0.0, 0.5, 1.0, 0.0, 0.5, 1.0]);
        let html = chart.to_html().into_string();
        assert_eq!(html.matches("class=\"error").count(), 2);
    }

    #[test]
    fn a_band_wider_than_the_range_of_its_line_is_cut_at_the_frame() {
        let points = [(0.0, 0.2), (1.0, 0.4)].map(|(x, y)| Point::with_error(x, y, Some(9.0)));
        let series = Series::new("a", Style::Band, points);
        let ends: Vec<f64> = series.ends().collect();
        assert!(ends.iter().all(|end| (-1e-9..=0.6 + 1e-9).contains(end)), "{ends:?}");
        let html = Chart::new("Reward", "mean").with(series).to_html().into_string();
        let band = html.split("class=\"band c1\" d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let heights = band.trim_end_matches('Z').split(['M', 'L']).filter_map(|point| point.split(' ').nth(1));
        let heights: Vec<f64> = heights.map(|y| y.parse().unwrap()).collect();
        assert!(heights.len() == 4 && heights.iter().all(|y| (0.0..=HEIGHT).contains(y)), "{heights:?}");
    }

    #[test]
    fn series_differ_by_their_dashes_and_have_a_colour_each() {
        let chart = chart(Style::Line, [(0.0, 1.0), (1.0, 2.0)])
            .with(Series::new("c", Style::Line, [Point::new(0.0, 1.0), Point::new(1.0, 3.0)]))
            .with(Series::new("d", Style::Line, [Point::new(0.0, 1.0)]).coloured(7));
        let colours: Vec<usize> = chart.series.iter().map(|series| series.colour).collect();
        assert_eq!(colours, [1, 2, 7]);
        let html = chart.to_html().into_string();
        assert!(html.contains("line c1 d1") && html.contains("line c2 d2"), "{html}");
    }

    #[test]
    fn curves_that_coincide_are_one_line_that_names_both() {
        let line = |label: &str, values: &[f64]| {
            let points = (1..).zip(values).map(|(x, y)| Point::new(f64::from(x), *y));
            Series::new(label, Style::Line, points)
        };
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let b = [1.0, 2.0, 3.0, 4.0, 5.0, 9.0];
        let chart = Chart::new("Pull", "of both").with(line("positive", &a)).with(line("negative", &a));
        let html = chart.with(line("fork", &b)).measured_in("weight").to_html().into_string();
        assert_eq!(html.matches("<path class=\"line c1 d1\"").count(), 2, "drawn once, and in the legend");
        assert!(!html.contains("line c2 d2"), "{html}");
        assert!(html.contains("positive and negative (identical) <b>7</b>"), "{html}");
        assert!(html.contains("fork, as positive up to step 5 <b>9</b>"), "{html}");
        assert!(html.contains(">weight</text>"), "{html}");
    }

    #[test]
    fn neither_axes_nor_sentences_count_a_series_that_lies_beside() {
        let line = |label: &str, steps: u32, y: f64| {
            Series::new(label, Style::Line, (1..=steps).map(|x| Point::new(f64::from(x), y * f64::from(x % 2))))
        };
        let alone = Chart::new("Reward", "mean").with(line("reward", 6, 1.0));
        let with = alone.clone().with(line("run b", 136, 50.0).beside());
        let labels = |chart: &Chart| {
            let html = chart.to_html().into_string();
            html.split("text-anchor")
                .skip(1)
                .map(|part| part.split("</text>").next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(labels(&alone), labels(&with), "the ticks are those of its own values");
        let html = with.to_html().into_string();
        assert!(
            html.contains("run b <b>") && html.contains("<svg x=\"54\""),
            "it is drawn, and cut at the frame: {html}"
        );
        let flat = Chart::new("Clipped", "share").with(line("a", 3, 0.0)).with(line("run b", 134, 0.0).beside());
        assert_eq!(flat.sentence().unwrap(), "Clipped: 0 at all 3 points (share).");
        assert!(Chart::new("Reward", "mean").with(line("run b", 9, 1.0).beside()).is_empty());
    }

    #[test]
    fn what_never_changes_is_a_sentence() {
        let flat = chart(Style::Line, [(1.0, 0.0), (2.0, 1e-17)]);
        assert_eq!(flat.sentence().unwrap(), "Reward: 0 at all 2 points (mean).");
        let two = flat.with(Series::new("c", Style::Line, [Point::new(1.0, 3.0)]));
        assert_eq!(two.sentence().unwrap(), "Reward: a<b 0, c 3 at all 2 points (mean).");
        assert_eq!(chart(Style::Line, [(7.0, 0.5)]).sentence().unwrap(), "Reward: 0.5 at step 7 (mean).");
        assert_eq!(chart(Style::Line, [(1.0, 0.0), (2.0, 1.0)]).sentence(), None);
    }
}
