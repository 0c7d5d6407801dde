//! One chart as SVG: no scripts, colours from the page's style, values on hover.

use std::borrow::Cow;
use std::fmt::Write;

use super::html::escape;
use super::scale::{Scale, number};

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 30.0;
/// Steps over which a noisy line is averaged.
const WINDOW: usize = 5;
/// Points that answer to the mouse; more would only make the page heavy.
const HOVER_POINTS: usize = 150;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// As it is.
    Line,
    /// Faint, with its average over the last steps on top.
    Averaged,
    /// The same, broken: for a quantity that may lie on another one.
    Dashed,
    /// Points with their values.
    Points,
    /// A line of points, each with its standard error above and below.
    WithErrors,
}

/// One quantity.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) label: Cow<'static, str>,
    /// Which of the page's colours, from 1.
    pub(super) colour: u8,
    pub(super) style: Style,
    pub(super) points: Vec<(f64, f64)>,
    /// With [`Style::WithErrors`]: the standard error of each point, where it is known.
    pub(super) errors: Vec<Option<f64>>,
}

impl Series {
    /// Where the errors of each point end.
    fn intervals(&self) -> impl Iterator<Item = (f64, f64)> {
        let errors = self.errors.iter().copied().chain(std::iter::repeat(None));
        self.points.iter().zip(errors).map(|((_, y), error)| {
            let error = error.unwrap_or(0.0);
            (y - error, y + error)
        })
    }

    /// The values that the axis must reach.
    fn ends(&self) -> impl Iterator<Item = f64> {
        self.intervals().flat_map(|(low, high)| [low, high])
    }
}

/// Quantities over steps.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// What it shows, for people who do not know the name.
    pub(super) caption: &'static str,
    pub(super) series: Vec<Series>,
    /// What the axis must reach.
    pub(super) floor: Option<f64>,
    pub(super) ceiling: Option<f64>,
    pub(super) x_label: &'static str,
}

impl Chart {
    /// Whether there is anything to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    /// The figure.
    pub(super) fn to_html(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let x = Scale { ticks: Vec::new(), ..bounds(points().map(|(x, _)| x)) };
        let ends = || self.series.iter().flat_map(Series::ends);
        let y = Scale::of(ends(), self.floor, self.ceiling, 4);
        let axes = Axes { x, y };
        let mut svg = String::new();
        self.grid(&mut svg, &axes);
        for series in &self.series {
            draw(&mut svg, series, &axes);
        }
        let mut legend = String::new();
        for series in self.series.iter().filter(|series| !series.points.is_empty()) {
            let last = series.points.last().map_or(0.0, |(_, y)| *y);
            let _ = write!(
                legend,
                "<span class=\"key c{}\">{} <b>{}</b></span>",
                series.colour,
                escape(&series.label),
                number(last)
            );
        }
        format!(
            "<figure><figcaption><h3>{}</h3><p>{}</p></figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{svg}</svg><div class=\"legend\">{legend}</div></figure>\n",
            self.title, self.caption, self.title
        )
    }

    fn grid(&self, svg: &mut String, axes: &Axes) {
        let (right, base) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in &axes.y.ticks {
            let y = axes.y_of(*tick);
            let kind = if *tick == 0.0 { "zero" } else { "grid" };
            let _ = write!(
                svg,
                "<line class=\"{kind}\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 3.5,
                number(*tick)
            );
        }
        let ticks = Scale::of([axes.x.low, axes.x.high].into_iter(), None, None, 6).ticks;
        for tick in ticks.into_iter().filter(|tick| *tick >= axes.x.low && *tick <= axes.x.high && tick.fract() == 0.0)
        {
            let x = axes.x_of(tick);
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>", base + 15.0);
        }
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 2.0,
            self.x_label
        );
    }
}

/// From values to places on the drawing.
struct Axes {
    x: Scale,
    y: Scale,
}

impl Axes {
    fn x_of(&self, x: f64) -> f64 {
        LEFT + self.x.at(x) * (WIDTH - LEFT - RIGHT)
    }

    fn y_of(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.at(y) * (HEIGHT - TOP - BOTTOM)
    }
}

/// The range of steps; one step alone still has a width.
fn bounds(values: impl Iterator<Item = f64>) -> Scale {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    match low < high {
        true => Scale { low, high, ticks: Vec::new() },
        false if low.is_finite() => Scale { low: low - 0.5, high: low + 0.5, ticks: Vec::new() },
        false => Scale { low: 0.0, high: 1.0, ticks: Vec::new() },
    }
}

fn draw(svg: &mut String, series: &Series, axes: &Axes) {
    let colour = series.colour;
    match series.style {
        Style::Line => line(svg, &format!("line c{colour}"), &series.points, axes),
        Style::Averaged => {
            line(svg, &format!("line faint c{colour}"), &series.points, axes);
            line(svg, &format!("line c{colour}"), &averaged(&series.points), axes);
        }
        Style::Dashed => {
            line(svg, &format!("line faint c{colour}"), &series.points, axes);
            line(svg, &format!("line dashed c{colour}"), &averaged(&series.points), axes);
        }
        Style::Points => {}
        Style::WithErrors => {
            line(svg, &format!("line c{colour}"), &series.points, axes);
            for ((x, _), (low, high)) in series.points.iter().zip(series.intervals()) {
                let (x, low, high) = (axes.x_of(*x), axes.y_of(low), axes.y_of(high));
                let _ = write!(svg, "<path class=\"error c{colour}\" d=\"M{x:.1} {low:.1}L{x:.1} {high:.1}\"/>");
            }
        }
    }
    let every = series.points.len().div_ceil(HOVER_POINTS).max(1);
    for (x, y) in series.points.iter().step_by(every) {
        let (cx, cy) = (axes.x_of(*x), axes.y_of(*y));
        let (class, radius) = match series.style {
            Style::Points => ("point", 4.5),
            Style::WithErrors => ("point", 3.0),
            _ => ("hover", 5.0),
        };
        let _ = write!(
            svg,
            "<circle class=\"{class} c{colour}\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"{radius}\"><title>{} at {x}: {}</title></circle>",
            escape(&series.label),
            number(*y)
        );
    }
}

fn line(svg: &mut String, class: &str, points: &[(f64, f64)], axes: &Axes) {
    let mut path = String::new();
    for (x, y) in points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", axes.x_of(*x), axes.y_of(*y));
    }
    if points.len() > 1 {
        let _ = write!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }
}

/// Each point as the mean of the last few.
fn averaged(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |end: usize| {
        let window = &points[(end + 1).saturating_sub(WINDOW)..=end];
        window.iter().map(|(_, y)| y).sum::<f64>() / window.len() as f64
    };
    points.iter().enumerate().map(|(index, (x, _))| (*x, mean(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let series = Series { label: "reward".into(), colour: 1, style: Style::Averaged, points, errors: Vec::new() };
        Chart { title: "Reward", caption: "", series: vec![series], floor: Some(0.0), ceiling: None, x_label: "step" }
    }

    #[test]
    fn any_number_of_points_stays_within_the_drawing() {
        for count in [0, 1, 2, 1_000] {
            let html = chart((0..count).map(|i| (f64::from(i), f64::from(i * i))).collect()).to_html();
            assert!(!html.contains("NaN") && !html.contains("inf"), "{count}");
            assert!(html.matches("<circle").count() <= HOVER_POINTS);
        }
        assert!(chart(vec![]).is_empty());
    }

    #[test]
    fn an_axis_reaches_the_ends_of_errors_and_names_are_escaped() {
        let series = Series {
            label: "a<b".into(),
            colour: 1,
            style: Style::WithErrors,
            points: vec![(0.0, 0.5), (20.0, 0.5)],
            errors: vec![Some(0.4), None],
        };
        let ends: Vec<f64> = series.ends().collect();
        assert!((ends[0] - 0.1).abs() < 1e-12 && (ends[1] - 0.9).abs() < 1e-12, "{ends:?}");
        let html = Chart { series: vec![series], ..chart(vec![]) }.to_html();
        assert!(html.contains("a&lt;b") && !html.contains("a<b") && html.matches("class=\"error").count() == 2);
    }

    #[test]
    fn averages_are_over_the_last_steps() {
        let points: Vec<_> =
            [1.0, 3.0, 5.0, 7.0, 9.0, 11.0].into_iter().enumerate().map(|(i, y)| (i as f64, y)).collect();
        let averaged: Vec<f64> = averaged(&points).into_iter().map(|(_, y)| y).collect();
        assert_eq!(averaged, [1.0, 2.0, 3.0, 4.0, 5.0, 7.0]);
    }
}
