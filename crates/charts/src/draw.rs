//! Series as shapes of SVG.

use std::fmt::Write;

use crate::axes::Axes;
use crate::html::escape;
use crate::scale::number;
use crate::series::{Point, Series, Style};
use crate::thin::{averaged, thinned};

/// Draws a series without its band; at most `hover` of its points answer to the mouse with their values.
pub(crate) fn series(svg: &mut String, series: &Series, axes: &Axes, hover: usize) {
    let colour = series.colour;
    let drawn = thinned(&series.points);
    let solid = format!("line c{colour} d{colour}");
    match series.style {
        Style::Line | Style::Band => line(svg, &solid, &drawn, axes),
        Style::Averaged => {
            line(svg, &format!("line faint c{colour}"), &drawn, axes);
            line(svg, &solid, &thinned(&averaged(&series.points)), axes);
        }
        Style::Points => {}
        Style::ErrorBars => {
            line(svg, &solid, &drawn, axes);
            drawn.iter().for_each(|point| error_bar(svg, colour, point, axes));
        }
    }
    let is_marked = matches!(series.style, Style::Points | Style::ErrorBars);
    let every = series.points.len().div_ceil(hover.max(1)).max(1);
    for point in series.points.iter().step_by(every) {
        mark(svg, series, point, axes, is_marked);
    }
}

/// A point that shows its values, visible or only under the mouse.
fn mark(svg: &mut String, series: &Series, point: &Point, axes: &Axes, is_visible: bool) {
    let (class, radius) = match (is_visible, series.style) {
        (true, Style::Points) => ("point", 4.5),
        (true, _) => ("point", 3.0),
        (false, _) => ("hover", 5.0),
    };
    let interval = match point.interval {
        Some((low, high)) => format!(" ({} to {})", number(low), number(high)),
        None => String::new(),
    };
    let _ = write!(
        svg,
        "<circle class=\"{class} c{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{} at {}: \
        {}{interval}</title></circle>",
        series.colour,
        axes.x_of(point.x),
        axes.y_of(point.y),
        escape(&series.label),
        number(point.x),
        number(point.y),
    );
}

fn error_bar(svg: &mut String, colour: usize, point: &Point, axes: &Axes) {
    const CAP: f64 = 3.0;
    let Some((low, high)) = point.interval else { return };
    let x = axes.x_of(point.x);
    let low = axes.y_of(low);
    let high = axes.y_of(high);
    let left = x - CAP;
    let right = x + CAP;
    let _ = write!(
        svg,
        "<path class=\"error c{colour}\" d=\"M{x:.1} {low:.1}L{x:.1} {high:.1}M{left:.1} {low:.1}L{right:.1} {low:.1}\
         M{left:.1} {high:.1}L{right:.1} {high:.1}\"/>"
    );
}

/// The area between the ends of intervals, as far as the axis reaches; a point without one is its own.
pub(crate) fn band(svg: &mut String, series: &Series, axes: &Axes) {
    let points = thinned(&series.points);
    if series.style != Style::Band || points.len() < 2 || points.iter().all(|point| point.interval.is_none()) {
        return;
    }
    let end = |point: &Point, upper: bool| match point.interval {
        Some((low, high)) => Point::new(point.x, if upper { high } else { low }.clamp(axes.y.low, axes.y.high)),
        None => *point,
    };
    let lower = points.iter().map(|point| end(point, false));
    let around = points.iter().rev().map(|point| end(point, true));
    let outline: Vec<Point> = lower.chain(around).collect();
    let _ = write!(svg, "<path class=\"band c{}\" d=\"{}Z\"/>", series.colour, path(&outline, axes));
}

fn line(svg: &mut String, class: &str, points: &[Point], axes: &Axes) {
    if points.len() > 1 {
        let _ = write!(svg, "<path class=\"{class}\" d=\"{}\"/>", path(points, axes));
    }
}

fn path(points: &[Point], axes: &Axes) -> String {
    let mut path = String::new();
    for point in points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", axes.x_of(point.x), axes.y_of(point.y));
    }
    path
}
