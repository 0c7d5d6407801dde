//! Other weights for every engine, and never a sample under the wrong ones.

mod folder;
mod sleep;
mod switch;
mod target;
mod tensors;
mod update;

pub(crate) use switch::{Switch, switch};
pub(crate) use target::{Target, parse};
pub(crate) use tensors::{Shapes, read_shapes};
pub(crate) use update::Updater;
