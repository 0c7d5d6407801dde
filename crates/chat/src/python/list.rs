//! Lists in templates, which compare and print as Python's do.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};

use super::text;

/// A list of JSON, which prints as Python's wherever it is printed.
#[derive(Debug)]
pub(crate) struct List(pub(crate) Vec<Value>);

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::str_of(&Value::from_dyn_object(Arc::clone(self))).map_err(|_| fmt::Error)?)
    }
}
