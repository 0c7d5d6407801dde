//! Charts as SVG and pages around them.
//!
//! A [`Page`] is one self-contained HTML file without scripts: [`Section`]s of text, [`HtmlTable`]s and [`Figure`]s.
//! Figures are a [`Chart`] (lines, bands, error bars over steps), a [`Plane`] (two quantities over each other, coloured
//! by step), [`Bars`] or a [`Histogram`]; each has its data as CSV within the page. A figure without data, or whose
//! values never change, is a sentence instead ([`figures`]).
//!
//! What comes from outside enters as text: [`Html`] is made of markup that this program spells out and of text that is
//! escaped.
#![forbid(unsafe_code)]

mod axes;
mod bars;
mod chart;
mod csv;
mod draw;
mod figure;
mod histogram;
mod html;
mod page;
mod palette;
mod plane;
mod scale;
mod series;
mod table;
mod thin;

pub use bars::{Bar, Bars};
pub use chart::Chart;
pub use csv::csv_cell;
pub use figure::{Figure, figures};
pub use histogram::Histogram;
pub use html::Html;
pub use page::{Live, Page, Section, style};
pub use palette::COLOURS;
pub use plane::{Plane, Trajectory};
pub use scale::{duration, number, percent, percentage, thousands};
pub use series::{Point, Series, Style};
pub use table::HtmlTable;
