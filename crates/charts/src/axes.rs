//! From values to places on a drawing.

use std::fmt::Write;

use crate::html::escape;
use crate::scale::{Scale, number};

pub(crate) const WIDTH: f64 = 520.0;
pub(crate) const HEIGHT: f64 = 250.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 36.0;

/// The two axes of a drawing.
pub(crate) struct Axes {
    pub(crate) x: Scale,
    pub(crate) y: Scale,
}

impl Axes {
    pub(crate) fn x_of(&self, x: f64) -> f64 {
        LEFT + self.x.at(x) * (WIDTH - LEFT - RIGHT)
    }

    pub(crate) fn y_of(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.at(y) * (HEIGHT - TOP - BOTTOM)
    }

    /// Puts shapes into a frame that cuts off what lies beyond the axes.
    pub(crate) fn clipped(&self, svg: &mut String, shapes: &str) {
        let [width, height] = [WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];
        let place = format!("x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\"");
        let _ = write!(svg, "<svg {place} viewBox=\"{LEFT} {TOP} {width} {height}\">{shapes}</svg>");
    }

    /// Lines at the ticks of y, labels at those of both, and the names of the axes: that of y lies above it, where it
    /// can be read.
    pub(crate) fn grid(&self, svg: &mut String, x_label: &str, y_label: &str) {
        let right = WIDTH - RIGHT;
        let base = HEIGHT - BOTTOM;
        for tick in &self.y.ticks {
            let y = self.y_of(*tick);
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
        for tick in &self.x.ticks {
            let x = self.x_of(*tick);
            let _ =
                write!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", base + 15.0, number(*tick));
        }
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 3.0,
            escape(x_label)
        );
        if !y_label.is_empty() {
            let _ = write!(svg, "<text class=\"axis\" x=\"4\" y=\"{:.1}\">{}</text>", TOP - 13.0, escape(y_label));
        }
    }
}
