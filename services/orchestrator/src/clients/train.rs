//! One training step over a stream: the groups go out as they come, the report comes back, and a lost connection costs nothing.

use std::time::Duration;

use evenkeel_proto::v1::{TrainEvent, TrainReport, train_event};
use evenkeel_rpc::error::reason_of;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::{Feed, Services};
use crate::error::Halt;

impl Services {
    /// Does a training step. The feed may still be filled meanwhile. Where the connection is lost the same messages are sent again:
    /// a learner that had done the step answers with its stored report, so that it is never done twice.
    pub(crate) async fn train(&self, feed: &Feed, what: &str) -> Result<TrainReport, Halt> {
        let attempt = || async {
            loop {
                let mut filled = feed.watch();
                let was_whole = filled.borrow().1;
                let result = self.once(feed).await;
                match result {
                    // Samples took longer than the learner waits for a group. It gets the step again once it is whole.
                    Err(status) if !was_whole && reason_of(&status).as_deref() == Some("STEP_IDLE") => {
                        let _ = filled.wait_for(|(_, closed)| *closed).await;
                    }
                    result => return result,
                }
            }
        };
        self.retrier.call_without_deadline("learner", &self.endpoints.learner, what, attempt).await
    }

    async fn once(&self, feed: &Feed) -> Result<TrainReport, Status> {
        let mut client = self.learner.clone();
        let opening = client.train(feed.stream());
        let mut events = self.while_alive(feed, opening).await??.into_inner();
        self.follow(feed, &mut events).await
    }

    async fn follow(&self, feed: &Feed, events: &mut Streaming<TrainEvent>) -> Result<TrainReport, Status> {
        loop {
            match self.while_alive(feed, events.next()).await? {
                None => return Err(Status::unavailable("the training stream ended without a report")),
                Some(event) => match event?.kind {
                    Some(train_event::Kind::Report(report)) => return Ok(report),
                    Some(train_event::Kind::Progress(at)) => {
                        self.events.update(|progress| progress.groups_trained = at.accumulated);
                    }
                    Some(train_event::Kind::Accepted(_)) | None => {}
                },
            }
        }
    }

    /// The learner may be silent as long as it waits for groups; after the last one it must show signs of life.
    async fn while_alive<F: Future>(&self, feed: &Feed, future: F) -> Result<F::Output, Status> {
        let limit = Duration::from_millis(self.settings.call_deadline_ms);
        let mut filled = feed.watch();
        let silence = async move {
            let _ = filled.wait_for(|(_, closed)| *closed).await;
            tokio::time::sleep(limit).await;
        };
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = silence => {
                Err(Status::deadline_exceeded(format!("no sign of life from the training step within {} ms", limit.as_millis())))
            }
        }
    }
}
