//! The task that owns the scheduler and feeds it commands and events one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backlog::QueuedItem;
use super::connection::{Event, WorkerConnection};
use super::scheduler::Scheduler;
use super::{DisconnectReason, DispatchOptions, Endpoints, WorkerStatus};
use crate::client::{Connector, ServerAddress};
use crate::items::DispatchItems;
use crate::series;

/// Capacity of the event channel.
const EVENTS: usize = 1024;
/// Commands handled before items are assigned.
const BATCH: usize = 256;

pub(super) enum Command<P: DispatchItems> {
    Submit(Box<QueuedItem<P>>),
    Cancel(u64),
    Status(oneshot::Sender<Vec<WorkerStatus>>),
}

pub(super) struct Actor<P: DispatchItems> {
    options: DispatchOptions,
    connector: Connector,
    scheduler: Scheduler<P>,
    connections: BTreeMap<ServerAddress, Handle>,
    next_worker: u64,
    connected: watch::Sender<usize>,
}

/// A connection as the actor holds it.
struct Handle {
    worker: u64,
    reset: Arc<Notify>,
    _stop: DropGuard,
}

impl<P: DispatchItems> Actor<P> {
    pub(super) fn new(options: DispatchOptions, connector: Connector, connected: watch::Sender<usize>) -> Self {
        series::begin(series::DISPATCH_SERIES, P::NAME);
        let scheduler = Scheduler::new(options.clone());
        Self { options, connector, scheduler, connections: BTreeMap::new(), next_worker: 0, connected }
    }

    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command<P>>, endpoints: Endpoints) {
        let mut addresses = endpoints.watch(self.options.resolve_interval);
        let (sender, mut events) = mpsc::channel(EVENTS);
        let found = addresses.borrow_and_update().clone();
        self.update_workers(&found, &sender);
        let mut open = true;
        let mut watching = true;
        let mut batch = Vec::with_capacity(BATCH);
        while open || !self.scheduler.is_empty() {
            let wake = self.scheduler.next_wake();
            tokio::select! {
                taken = commands.recv_many(&mut batch, BATCH), if open => {
                    open = taken > 0;
                    batch.drain(..).for_each(|command| self.handle_command(command));
                }
                Some(event) = events.recv() => {
                    self.handle_event(event);
                    // All events that have arrived, before items are assigned.
                    while let Ok(event) = events.try_recv() {
                        self.handle_event(event);
                    }
                }
                changed = addresses.changed(), if watching => {
                    watching = changed.is_ok();
                    let found = addresses.borrow_and_update().clone();
                    self.update_workers(&found, &sender);
                }
                () = sleep_until(wake) => {}
            }
            self.advance();
        }
    }

    /// Applies the consequences of what has happened: expired items, stuck workers, assignments.
    fn advance(&mut self) {
        let now = Instant::now();
        self.scheduler.expire(now);
        for worker in self.scheduler.stuck(now) {
            if let Some(connection) = self.connections.values().find(|connection| connection.worker == worker) {
                connection.reset.notify_one();
            }
            self.worker_lost(worker, &DisconnectReason::Unresponsive, now);
        }
        self.scheduler.assign(now);
        for worker in self.scheduler.take_departed() {
            self.connections.retain(|_, connection| connection.worker != worker);
        }
        self.publish_connected();
        metrics::gauge!("evenkeel_dispatch_queued_items", "items" => P::NAME).set(self.scheduler.queued() as f64);
    }

    /// Updates the count of connected workers before items fail: callers use it to distinguish an outage from a
    /// failure.
    fn worker_lost(&mut self, worker: u64, reason: &DisconnectReason, now: Instant) {
        self.scheduler.disconnect(worker);
        self.publish_connected();
        self.scheduler.disconnected_from(worker, reason, now);
    }

    fn publish_connected(&self) {
        let connected = self.scheduler.connected();
        self.connected.send_if_modified(|current| std::mem::replace(current, connected) != connected);
        metrics::gauge!("evenkeel_dispatch_workers", "items" => P::NAME).set(connected as f64);
    }

    fn handle_command(&mut self, command: Command<P>) {
        match command {
            Command::Submit(item) => self.scheduler.submit(*item),
            Command::Cancel(ticket) => self.scheduler.cancel(ticket, Instant::now()),
            Command::Status(reply) => drop(reply.send(self.scheduler.status())),
        }
    }

    fn handle_event(&mut self, event: Event<P>) {
        match event {
            Event::Connected { worker, requests } => {
                tracing::info!(items = P::NAME, worker = self.name(worker), "worker connected");
                self.scheduler.connected_to(worker, requests);
            }
            Event::Response { worker, response } => self.scheduler.response(worker, response, Instant::now()),
            Event::Disconnected { worker, reason } => {
                if self.scheduler.was_disconnected(worker, &reason) {
                    tracing::debug!(items = P::NAME, worker = self.name(worker), %reason, "worker still not connected");
                } else {
                    tracing::warn!(items = P::NAME, worker = self.name(worker), %reason, "worker not connected");
                }
                metrics::counter!("evenkeel_dispatch_links_lost_total", "items" => P::NAME).increment(1);
                self.worker_lost(worker, &reason, Instant::now());
            }
        }
    }

    /// Connects to exactly these workers. Others finish the items that they have.
    fn update_workers(&mut self, addresses: &BTreeSet<ServerAddress>, events: &mpsc::Sender<Event<P>>) {
        for (address, connection) in &self.connections {
            self.scheduler.set_leaving(connection.worker, !addresses.contains(address));
        }
        for address in addresses {
            if self.connections.contains_key(address) {
                continue;
            }
            let worker = self.next_worker;
            self.next_worker += 1;
            let reset = Arc::new(Notify::new());
            let stop = CancellationToken::new();
            self.scheduler.add_worker(worker, address.url.clone());
            let connection = WorkerConnection {
                worker,
                address: address.clone(),
                options: self.options.clone(),
                connector: self.connector.clone(),
                events: events.clone(),
                reset: Arc::clone(&reset),
                stop: stop.clone(),
            };
            tokio::spawn(connection.run());
            self.connections.insert(address.clone(), Handle { worker, reset, _stop: stop.drop_guard() });
        }
    }

    fn name(&self, worker: u64) -> &str {
        let connection = self.connections.iter().find(|(_, connection)| connection.worker == worker);
        connection.map_or("unknown", |(address, _)| address.url.as_str())
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
