//! The loop of the scheduler's thread.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use evenkeel_model::Decoder;
use evenkeel_model::sampling::{LogprobsMode, Sampler};
use evenkeel_seeds::Stream;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::pause::Pause;
use super::queue::Queue;
use super::sequence::Sequence;
use super::{Command, Job, PauseMode, batch, reply, shared_prefix};
use crate::finish::FinishReason;
use crate::folder::Model;
use crate::metrics::Metrics;
use crate::settings::EngineSettings;

/// The state of the thread.
pub(super) struct SchedulerThread {
    model: Arc<Model>,
    decoder: Decoder,
    metrics: Arc<Metrics>,
    commands: mpsc::Receiver<Command>,
    queue: Queue,
    pause: Pause,
    stopped: bool,
    samplers: Vec<Sampler>,
    threads: usize,
    prefill_chunk_tokens: usize,
    logprobs_mode: LogprobsMode,
    /// Seed for sequences without one, and the number of those so far.
    seed: u64,
    unseeded: u64,
}

impl SchedulerThread {
    pub(super) fn new(
        settings: &EngineSettings,
        model: Arc<Model>,
        decoder: Decoder,
        metrics: Arc<Metrics>,
        commands: mpsc::Receiver<Command>,
        paused: Arc<AtomicBool>,
        threads: usize,
    ) -> Self {
        let shares = batch::max_shares(&model.config, threads);
        Self {
            model,
            decoder,
            queue: Queue::new(settings, Arc::clone(&metrics)),
            metrics,
            commands,
            pause: Pause::new(paused),
            stopped: false,
            samplers: (0..shares).map(|_| Sampler::default()).collect(),
            threads,
            prefill_chunk_tokens: settings.prefill_chunk_tokens,
            logprobs_mode: settings.logprobs_mode,
            seed: settings.seed,
            unseeded: 0,
        }
    }

    /// Runs until it is stopped or all handles are dropped.
    pub(super) fn run(mut self) {
        while !self.stopped {
            self.receive();
            self.queue.remove_cancelled();
            self.settle();
            if self.pause.admits() {
                self.queue.admit(&self.decoder, self.model.tokenizer.as_ref());
            }
            self.queue.measure();
            if self.pause.steps() && !self.queue.is_idle() {
                self.step();
            }
        }
        self.queue.end_all(&FinishReason::Abort);
    }

    /// Handles all commands that have arrived; waits for one if there is nothing else to do.
    fn receive(&mut self) {
        loop {
            let idle =
                if self.pause.admits() { self.queue.is_empty() } else { !self.pause.steps() || self.queue.is_idle() };
            let command = match self.commands.try_recv() {
                Ok(command) => Some(command),
                Err(TryRecvError::Empty) if idle => {
                    self.queue.measure();
                    let began = Instant::now();
                    let command = self.commands.blocking_recv();
                    self.metrics.idled(began.elapsed());
                    command
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => None,
            };
            let Some(command) = command else {
                self.stopped = true;
                return;
            };
            // Changes nothing itself, but the queue must be checked.
            let cancelled = matches!(command, Command::RemoveCancelled);
            self.handle(command);
            if cancelled || self.stopped {
                return;
            }
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Run(jobs) => jobs.into_iter().for_each(|job| self.enqueue(job)),
            Command::RemoveCancelled => {}
            Command::Abort(request_ids, done) => {
                let count = self.abort(request_ids.as_deref());
                reply(done, count);
            }
            Command::Pause { mode, clear_cache, done } => self.pause(mode, clear_cache, done),
            Command::Resume(done) => {
                self.pause.resume();
                reply(done, ());
            }
            Command::Recompute(done) => {
                self.queue.recompute(&self.decoder);
                reply(done, ());
            }
            Command::ReplaceWeights(decoder, done) => {
                let old = std::mem::replace(&mut self.decoder, *decoder);
                self.queue.running().iter_mut().for_each(Sequence::outdate);
                reply(done, Box::new(old));
            }
            Command::Stop => self.stopped = true,
        }
    }

    /// Queues the samples of a prompt.
    fn enqueue(&mut self, mut job: Job) {
        let mut permits = std::mem::take(&mut job.permits).into_iter();
        let job = Arc::new(job);
        for number in 0..job.count {
            let seed = match job.seed {
                Some(seed) => seed.wrapping_add(number as u64),
                None => {
                    let stream = Stream::UnseededSample { arrival: self.unseeded };
                    self.unseeded += 1;
                    evenkeel_seeds::seed(self.seed, stream)
                }
            };
            self.queue.push(Sequence::new(job.clone(), job.first + number, seed, permits.next()));
        }
    }

    fn abort(&mut self, request_ids: Option<&[String]>) -> usize {
        match request_ids {
            Some(ids) => {
                self.queue.end_where(&FinishReason::Abort, |sequence| ids.iter().any(|id| sequence.has_request_id(id)));
                ids.len()
            }
            None => self.queue.end_all(&FinishReason::Abort),
        }
    }

    fn pause(&mut self, mode: PauseMode, clear_cache: bool, done: oneshot::Sender<()>) {
        match mode {
            PauseMode::Abort => {
                self.pause.drain(done);
                self.queue.end_all(&FinishReason::Abort);
            }
            PauseMode::Wait => self.pause.drain(done),
            PauseMode::Keep => {
                self.pause.freeze();
                if clear_cache {
                    self.queue.recompute(&self.decoder);
                }
                reply(done, ());
            }
        }
        self.settle();
    }

    fn step(&mut self) {
        let began = Instant::now();
        let running = self.queue.running();
        shared_prefix::share(running, &self.decoder, &self.metrics);
        let tokens = batch::plan(running, self.prefill_chunk_tokens);
        batch::step(&self.decoder, self.logprobs_mode, running, &mut self.samplers, self.threads);
        self.metrics.stepped(tokens);
        let now = Instant::now();
        tracing::trace!(sequences = running.len(), tokens, micros = (now - began).as_micros() as u64, "step");
        for sequence in running {
            sequence.record_token(&self.metrics, now);
        }
        self.queue.deliver();
        self.settle();
    }

    fn settle(&mut self) {
        let idle = self.queue.is_idle();
        self.pause.settle(idle);
    }
}
