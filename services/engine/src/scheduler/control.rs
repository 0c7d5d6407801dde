//! Orders other than work: pauses, new weights, ends.

use std::sync::atomic::Ordering;

use super::run::{Pace, State, tell};
use super::sequence::{Finish, Sequence};
use super::{Order, PauseMode};

impl State {
    pub(super) fn obey(&mut self, order: Order) {
        match order {
            Order::Run(jobs) => jobs.into_iter().for_each(|job| self.enqueue(job)),
            Order::Sweep => {}
            Order::Abort(names, done) => {
                let count = self.abort(names.as_deref());
                answer(done, count);
            }
            Order::Pause { mode, clear_cache, done } => self.pause(mode, clear_cache, done),
            Order::Resume(done) => {
                self.pace = Pace::Running;
                self.paused.store(false, Ordering::Release);
                // A pause that never came about is over as well.
                self.pausing.drain(..).for_each(|done| answer(done, ()));
                answer(done, ());
            }
            Order::Recompute(done) => {
                self.recompute();
                answer(done, ());
            }
            Order::Swap(decoder, done) => {
                let old = std::mem::replace(&mut self.decoder, *decoder);
                answer(done, Box::new(old));
            }
            Order::Stop => self.stop = true,
        }
    }

    fn pause(&mut self, mode: PauseMode, clear_cache: bool, done: tokio::sync::oneshot::Sender<()>) {
        self.paused.store(true, Ordering::Release);
        match mode {
            PauseMode::Abort => {
                self.end_all(&Finish::Abort);
                self.pace = Pace::Draining;
            }
            PauseMode::Wait => self.pace = Pace::Draining,
            PauseMode::Keep => {
                self.pace = Pace::Frozen;
                if clear_cache {
                    self.recompute();
                }
                return answer(done, ());
            }
        }
        self.pausing.push(done);
        self.settle();
    }

    /// Answers those who wait for a pause, once nothing runs.
    pub(super) fn settle(&mut self) {
        if self.pace == Pace::Draining && self.running.is_empty() {
            self.pausing.drain(..).for_each(|done| answer(done, ()));
        }
    }

    /// Running sequences forget their keys and values and compute them again, under the weights of that time.
    fn recompute(&mut self) {
        for sequence in &mut self.running {
            match self.decoder.sequence() {
                Ok(cache) => {
                    sequence.cache = Some(cache);
                    self.metrics.preempted();
                }
                Err(error) => sequence.finish = Some(Finish::Error(error.to_string())),
            }
        }
        self.end_where(&Finish::Abort, |sequence| sequence.finish.is_some());
    }

    fn abort(&mut self, names: Option<&[String]>) -> usize {
        match names {
            Some(names) => {
                self.end_where(&Finish::Abort, |sequence| names.iter().any(|name| **name == *sequence.job.name));
                names.len()
            }
            None => self.end_all(&Finish::Abort),
        }
    }

    /// Ends everything that runs or waits; how many sequences that were.
    pub(super) fn end_all(&mut self, finish: &Finish) -> usize {
        self.end_where(finish, |_| true)
    }

    fn end_where(&mut self, finish: &Finish, which: impl Fn(&Sequence) -> bool) -> usize {
        let running = std::mem::take(&mut self.running);
        let (ended, kept): (Vec<_>, Vec<_>) = running.into_iter().partition(&which);
        self.running = kept;
        let waiting = std::mem::take(&mut self.waiting);
        let (unborn, kept): (Vec<_>, Vec<_>) = waiting.into_iter().partition(&which);
        self.waiting = kept.into();
        let count = ended.len() + unborn.len();
        for sequence in &ended {
            self.reserved -= sequence.reserved();
        }
        for mut sequence in ended.into_iter().chain(unborn) {
            sequence.finish.get_or_insert_with(|| finish.clone());
            let generated = sequence.generated();
            self.metrics.finished(&sequence.times, sequence.job.prompt.len(), generated, sequence.finish.as_ref());
            tell(sequence);
        }
        count
    }
}

/// Whoever asked may have gone meanwhile.
fn answer<T>(done: tokio::sync::oneshot::Sender<T>, value: T) {
    let _ = done.send(value);
}
