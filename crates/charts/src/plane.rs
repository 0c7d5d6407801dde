//! Two quantities over each other, with the course of a run as a line that changes its colour.

use std::fmt::Write;

use crate::axes::{Axes, HEIGHT, WIDTH};
use crate::csv;
use crate::html::{Html, escape};
use crate::palette::{COLOURS, RAMP};
use crate::scale::{Scale, number};

/// Points that are drawn of a trajectory alone; each is the mean of a stretch of steps.
const STRETCHES: usize = 48;
/// Points per trajectory when several share a plane, whose small turns would hide one another.
const STRETCHES_OF_SEVERAL: usize = 10;

/// The course of one run.
#[derive(Debug, Clone)]
pub struct Trajectory {
    label: String,
    /// Step, x and y.
    points: Vec<(f64, f64, f64)>,
}

impl Trajectory {
    /// Takes (step, x, y) in order of the steps. Values that are not finite are left out.
    pub fn new(label: impl Into<String>, points: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        let is_finite = |(step, x, y): &(f64, f64, f64)| step.is_finite() && x.is_finite() && y.is_finite();
        Self { label: label.into(), points: points.into_iter().filter(is_finite).collect() }
    }

    /// Means over stretches of equal length.
    fn stretches(&self, most: usize) -> Vec<(f64, f64, f64)> {
        let length = self.points.len().div_ceil(most).max(1);
        let mean = |part: &[(f64, f64, f64)]| {
            let count = part.len() as f64;
            let sum =
                part.iter().fold((0.0, 0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1, sum.2 + point.2));
            (sum.0 / count, sum.1 / count, sum.2 / count)
        };
        self.points.chunks(length).map(mean).collect()
    }
}

/// Two quantities over each other, coloured by step: from light to dark on paper, from dark to light on a dark screen.
/// The start is a ring, the end a dot. With several trajectories each has its colour instead.
#[derive(Debug, Clone)]
pub struct Plane {
    title: String,
    caption: String,
    x_label: String,
    y_label: String,
    trajectories: Vec<Trajectory>,
}

impl Plane {
    /// A plane of two named quantities.
    pub fn new(
        title: impl Into<String>,
        caption: impl Into<String>,
        x_label: impl Into<String>,
        y_label: impl Into<String>,
    ) -> Self {
        let title = title.into();
        let caption = caption.into();
        Self { title, caption, x_label: x_label.into(), y_label: y_label.into(), trajectories: Vec::new() }
    }

    /// Adds a trajectory; one without points is left out.
    #[must_use]
    pub fn with(mut self, trajectory: Trajectory) -> Self {
        if !trajectory.points.is_empty() {
            self.trajectories.push(trajectory);
        }
        self
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.trajectories.is_empty()
    }

    /// The data as CSV: run, step, x, y.
    pub fn to_csv(&self) -> String {
        let mut text = csv::of_rows([vec!["run", "step", &self.x_label, &self.y_label]]);
        for trajectory in &self.trajectories {
            for (step, x, y) in &trajectory.points {
                let step = step.to_string();
                let x = x.to_string();
                let y = y.to_string();
                text.push_str(&csv::of_rows([vec![trajectory.label.as_str(), &step, &x, &y]]));
            }
        }
        text
    }

    pub fn to_html(&self) -> Html {
        let is_alone = self.trajectories.len() == 1;
        let most = if is_alone { STRETCHES } else { STRETCHES_OF_SEVERAL };
        let drawn: Vec<_> = self.trajectories.iter().map(|trajectory| trajectory.stretches(most)).collect();
        let points = || drawn.iter().flatten();
        let axes = Axes {
            x: Scale::of(points().map(|(_, x, _)| *x), None, None, 6),
            y: Scale::of(points().map(|(_, _, y)| *y), Some(0.0), None, 4),
        };
        let mut svg = String::new();
        axes.grid(&mut svg, &self.x_label, &self.y_label);
        for (index, (trajectory, points)) in self.trajectories.iter().zip(&drawn).enumerate() {
            let of_run = index % COLOURS + 1;
            draw(&mut svg, &trajectory.label, points, &axes, if is_alone { None } else { Some(of_run) });
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

    fn legend(&self) -> String {
        if let [only] = &self.trajectories[..] {
            let first = only.points.first();
            let last = only.points.last();
            let step = |point: Option<&(f64, f64, f64)>| point.map_or_else(String::new, |(step, _, _)| number(*step));
            let ramp: String = (0..RAMP).map(|index| format!("<i class=\"ramp s{index}\"></i>")).collect();
            return format!("<span>step {} <span class=\"strip\">{ramp}</span> {}</span>", step(first), step(last));
        }
        let mut legend = String::new();
        for (index, trajectory) in self.trajectories.iter().enumerate() {
            let colour = index % COLOURS + 1;
            let _ = write!(
                legend,
                "<span class=\"key\"><svg class=\"swatch\" viewBox=\"0 0 28 8\" aria-hidden=\"true\">\
                 <path class=\"line c{colour} d{colour}\" d=\"M1 4L27 4\"/></svg>{}</span>",
                escape(&trajectory.label)
            );
        }
        legend
    }
}

/// A trajectory in the colours of the ramp, or in that of its run.
fn draw(svg: &mut String, label: &str, points: &[(f64, f64, f64)], axes: &Axes, colour: Option<usize>) {
    let place = |(_, x, y): &(f64, f64, f64)| (axes.x_of(*x), axes.y_of(*y));
    let class = |index: usize| match colour {
        Some(colour) => format!("c{colour} d{colour}"),
        None => format!("s{}", index * (RAMP - 1) / (points.len() - 1).max(1)),
    };
    for (index, pair) in points.windows(2).enumerate() {
        let (x1, y1) = place(&pair[0]);
        let (x2, y2) = place(&pair[1]);
        let class = class(index + 1);
        let _ = write!(svg, "<path class=\"line {class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>");
    }
    for (index, point) in points.iter().enumerate() {
        let (x, y) = place(point);
        let (kind, radius) = match index {
            0 if points.len() > 1 => ("start", 5.0),
            _ if index + 1 == points.len() => ("point", 5.5),
            _ => ("point", 2.2),
        };
        let _ = write!(
            svg,
            "<circle class=\"{kind} {}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"><title>{} at step {}: {}, \
            {}</title></circle>",
            class(index),
            escape(label),
            number(point.0),
            number(point.1),
            number(point.2),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane(count: u32) -> Plane {
        let points = (0..count).map(|step| (f64::from(step), 0.3 + f64::from(step) / 1e3, 5.0 - f64::from(step % 7)));
        Plane::new("Plane", "where it is", "variation", "gap").with(Trajectory::new("r<1", points))
    }

    #[test]
    fn a_trajectory_goes_from_a_ring_to_a_dot_through_the_ramp() {
        for count in [1, 2, 48, 5_000] {
            let html = plane(count).to_html().into_string();
            assert!(html.matches("<circle").count() <= STRETCHES && !html.contains("NaN"), "{count}");
            assert_eq!(html.matches("\"start s0\"").count(), usize::from(count > 1), "{count}");
            assert!(count == 1 || html.contains("point s7\""), "{count}");
            assert!(!html.contains("r<1"));
        }
        assert!(plane(0).is_empty());
    }

    #[test]
    fn several_trajectories_have_a_colour_each() {
        let plane = plane(9).with(Trajectory::new("b", [(1.0, 0.5, 1.0), (2.0, 0.6, f64::NAN)]));
        let html = plane.to_html().into_string();
        assert!(html.contains("start c1") && html.contains("point c2") && !html.contains("s7"), "{html}");
        assert!(plane.to_csv().ends_with("b,1,0.5,1\n"));
        let long = self::plane(500).with(Trajectory::new("b", [(1.0, 0.5, 1.0)])).to_html().into_string();
        assert_eq!(long.matches("<circle").count(), STRETCHES_OF_SEVERAL + 1);
    }
}
