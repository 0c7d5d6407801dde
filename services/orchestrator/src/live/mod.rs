//! What a run shows of itself while somebody watches: its newest samples, its log, its services. Everything is bounded,
//! and costs next to nothing while nobody watches.

mod log;
mod services;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use crate::clients::Services;
use crate::events::{Events, RunProgress};
use crate::sample_stream::SampleStream;

use log::LogTail;
use services::ServiceState;
pub(crate) use services::doing;

/// A run of this process, for those who watch it. It keeps nothing of the run alive; clones watch the same run.
#[derive(Debug, Clone)]
pub struct LiveRun {
    run_id: String,
    directory: PathBuf,
    events: Events,
    services: Weak<Services>,
    log: LogTail,
}

impl LiveRun {
    /// Follows a run from now on. Must be called within a runtime.
    pub(crate) fn follow(run_id: &str, directory: &Path, events: &Events, services: Weak<Services>) -> Self {
        let log = LogTail::default();
        let mut subscription = events.subscribe();
        let lines = log.clone();
        tokio::spawn(async move {
            while let Some(event) = subscription.recv().await {
                lines.add(&event);
            }
        });
        Self { run_id: run_id.to_owned(), directory: directory.to_owned(), events: events.clone(), services, log }
    }

    /// Name of the run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Directory of the run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn progress(&self) -> RunProgress {
        self.events.progress().borrow().clone()
    }

    pub(crate) fn samples(&self) -> &SampleStream {
        self.events.samples()
    }

    pub(crate) fn log(&self) -> &LogTail {
        &self.log
    }

    /// The services as the run sees them; none once it has ended.
    pub(crate) async fn services(&self) -> Vec<ServiceState> {
        let progress = self.progress();
        let services: Option<Arc<Services>> = self.services.upgrade();
        match services {
            Some(services) if !progress.has_ended() => services::service_states(&services, &progress).await,
            _ => Vec::new(),
        }
    }
}
