//! Other weights for every engine, and never a sample under the wrong ones.

mod folder;
mod roots;
mod sleep;
mod switch;
mod target;
mod update;

pub(crate) use roots::is_loopback;
pub(crate) use switch::{Switch, switch};
pub(crate) use target::{Target, parse};
pub(crate) use update::Updater;
