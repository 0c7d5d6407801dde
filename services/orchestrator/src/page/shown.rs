//! The runs that a page shows: those of a folder, and of these the ones of this process.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use evenkeel_run::RunManifest;
use evenkeel_run_report::{RunView, RunsView};

use crate::live::LiveRun;

/// Pages of runs that are kept in memory; those of further runs are made anew.
const MAX_VIEWS: usize = 8;

/// The runs that a page shows.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) list: Arc<RunsView>,
    live: RwLock<Vec<LiveRun>>,
    /// When a terminal last asked for the lines of a run.
    followed: Mutex<Option<Instant>>,
    views: Mutex<HashMap<PathBuf, Arc<RunView>>>,
}

impl Runs {
    pub(super) fn new(folder: &Path) -> Self {
        let list = Arc::new(RunsView::new(folder.to_owned()));
        Self { list, live: RwLock::default(), followed: Mutex::default(), views: Mutex::default() }
    }

    /// Notes that a terminal asks for the lines of a run.
    pub(super) fn note_follower(&self) {
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether one did not long ago.
    pub(super) fn is_followed(&self, within: Duration) -> bool {
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.is_some_and(|at| at.elapsed() < within)
    }

    /// Adds a run of this process; one that was resumed takes the place of its former self.
    pub(super) fn attach(&self, run: LiveRun) {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.retain(|other| other.directory() != run.directory());
        live.push(run);
    }

    /// The run of this process in that directory of the folder.
    pub(super) fn live(&self, name: &str) -> Option<LiveRun> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.iter().find(|run| run.directory().file_name().is_some_and(|file| file.to_string_lossy() == name)).cloned()
    }

    /// The directory of that name, where it holds a run.
    pub(super) fn directory(&self, name: &str) -> Option<PathBuf> {
        if let Some(run) = self.live(name) {
            return Some(run.directory().to_owned());
        }
        // One name within the folder, and nothing that leads out of it.
        let mut parts = Path::new(name).components();
        let (Some(Component::Normal(part)), None) = (parts.next(), parts.next()) else { return None };
        let directory = self.list.folder().join(part);
        matches!(RunManifest::read(&directory), Ok(Some(_))).then_some(directory)
    }

    /// The page of a run.
    pub(super) fn view(&self, directory: PathBuf) -> Arc<RunView> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if !views.contains_key(&directory) && views.len() >= MAX_VIEWS {
            // Readers keep the view that they have.
            views.clear();
        }
        let view = views.entry(directory.clone()).or_insert_with(|| Arc::new(RunView::new(directory)));
        Arc::clone(view)
    }
}
