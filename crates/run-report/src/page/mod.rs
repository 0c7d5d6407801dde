//! What the live page shows of runs, rendered for all readers together and for never more than one part in a hundred of
//! the time.

mod event;
mod runs;
mod tail;
mod view;

pub use event::event;
pub use runs::{RunsView, encoded};
pub use view::{RenderedPage, RenderedSection, RunView};
