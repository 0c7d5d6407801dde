//! The thread's loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use evenkeel_model::Decoder;
use evenkeel_seeds::Stream;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::sequence::{Finish, Sequence};
use super::{Job, Order, batch};
use crate::folder::Model;
use crate::metrics::Metrics;
use crate::sampling::Sampler;
use crate::settings::EngineConfig;

/// Whether sequences run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// All.
    Running,
    /// Those that run already.
    Draining,
    /// None.
    Frozen,
}

pub(super) struct State {
    pub(super) settings: EngineConfig,
    pub(super) model: Arc<Model>,
    pub(super) decoder: Decoder,
    pub(super) metrics: Arc<Metrics>,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) paused: Arc<AtomicBool>,
    pub(super) pace: Pace,
    /// Who waits until a pause is complete.
    pub(super) pausing: Vec<oneshot::Sender<()>>,
    pub(super) running: Vec<Sequence>,
    pub(super) waiting: VecDeque<Sequence>,
    /// Tokens of the cache's budget that running sequences may need.
    pub(super) reserved: usize,
    pub(super) stop: bool,
    samplers: Vec<Sampler>,
    threads: usize,
    /// Sequences without a seed that came so far.
    unseeded: u64,
}

impl State {
    pub(super) fn new(
        settings: &EngineConfig,
        model: Arc<Model>,
        decoder: Decoder,
        metrics: Arc<Metrics>,
        orders: mpsc::Receiver<Order>,
        paused: Arc<AtomicBool>,
        threads: usize,
    ) -> Self {
        let shares = batch::most_shares(&model.config, threads);
        Self {
            settings: settings.clone(),
            model,
            decoder,
            metrics,
            orders,
            paused,
            pace: Pace::Running,
            pausing: Vec::new(),
            running: Vec::new(),
            waiting: VecDeque::new(),
            reserved: 0,
            stop: false,
            samplers: (0..shares).map(|_| Sampler::default()).collect(),
            threads,
            unseeded: 0,
        }
    }

    /// Until it is told to stop, or nobody is left who could.
    pub(super) fn run(mut self) {
        while !self.stop {
            self.receive();
            self.sweep();
            if self.pace == Pace::Running {
                self.admit();
            }
            self.measure();
            if self.pace != Pace::Frozen && !self.running.is_empty() {
                self.step();
            }
        }
        self.end_all(&Finish::Abort);
    }

    /// Takes all orders that are there; waits for one where there is nothing else to do.
    fn receive(&mut self) {
        loop {
            let idle = match self.pace {
                Pace::Running => self.running.is_empty() && self.waiting.is_empty(),
                Pace::Draining => self.running.is_empty(),
                Pace::Frozen => true,
            };
            let order = match self.orders.try_recv() {
                Ok(order) => Some(order),
                Err(TryRecvError::Empty) if idle => {
                    self.measure();
                    self.orders.blocking_recv()
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => None,
            };
            let Some(order) = order else {
                self.stop = true;
                return;
            };
            // The one order that changes nothing but wants a look at who has gone.
            let sweep = matches!(order, Order::Sweep);
            self.obey(order);
            if sweep || self.stop {
                return;
            }
        }
    }

    /// Puts a prompt's samples in the queue.
    pub(super) fn enqueue(&mut self, mut job: Job) {
        let mut permits = std::mem::take(&mut job.permits).into_iter();
        let job = Arc::new(job);
        for number in 0..job.count {
            let seed = match job.seed {
                Some(seed) => seed.wrapping_add(number as u64),
                None => {
                    let stream = Stream::UnseededSample { arrival: self.unseeded };
                    self.unseeded += 1;
                    evenkeel_seeds::seed(self.settings.seed, stream)
                }
            };
            let sequence = Sequence::new(job.clone(), job.first + number, seed, permits.next());
            self.waiting.push_back(sequence);
        }
    }

    /// Lets waiting sequences run while there is room, in the order in which they came.
    fn admit(&mut self) {
        while self.running.len() < self.settings.max_sequences {
            let Some(next) = self.waiting.front() else { return };
            // One alone always fits: no sequence is longer than the context, and the context fits.
            if self.reserved + next.reserved() > self.settings.kv_cache_tokens && !self.running.is_empty() {
                return;
            }
            let Some(mut sequence) = self.waiting.pop_front() else { return };
            match self.decoder.sequence() {
                Ok(cache) => {
                    sequence.begin(cache, self.model.tokenizer.as_ref());
                    self.reserved += sequence.reserved();
                    self.running.push(sequence);
                }
                Err(error) => {
                    sequence.finish = Some(Finish::Error(error.to_string()));
                    self.metrics.finished(&sequence.times, sequence.job.prompt.len(), 0, sequence.finish.as_ref());
                    tell(sequence);
                }
            }
        }
    }

    fn step(&mut self) {
        let began = Instant::now();
        let tokens = batch::plan(&mut self.running, self.settings.prefill_chunk_tokens);
        let mode = self.settings.logprobs_mode;
        batch::step(&self.decoder, mode, &mut self.running, &mut self.samplers, self.threads);
        self.metrics.stepped(tokens);
        let now = Instant::now();
        tracing::trace!(sequences = self.running.len(), tokens, micros = (now - began).as_micros() as u64, "step");
        // Books first, answers then: whoever has an answer finds its place free.
        let mut outputs = Vec::new();
        for sequence in &mut self.running {
            if sequence.drew {
                self.metrics.token(&mut sequence.times, sequence.job.prompt.len(), now);
            }
            if let Some(output) = sequence.output() {
                outputs.push((sequence.job.sink.clone(), output));
            }
        }
        self.release();
        for (sink, output) in outputs {
            // Whoever does not listen any more is swept next time.
            let _ = sink.send(output);
        }
        self.settle();
    }

    /// Lets go of running sequences that ended.
    pub(super) fn release(&mut self) {
        let before = self.running.len();
        let (metrics, reserved) = (&self.metrics, &mut self.reserved);
        self.running.retain(|sequence| {
            if sequence.finish.is_none() {
                return true;
            }
            *reserved -= sequence.reserved();
            let (prompt, generated) = (sequence.job.prompt.len(), sequence.generated());
            metrics.finished(&sequence.times, prompt, generated, sequence.finish.as_ref());
            false
        });
        if self.running.len() < before {
            self.measure();
        }
    }

    /// Frees what belongs to clients that have gone.
    fn sweep(&mut self) {
        for sequence in self.running.iter_mut().filter(|sequence| sequence.is_gone()) {
            sequence.finish = Some(Finish::Abort);
        }
        self.release();
        let metrics = &self.metrics;
        self.waiting.retain(|sequence| {
            if sequence.is_gone() {
                metrics.finished(&sequence.times, sequence.job.prompt.len(), 0, Some(&Finish::Abort));
            }
            !sequence.is_gone()
        });
        self.settle();
    }

    fn measure(&self) {
        self.metrics.state(self.running.len(), self.waiting.len(), self.reserved);
    }
}

/// The last word on a sequence.
pub(super) fn tell(mut sequence: Sequence) {
    if let Some(output) = sequence.output() {
        let sink = sequence.job.sink.clone();
        drop(sequence);
        // Nobody listens: nothing is lost.
        let _ = sink.send(output);
    }
}
