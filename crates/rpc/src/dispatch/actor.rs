//! The task that owns the board: everything that happens goes through it, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::board::{Board, Submission};
use super::link::{Event, Link};
use super::{DispatchOptions, Endpoints, WorkerStatus};
use crate::client::{Connector, Target};
use crate::items::Items;

/// Events that wait for the board.
const EVENTS: usize = 1024;
/// Commands taken at once, before items are given out.
const BATCH: usize = 256;

/// What callers ask for.
pub(super) enum Command<P: Items> {
    Submit(Box<Submission<P>>),
    Withdraw(u64),
    Status(oneshot::Sender<Vec<WorkerStatus>>),
}

/// The dispatcher's task.
pub(super) struct Actor<P: Items> {
    options: DispatchOptions,
    connector: Connector,
    board: Board<P>,
    links: BTreeMap<Target, Handle>,
    next_worker: u64,
    connected: watch::Sender<usize>,
}

/// What the actor holds of a link.
struct Handle {
    worker: u64,
    reset: Arc<Notify>,
    _stop: DropGuard,
}

impl<P: Items> Actor<P> {
    pub(super) fn new(options: DispatchOptions, connector: Connector, connected: watch::Sender<usize>) -> Self {
        let board = Board::new(options.clone());
        Self { options, connector, board, links: BTreeMap::new(), next_worker: 0, connected }
    }

    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command<P>>, endpoints: Endpoints) {
        let mut targets = endpoints.watch(self.options.resolve_interval);
        let (sender, mut events) = mpsc::channel(EVENTS);
        let found = targets.borrow_and_update().clone();
        self.follow(&found, &sender);
        let (mut open, mut watching) = (true, true);
        let mut batch = Vec::with_capacity(BATCH);
        while open || !self.board.is_empty() {
            let wake = self.board.next_wake();
            tokio::select! {
                taken = commands.recv_many(&mut batch, BATCH), if open => {
                    open = taken > 0;
                    batch.drain(..).for_each(|command| self.obey(command));
                }
                Some(event) = events.recv() => {
                    self.note(event);
                    // Whatever else is there already, before items are given out by it.
                    while let Ok(event) = events.try_recv() {
                        self.note(event);
                    }
                }
                changed = targets.changed(), if watching => {
                    watching = changed.is_ok();
                    let found = targets.borrow_and_update().clone();
                    self.follow(&found, &sender);
                }
                () = sleep_until(wake) => {}
            }
            self.settle();
        }
    }

    /// What follows from whatever has happened.
    fn settle(&mut self) {
        let now = Instant::now();
        self.board.expire(now);
        for worker in self.board.stuck(now) {
            if let Some(link) = self.links.values().find(|link| link.worker == worker) {
                link.reset.notify_one();
            }
            self.lose(worker, "it left cancelled items unanswered", now);
        }
        self.board.assign(now);
        for worker in self.board.take_departed() {
            self.links.retain(|_, link| link.worker != worker);
        }
        self.publish_connected();
        metrics::gauge!("evenkeel_dispatch_queued_items", "items" => P::NAME).set(self.board.queued() as f64);
    }

    /// Takes a worker whose stream is gone out of the count first: callers whose items are lost look at it to tell an outage from a
    /// failure.
    fn lose(&mut self, worker: u64, reason: &str, now: Instant) {
        self.board.disconnect(worker);
        self.publish_connected();
        self.board.link_down(worker, reason, now);
    }

    fn publish_connected(&self) {
        let connected = self.board.connected();
        self.connected.send_if_modified(|current| std::mem::replace(current, connected) != connected);
        metrics::gauge!("evenkeel_dispatch_workers", "items" => P::NAME).set(connected as f64);
    }

    fn obey(&mut self, command: Command<P>) {
        match command {
            Command::Submit(submission) => self.board.submit(*submission),
            Command::Withdraw(ticket) => self.board.withdraw(ticket, Instant::now()),
            Command::Status(reply) => drop(reply.send(self.board.status())),
        }
    }

    fn note(&mut self, event: Event<P>) {
        match event {
            Event::Up { worker, link } => {
                tracing::info!(items = P::NAME, worker = self.name(worker), "worker connected");
                self.board.link_up(worker, link);
            }
            Event::Answer { worker, answer } => self.board.answer(worker, answer, Instant::now()),
            Event::Down { worker, reason } => {
                if self.board.knows_down(worker, &reason) {
                    tracing::debug!(items = P::NAME, worker = self.name(worker), reason, "worker still not connected");
                } else {
                    tracing::warn!(items = P::NAME, worker = self.name(worker), reason, "worker not connected");
                }
                metrics::counter!("evenkeel_dispatch_links_lost_total", "items" => P::NAME).increment(1);
                self.lose(worker, &reason, Instant::now());
            }
        }
    }

    /// Links to exactly these workers; those that are gone finish what they have.
    fn follow(&mut self, targets: &BTreeSet<Target>, events: &mpsc::Sender<Event<P>>) {
        for (target, link) in &self.links {
            self.board.set_leaving(link.worker, !targets.contains(target));
        }
        for target in targets {
            if self.links.contains_key(target) {
                continue;
            }
            let worker = self.next_worker;
            self.next_worker += 1;
            let (reset, stop) = (Arc::new(Notify::new()), CancellationToken::new());
            self.board.add_worker(worker, target.url.clone());
            let link = Link {
                worker,
                target: target.clone(),
                options: self.options.clone(),
                connector: self.connector.clone(),
                events: events.clone(),
                reset: Arc::clone(&reset),
                stop: stop.clone(),
            };
            tokio::spawn(link.run());
            self.links.insert(target.clone(), Handle { worker, reset, _stop: stop.drop_guard() });
        }
    }

    fn name(&self, worker: u64) -> &str {
        let link = self.links.iter().find(|(_, link)| link.worker == worker);
        link.map_or("unknown", |(target, _)| target.url.as_str())
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
