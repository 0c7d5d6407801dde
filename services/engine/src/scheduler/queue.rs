//! Running and waiting sequences, within the limits of the settings.

use std::collections::VecDeque;
use std::sync::Arc;

use evenkeel_model::Decoder;

use super::sequence::Sequence;
use crate::finish::FinishReason;
use crate::metrics::Metrics;
use crate::settings::EngineSettings;
use crate::text::Tokenizer;

/// Running and waiting sequences, first come first served.
pub(super) struct Queue {
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    /// Maximum number of cache tokens that running sequences may need.
    reserved: usize,
    max_sequences: usize,
    kv_cache_tokens: usize,
    metrics: Arc<Metrics>,
}

impl Queue {
    pub(super) fn new(settings: &EngineSettings, metrics: Arc<Metrics>) -> Self {
        Self {
            running: Vec::new(),
            waiting: VecDeque::new(),
            reserved: 0,
            max_sequences: settings.max_sequences,
            kv_cache_tokens: settings.kv_cache_tokens,
            metrics,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether nothing runs or waits.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn running(&mut self) -> &mut [Sequence] {
        &mut self.running
    }

    pub(super) fn push(&mut self, sequence: Sequence) {
        self.waiting.push_back(sequence);
    }

    /// Admits waiting sequences in order of arrival while there is capacity.
    pub(super) fn admit(&mut self, decoder: &Decoder, tokenizer: Option<&Arc<Tokenizer>>) {
        while self.running.len() < self.max_sequences {
            let Some(next) = self.waiting.front() else { return };
            // A single one always fits: no sequence is longer than the context, and the context fits.
            if self.reserved + next.reserved() > self.kv_cache_tokens && !self.running.is_empty() {
                return;
            }
            let Some(mut sequence) = self.waiting.pop_front() else { return };
            match decoder.sequence() {
                Ok(cache) => {
                    sequence.begin(cache, tokenizer);
                    self.metrics.began(sequence.tokens());
                    self.reserved += sequence.reserved();
                    self.running.push(sequence);
                }
                Err(error) => {
                    sequence.end(FinishReason::Error(error.to_string()));
                    self.finish(sequence);
                }
            }
        }
    }

    /// Sends the outputs that are due after a step, and removes the sequences that ended.
    pub(super) fn deliver(&mut self) {
        // Removed first, so that a client that has its answer finds the capacity free.
        let outputs: Vec<_> =
            self.running.iter_mut().filter_map(|sequence| Some((sequence.output()?, sequence.sink()))).collect();
        self.remove_finished();
        for (output, sink) in outputs {
            // A client that has gone is noticed before the next step.
            let _ = sink.send(output);
        }
    }

    /// Drops the sequences of clients that have gone.
    pub(super) fn remove_cancelled(&mut self) {
        for sequence in self.running.iter_mut().filter(|sequence| sequence.is_cancelled()) {
            sequence.end(FinishReason::Abort);
        }
        self.remove_finished();
        let metrics = &self.metrics;
        self.waiting.retain(|sequence| {
            if sequence.is_cancelled() {
                sequence.record_end(metrics);
            }
            !sequence.is_cancelled()
        });
    }

    /// Makes running sequences recompute their keys and values, with the weights in use then.
    pub(super) fn recompute(&mut self, decoder: &Decoder) {
        for sequence in &mut self.running {
            match decoder.sequence() {
                Ok(cache) => {
                    sequence.restart(cache);
                    self.metrics.began(sequence.tokens());
                    self.metrics.preempted();
                }
                Err(error) => sequence.end(FinishReason::Error(error.to_string())),
            }
        }
        self.end_where(&FinishReason::Abort, Sequence::has_ended);
    }

    /// Ends all running and waiting sequences, and returns their number.
    pub(super) fn end_all(&mut self, finish: &FinishReason) -> usize {
        self.end_where(finish, |_| true)
    }

    /// Ends the chosen sequences that have not ended by themselves, and returns their number.
    pub(super) fn end_where(&mut self, finish: &FinishReason, which: impl Fn(&Sequence) -> bool) -> usize {
        let running = std::mem::take(&mut self.running);
        let (ended, kept): (Vec<_>, Vec<_>) = running.into_iter().partition(&which);
        self.running = kept;
        let waiting = std::mem::take(&mut self.waiting);
        let (unstarted, kept): (Vec<_>, Vec<_>) = waiting.into_iter().partition(&which);
        self.waiting = kept.into();
        let count = ended.len() + unstarted.len();
        self.reserved -= ended.iter().map(Sequence::reserved).sum::<usize>();
        for mut sequence in ended.into_iter().chain(unstarted) {
            sequence.end(finish.clone());
            self.finish(sequence);
        }
        count
    }

    pub(super) fn measure(&self) {
        self.metrics.state(self.running.len(), self.waiting.len(), self.reserved);
    }

    fn remove_finished(&mut self) {
        let before = self.running.len();
        let metrics = &self.metrics;
        let reserved = &mut self.reserved;
        self.running.retain(|sequence| {
            if sequence.has_ended() {
                *reserved -= sequence.reserved();
                sequence.record_end(metrics);
            }
            !sequence.has_ended()
        });
        if self.running.len() < before {
            self.measure();
        }
    }

    /// Counts a sequence that was removed and sends its last output.
    fn finish(&self, mut sequence: Sequence) {
        sequence.record_end(&self.metrics);
        if let Some(output) = sequence.output() {
            let sink = sequence.sink();
            // Frees its capacity before the client has the answer.
            drop(sequence);
            // If the client has gone, nothing is lost.
            let _ = sink.send(output);
        }
    }
}
