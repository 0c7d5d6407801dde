//! Lets counts and positions be larger than the guest's lengths.
//!
//! `text.split(" ", 10**10)` means all of it, and so it does on 64 bits. Where a function only asks how many at most, or where to put
//! something, a number beyond the largest length is as good as that: its call of the conversion that raises OverflowError becomes one of
//! the conversion that cuts. What needs the number itself (`len`, `enumerate`, `bisect`) keeps raising.

use wasmparser::Operator;

use super::graph::Graph;
use super::{LinkError, unexpected};

/// Raises where the number does not fit.
const RAISES: &str = "PyLong_AsSsize_t";
/// Takes the exception to raise as well, and cuts where there is none.
const CUTS: &str = "PyNumber_AsSsize_t";

/// Functions in which a number too large is as good as the largest.
const FUNCTIONS: [&str; 26] = [
    // How many at most.
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
    // `n` of the older functions: `itertools.repeat` is one of them.
    "convertitem",
    // Where to.
    "list_insert",
    "list_pop",
    "bytearray_insert",
    "bytearray_pop",
    "array_array_insert",
    "array_array_pop",
    "deque_insert",
    // Where from and where to, or how many at most.
    "_sre_SRE_Pattern_match",
    "_sre_SRE_Pattern_fullmatch",
    "_sre_SRE_Pattern_search",
    "_sre_SRE_Pattern_findall",
    "_sre_SRE_Pattern_sub",
    "_sre_SRE_Pattern_subn",
    "_sre_SRE_Pattern_split",
];

/// Which calls become others.
pub(super) struct Saturated {
    /// The interpreter's place among the modules.
    module: usize,
    /// The functions, among the module's bodies.
    bodies: Vec<usize>,
    raises: u32,
    cuts: u32,
}

impl Saturated {
    /// Finds the functions and their calls.
    pub(super) fn of(graph: &Graph<'_>) -> Result<Self, LinkError> {
        let module = graph.modules.iter().position(|module| module.names.contains_key(RAISES));
        let module = module.ok_or_else(|| unexpected(format!("no function is called `{RAISES}`")))?;
        let (raises, cuts) = (graph.defined(module, RAISES)?.index, graph.defined(module, CUTS)?.index);
        let mut bodies = Vec::new();
        for name in FUNCTIONS {
            let body = graph.defined(module, name)?.body;
            let mut reader = graph.modules[module].bodies[body].get_operators_reader()?;
            let mut calls = false;
            while !reader.eof() {
                calls |= matches!(reader.read()?, Operator::Call { function_index } if function_index == raises);
            }
            if !calls {
                return Err(unexpected(format!("`{name}` does not call `{RAISES}`")));
            }
            bodies.push(body);
        }
        Ok(Self { module, bodies, raises, cuts })
    }

    /// None, for modules that are not the interpreter's.
    #[cfg(test)]
    pub(super) fn nothing() -> Self {
        Self { module: usize::MAX, bodies: Vec::new(), raises: 0, cuts: 0 }
    }

    /// What stands in the place of an operator of a function: one or two.
    pub(super) fn apply<'a>(
        &self,
        (module, body): (usize, usize),
        operator: Operator<'a>,
    ) -> (Option<Operator<'a>>, Operator<'a>) {
        let calls = matches!(operator, Operator::Call { function_index } if function_index == self.raises);
        if calls && module == self.module && self.bodies.contains(&body) {
            (Some(Operator::I32Const { value: 0 }), Operator::Call { function_index: self.cuts })
        } else {
            (None, operator)
        }
    }
}
