//! Python where templates show it: how values print, and the methods, filters and tests that templates call.
//!
//! minijinja runs the templates. What it does in its own way (numbers and containers as text, JSON, white space, lookup
//! on dictionaries) is done here as Python 3 and Jinja do it.

mod call;
mod checks;
mod dict;
mod exception;
mod filters;
mod json;
mod limits;
mod list;
mod methods;
mod number;
mod stored;
mod strings;
mod text;

pub(crate) use checks::add_tests;
pub(crate) use dict::Dict;
pub(crate) use exception::{Exception, exception};
pub(crate) use filters::add_filters;
pub(crate) use limits::{FUEL, is_exhausted};
pub(crate) use list::List;
pub(crate) use methods::call_method;
pub(crate) use stored::{stored, stored_in_namespace};
pub(crate) use strings::{strip, strip_end};

pub(crate) use text::str_of;
