//! What is read of a run directory, by the service that runs it and by everybody else alike.
//!
//! - [`render_report`], [`run_page`]: the report of a run; [`RunView`], [`RunsView`]: the same while the run is going,
//!   and a list of runs.
//! - [`EventFiles`]: the lines for TensorBoard; [`MetricsTable`]: the lines as CSV and JSON.
//! - [`audit()`]: whether every prompt was trained on exactly once.
//! - [`overviews()`], [`stored_summary`], [`run_update()`]: where runs are, from their files.
//!
//! The files themselves are `evenkeel-run`'. There is no runtime and no service here.
#![forbid(unsafe_code)]

mod audit;
mod overviews;
mod page;
mod quantity;
mod report;
mod run_update;
mod stored;
mod table;
mod tensorboard;

pub use audit::{Audit, LagLengths, Lengths, OvertakenLengths, audit};
pub use overviews::{RunOverview, SkippedDirectory, overviews};
pub use page::{RenderedPage, RenderedSection, RunView, RunsView, encoded, event};
pub use quantity::in_words;
pub use report::{
    EarlierRun, Gallery, GalleryCache, RunData, TrainingCache, TrainingSamples, page as run_page,
    render as render_report,
};
pub use run_update::{LineCursor, RunUpdate, Whereabouts, run_update};
pub use stored::{stored_state, stored_summary};
pub use table::MetricsTable;
pub use tensorboard::EventFiles;
