//! Dictionaries: keys in order, and Python's two ways to look something up.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::{Enumerator, Object, ObjectExt, ObjectRepr, Value};
use minijinja::{Error, State};

use super::methods;
use super::text;

/// An object of JSON. `object.name` finds a method of Python's `dict` before a key of that name, as Jinja does: a
/// schema's `items` is `schema['items']`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dict(pub(crate) IndexMap<String, Value>);

impl Dict {
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The dictionary that a value is.
    pub(crate) fn of(value: &Value) -> Option<Arc<Self>> {
        value.downcast_object()
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_str()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if methods::DICT.contains(&key) {
            return Some(Value::from_object(Method { dict: Arc::clone(self), name: key.to_owned() }));
        }
        self.0.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_enumerator(|dict| Box::new(dict.0.keys().map(|key| Value::from(key.as_str()))))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::str_of(&Value::from_dyn_object(Arc::clone(self))).map_err(|_| fmt::Error)?)
    }
}

/// A method that is looked up and not called at once.
#[derive(Debug)]
struct Method {
    dict: Arc<Dict>,
    name: String,
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        methods::dict(&Value::from_dyn_object(Arc::clone(&self.dict)), &self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.name)
    }
}
