//! What a reader of the list of runs gets.

use std::sync::Arc;

use axum::body::Bytes;
use evenkeel_run_report::{RenderedPage, RunsView};

use super::sse::{EventSource, Sent};
use crate::error::RunError;

/// One reader of the list.
pub(super) struct RunsReader {
    view: Arc<RunsView>,
    chosen: Vec<String>,
    sent: Sent,
}

impl RunsReader {
    pub(super) fn new(view: Arc<RunsView>, chosen: Vec<String>) -> Self {
        Self { view, chosen, sent: Sent::default() }
    }
}

impl EventSource for RunsReader {
    async fn next(&mut self) -> Option<Vec<Bytes>> {
        match page_of(&self.view, &self.chosen).await {
            Ok(rendered) => Some(self.sent.missing(&rendered)),
            Err(error) => {
                tracing::debug!(%error, "the list cannot be rendered");
                None
            }
        }
    }
}

/// The page of a view, rendered on a thread that may block.
pub(super) async fn page_of(view: &Arc<RunsView>, chosen: &[String]) -> Result<Arc<RenderedPage>, RunError> {
    let view = Arc::clone(view);
    let chosen = chosen.to_vec();
    let rendered = tokio::task::spawn_blocking(move || view.page(&chosen)).await;
    Ok(rendered.map_err(|error| RunError::Defect(error.to_string()))??)
}
