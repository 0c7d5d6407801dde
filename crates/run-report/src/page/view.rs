//! The sections of one run, rendered once for all readers and no more often than they are worth.

use std::collections::hash_map::DefaultHasher;
use std::fs::Metadata;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use evenkeel_charts::{Html, Page, Section};
use evenkeel_proto::v1::{RunState, StepKind};
use evenkeel_run::{
    CONFIG_FILE, Curves, EVALUATION_FILE, METRICS_FILE, MetricsLine, RunFilesError, SUMMARY_FILE, WARM_START_FILE,
    WrittenLines, read_data,
};

use super::event::section_event;
use super::tail::Tail;
use crate::report::{GalleryCache, RunData, TrainingCache, page};
use crate::stored::stored_summary;

/// The pause after rendering the sections, as a multiple of the time that it took: it may cost 1 % of the time.
const PAUSE_FACTOR: u32 = 100;
/// The shortest time between two of them.
const PAUSE: Duration = Duration::from_secs(1);

/// A section as it goes to a browser.
#[derive(Debug, Clone)]
pub struct RenderedSection {
    /// Names it within the page.
    pub id: &'static str,
    /// Changes with its content.
    pub digest: u64,
    /// The whole event, shared by all readers.
    pub event: Arc<str>,
}

/// The sections of a page at one time.
#[derive(Debug, Default)]
pub struct RenderedPage {
    pub page: Page,
    /// The sections of the page.
    pub sections: Vec<RenderedSection>,
}

impl RenderedPage {
    pub fn of(page: Page) -> Self {
        let rendered = |section: &Section| {
            let inner = section.inner();
            let mut hasher = DefaultHasher::new();
            inner.as_str().hash(&mut hasher);
            let event = section_event(section.id, inner.as_str()).into();
            RenderedSection { id: section.id, digest: hasher.finish(), event }
        };
        let sections = page.sections.iter().map(rendered).collect();
        Self { page, sections }
    }
}

/// When something may be rendered again, so that rendering costs no more than its share of the time.
#[derive(Debug, Default)]
pub(super) struct RateLimit(Option<Instant>);

impl RateLimit {
    pub(super) fn is_due(&self) -> bool {
        self.0.is_none_or(|next| Instant::now() >= next)
    }

    pub(super) fn took(&mut self, took: Duration) {
        self.0 = Some(Instant::now() + PAUSE.max(took * PAUSE_FACTOR));
    }
}

/// The page of the run in a directory.
#[derive(Debug)]
pub struct RunView {
    directory: PathBuf,
    gallery: GalleryCache,
    training: TrainingCache,
    read: Mutex<Read>,
}

/// What was read of the directory.
#[derive(Debug)]
struct Read {
    steps: (Tail, Curves),
    warm_start: (Tail, Curves),
    evaluations: (Tail, Vec<MetricsLine>),
    rate_limit: RateLimit,
    stamp: Option<Stamp>,
    rendered: Arc<RenderedPage>,
}

/// What tells whether a directory has changed: length and time of each file, and the state of the run.
type Stamp = (Vec<Option<(u64, Option<SystemTime>)>>, Option<RunState>);

impl RunView {
    /// The page of a directory, which nothing is read of yet.
    pub fn new(directory: PathBuf) -> Self {
        let tail = |name, kind| Tail::new(directory.join(name), kind);
        let read = Read {
            steps: (tail(METRICS_FILE, StepKind::Train), Curves::default()),
            warm_start: (tail(WARM_START_FILE, StepKind::WarmStart), Curves::default()),
            evaluations: (tail(EVALUATION_FILE, StepKind::Evaluation), Vec::new()),
            rate_limit: RateLimit::default(),
            stamp: None,
            rendered: Arc::default(),
        };
        let (gallery, training) = Default::default();
        Self { directory, gallery, training, read: Mutex::new(read) }
    }

    /// The page as it is, or as it was a moment ago. Blocks. `state` is that of a run of this process.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn page(&self, state: Option<RunState>) -> Result<Arc<RenderedPage>, RunFilesError> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = (stamp(&self.directory), state);
        if !read.rate_limit.is_due() || read.stamp.as_ref() == Some(&stamp) {
            return Ok(Arc::clone(&read.rendered));
        }
        let began = Instant::now();
        let rendered = self.render(&mut read, state)?;
        (read.rendered, read.stamp) = (Arc::new(rendered), Some(stamp));
        read.rate_limit.took(began.elapsed());
        Ok(Arc::clone(&read.rendered))
    }

    fn render(&self, read: &mut Read, state: Option<RunState>) -> Result<RenderedPage, RunFilesError> {
        let file = |name: &str| RunFilesError::file(self.directory.join(name));
        read.steps.0.read(&mut read.steps.1).map_err(file(METRICS_FILE))?;
        read.warm_start.0.read(&mut read.warm_start.1).map_err(file(WARM_START_FILE))?;
        read.evaluations.0.read(&mut read.evaluations.1).map_err(file(EVALUATION_FILE))?;
        let steps = &read.steps.1;
        let warm_start = &read.warm_start.1;
        let evaluations = &read.evaluations.1;
        let config = std::fs::read_to_string(self.directory.join(CONFIG_FILE)).unwrap_or_default();
        let written = WrittenLines { steps, warm_start, evaluations };
        let summary = &stored_summary(&self.directory, &config, state, &written)?;
        let gallery = self.gallery.get(&self.directory, evaluations);
        let data = read_data(&self.directory);
        let data = data.as_ref();
        let training = &self.training.get(&self.directory);
        let earlier = None;
        let config = config.as_str();
        let gallery = &gallery;
        let data = RunData { summary, config, steps, warm_start, evaluations, data, gallery, training, earlier };
        Ok(RenderedPage::of(with_placeholders(page(&data))))
    }
}

/// The page with placeholders for what only a run of this process has.
fn with_placeholders(mut page: Page) -> Page {
    let placeholder = |id| Section::new(id, "", Html::new());
    let link = Html::element("a", &[("href", "/")], "all runs of this folder");
    page.kicker = Html::text("Evenkeel · training run · ").with(link);
    page.sections.insert(0, placeholder("live"));
    page.sections.insert(2, placeholder("services"));
    // Where a reader finds them without the charts in between.
    let answers = page.sections.iter().position(|section| section.id == "samples").unwrap_or(page.sections.len());
    page.sections.insert(answers, placeholder("log"));
    page.sections.insert(answers, placeholder("stream"));
    page
}

fn stamp(directory: &Path) -> Vec<Option<(u64, Option<SystemTime>)>> {
    let stamp = |data: Metadata| (data.len(), data.modified().ok());
    [METRICS_FILE, WARM_START_FILE, EVALUATION_FILE, SUMMARY_FILE, CONFIG_FILE]
        .iter()
        .map(|name| std::fs::metadata(directory.join(name)).ok().map(stamp))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_made_seldom() {
        let mut rate_limit = RateLimit::default();
        assert!(rate_limit.is_due());
        rate_limit.took(Duration::from_millis(50));
        let wait = rate_limit.0.unwrap().saturating_duration_since(Instant::now());
        assert!(
            !rate_limit.is_due() && wait > Duration::from_millis(4_900) && wait <= Duration::from_secs(5),
            "{wait:?}"
        );
    }
}
