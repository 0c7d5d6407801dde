//! The messages of one training step. They are kept until its report is in, so that they can be sent again over another
//! connection.

use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_proto::v1::train_request::Kind;
use evenkeel_proto::v1::{TrainGroup, TrainRequest};
use futures_util::Stream;
use tokio::sync::watch;

/// Messages of one training step, in order. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct TrainFeed {
    messages: Arc<Mutex<Vec<TrainRequest>>>,
    fill: watch::Sender<Fill>,
}

#[derive(Debug, Clone, Copy)]
struct Fill {
    messages: usize,
    /// No more will follow.
    closed: bool,
}

impl TrainFeed {
    /// Starts with the header.
    pub(crate) fn new(header: impl Into<TrainRequest>) -> Self {
        let fill = Fill { messages: 1, closed: false };
        Self { messages: Arc::new(Mutex::new(vec![header.into()])), fill: watch::Sender::new(fill) }
    }

    pub(crate) fn push(&self, message: impl Into<TrainRequest>) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push(message.into());
        self.fill.send_modify(|fill| fill.messages = messages.len());
    }

    /// The step is complete. Without this the learner keeps nothing of it.
    pub(crate) fn close(&self) {
        self.fill.send_modify(|fill| fill.closed = true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.fill.borrow().closed
    }

    /// Waits until the step is complete.
    pub(super) async fn closed(&self) {
        // This value holds a sender, so the wait cannot fail.
        let _ = self.fill.subscribe().wait_for(|fill| fill.closed).await;
    }

    /// Text of the step so far, at most `most` pieces spread evenly over it: of each group the prompt with its first
    /// answer, and its other answers alone, so that no text is there twice.
    pub(crate) fn texts(&self, most: usize) -> Vec<Vec<u32>> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = messages.iter().filter_map(|message| match &message.kind {
            Some(Kind::Group(group)) => Some(group),
            _ => None,
        });
        let all: Vec<(&TrainGroup, usize)> =
            groups.flat_map(|group| (0..group.samples.len()).map(move |number| (group, number))).collect();
        let stride = all.len().div_ceil(most.max(1)).max(1);
        let text = |(group, number): &(&TrainGroup, usize)| {
            let answer = group.samples[*number].segments.iter().flat_map(|segment| &segment.token_ids);
            let prompt: &[u32] = if *number == 0 { &group.prompt_token_ids } else { &[] };
            prompt.iter().chain(answer).copied().collect::<Vec<u32>>()
        };
        all.iter().step_by(stride).map(text).filter(|text| !text.is_empty()).collect()
    }

    /// All messages from the first on, as they come.
    pub(super) fn stream(&self) -> impl Stream<Item = TrainRequest> + Send + use<> {
        let messages = Arc::clone(&self.messages);
        let fill = self.fill.subscribe();
        futures_util::stream::unfold((messages, fill, 0), |(messages, mut fill, next)| async move {
            let ready = fill.wait_for(|fill| fill.messages > next || fill.closed).await.ok()?.messages > next;
            if !ready {
                return None;
            }
            let message = messages.lock().unwrap_or_else(PoisonError::into_inner).get(next).cloned()?;
            Some((message, (messages, fill, next + 1)))
        })
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{Segment, TrainHeader, TrainSample};

    use super::*;

    #[test]
    fn text_of_a_step_has_each_prompt_and_each_answer_once() {
        let feed = TrainFeed::new(TrainHeader::default());
        let answer = |tokens: &[u32]| TrainSample {
            segments: vec![Segment { token_ids: tokens.to_vec(), ..Segment::default() }],
            ..TrainSample::default()
        };
        for number in 0..3 {
            let samples = vec![answer(&[10 + number]), answer(&[20 + number, 1]), answer(&[])];
            feed.push(TrainGroup { prompt_token_ids: vec![number], samples, ..TrainGroup::default() });
        }
        let all = [vec![0, 10], vec![20, 1], vec![1, 11], vec![21, 1], vec![2, 12], vec![22, 1]];
        assert_eq!(feed.texts(100), all);
        assert!(feed.texts(4).len() <= 4 && !feed.texts(4).is_empty());
    }
}
