//! What a reader of one run's page gets: sections, and for a run of this process its state, services, samples and log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use evenkeel_run_report::{RenderedPage, RunView, event};
use serde::Serialize;

use super::sse::{EventSource, Sent};
use crate::error::RunError;
use crate::live::{LiveRun, doing};
use crate::sample_stream::Reading;

/// How often services are asked what they do.
const SERVICES_PAUSE: Duration = Duration::from_secs(3);

/// One reader of one run.
pub(super) struct RunReader {
    view: Arc<RunView>,
    live: Option<Live>,
    sent: Sent,
}

/// Live data of a run of this process.
struct Live {
    run: LiveRun,
    _reading: Reading,
    sample: u64,
    line: u64,
    doing: String,
    services: Option<Instant>,
}

impl RunReader {
    pub(super) fn new(view: Arc<RunView>, live: Option<LiveRun>) -> Self {
        let live = live.map(|run| Live {
            _reading: run.samples().read(),
            run,
            sample: 0,
            line: 0,
            doing: String::new(),
            services: None,
        });
        Self { view, live, sent: Sent::default() }
    }
}

impl EventSource for RunReader {
    async fn next(&mut self) -> Option<Vec<Bytes>> {
        let mut news = match &mut self.live {
            Some(live) => live.news().await,
            None => Vec::new(),
        };
        match page_of(&self.view, self.live.as_ref().map(|live| &live.run)).await {
            Ok(rendered) => news.extend(self.sent.missing(&rendered)),
            // A directory that was removed has no page any more.
            Err(error) => {
                tracing::debug!(%error, "the page cannot be rendered");
                return None;
            }
        }
        Some(news)
    }
}

/// The page of a view, rendered on a thread that may block.
pub(super) async fn page_of(view: &Arc<RunView>, live: Option<&LiveRun>) -> Result<Arc<RenderedPage>, RunError> {
    let view = Arc::clone(view);
    let state = live.map(|run| run.progress().state);
    let rendered = tokio::task::spawn_blocking(move || view.page(state)).await;
    Ok(rendered.map_err(|error| RunError::Defect(error.to_string()))??)
}

impl Live {
    async fn news(&mut self) -> Vec<Bytes> {
        #[derive(Serialize)]
        struct StateNews<'a> {
            text: &'a str,
            ended: bool,
        }
        let mut news = Vec::new();
        let progress = self.run.progress();
        let doing = doing(&progress);
        if doing != self.doing {
            news.push(event("state", &StateNews { text: &doing, ended: progress.has_ended() }).into());
            self.doing = doing;
        }
        if self.services.is_none_or(|last| last.elapsed() >= SERVICES_PAUSE) {
            news.push(event("services", &self.run.services().await).into());
            self.services = Some(Instant::now());
        }
        let samples = self.run.samples().after(self.sample);
        if let Some(last) = samples.last() {
            self.sample = last.number;
            let samples: Vec<_> = samples.iter().map(|sample| &**sample).collect();
            news.push(event("samples", &samples).into());
        }
        let lines = self.run.log().after(self.line);
        if let Some(last) = lines.last() {
            self.line = last.number;
            news.push(event("log", &lines).into());
        }
        news
    }
}
