//! Accepts counts and positions beyond the largest length.
//!
//! `text.split(" ", 10**10)` splits everything, as with 64 bits. If a function only needs an upper bound or a position,
//! a number beyond the largest length is equivalent to that length. In such functions the conversion that raises
//! OverflowError is replaced by the one that saturates. Functions that need the number itself (`len`, `enumerate`,
//! `bisect`) still raise.

use wasmparser::Operator;

use super::graph::Graph;
use super::{LinkError, unexpected};

/// Raises if the number does not fit.
const RAISING: &str = "PyLong_AsSsize_t";
/// Has the exception to raise as a second argument, and saturates without one.
const SATURATING: &str = "PyNumber_AsSsize_t";

/// Functions in which a number beyond the largest length is equivalent to it.
const FUNCTIONS: [&str; 26] = [
    // Upper bounds.
    "unicode_split",
    "unicode_rsplit",
    "unicode_replace",
    "bytes_split",
    "bytes_rsplit",
    "bytes_replace",
    "bytearray_split",
    "bytearray_rsplit",
    "bytearray_replace",
    "deque_init",
    "_io_TextIOWrapper_readline",
    // Format `n` of functions with old-style argument parsing, such as `itertools.repeat`.
    "convertitem",
    // Positions.
    "list_insert",
    "list_pop",
    "bytearray_insert",
    "bytearray_pop",
    "array_array_insert",
    "array_array_pop",
    "deque_insert",
    // Positions or upper bounds.
    "_sre_SRE_Pattern_match",
    "_sre_SRE_Pattern_fullmatch",
    "_sre_SRE_Pattern_search",
    "_sre_SRE_Pattern_findall",
    "_sre_SRE_Pattern_sub",
    "_sre_SRE_Pattern_subn",
    "_sre_SRE_Pattern_split",
];

/// The calls to redirect.
pub(super) struct Saturated {
    /// Index of the interpreter's module.
    module: usize,
    /// Indices of the functions among the module's bodies.
    bodies: Vec<usize>,
    raising: u32,
    saturating: u32,
}

impl Saturated {
    /// Finds the functions and their calls.
    pub(super) fn of(graph: &Graph<'_>) -> Result<Self, LinkError> {
        let module = graph.modules.iter().position(|module| module.names.contains_key(RAISING));
        let module = module.ok_or_else(|| unexpected(format!("no function is called `{RAISING}`")))?;
        let raising = graph.defined(module, RAISING)?.index;
        let saturating = graph.defined(module, SATURATING)?.index;
        let mut bodies = Vec::new();
        for name in FUNCTIONS {
            let body = graph.defined(module, name)?.body;
            let mut reader = graph.modules[module].bodies[body].get_operators_reader()?;
            let mut calls = false;
            while !reader.eof() {
                calls |= matches!(reader.read()?, Operator::Call { function_index } if function_index == raising);
            }
            if !calls {
                return Err(unexpected(format!("`{name}` does not call `{RAISING}`")));
            }
            bodies.push(body);
        }
        Ok(Self { module, bodies, raising, saturating })
    }

    /// No calls, for modules other than the interpreter.
    #[cfg(test)]
    pub(super) fn nothing() -> Self {
        Self { module: usize::MAX, bodies: Vec::new(), raising: 0, saturating: 0 }
    }

    /// Replaces an operator by one or two.
    pub(super) fn apply<'a>(
        &self,
        (module, body): (usize, usize),
        operator: Operator<'a>,
    ) -> (Option<Operator<'a>>, Operator<'a>) {
        let calls = matches!(operator, Operator::Call { function_index } if function_index == self.raising);
        if calls && module == self.module && self.bodies.contains(&body) {
            (Some(Operator::I32Const { value: 0 }), Operator::Call { function_index: self.saturating })
        } else {
            (None, operator)
        }
    }
}
