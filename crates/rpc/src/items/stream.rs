//! One item stream of one client.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_proto::FieldError;
use evenkeel_proto::shown::one_line;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use tracing::Instrument;

use super::capacity::Capacity;
use super::context::{AbortOnDrop, StopSignal};
use super::responses::{READ_TIMEOUT, ResponseSender, ResponseStream};
use super::{Incoming, ItemContext, Items, StopReason, validate_id};
use crate::deadline::Deadline;
use crate::error::ServiceError;
use crate::labels::ItemResult;
use crate::peer::ClientId;
use evenkeel_telemetry::TraceContext;

/// Longest id that is logged, in characters.
const MAX_ID_CHARS: usize = 200;

/// The server's side of one stream.
pub(super) struct ItemStream<P: Items, S, H> {
    server: Capacity<P>,
    requests: S,
    call: Deadline,
    handler: Arc<H>,
    client: ClientId,
    responses: ResponseSender<P::Response>,
    tasks: JoinSet<()>,
    unanswered: HashMap<String, StopSignal>,
    ids: HashMap<Id, String>,
    started: Instant,
}

impl<P, S, H, F> ItemStream<P, S, H>
where
    P: Items,
    S: Stream<Item = Result<P::Request, Status>> + Send + Unpin + 'static,
    H: Fn(P::Item, ItemContext) -> F + Send + Sync + 'static,
    F: Future<Output = P::Response> + Send + 'static,
{
    pub(super) fn start(
        server: Capacity<P>,
        requests: S,
        call: Deadline,
        handler: Arc<H>,
    ) -> ResponseStream<P::Response> {
        let client = ClientId::current();
        let (responses, stream) = ResponseSender::channel(server.bytes.empty(client));
        let tasks = JoinSet::new();
        let unanswered = HashMap::new();
        let ids = HashMap::new();
        let started = Instant::now();
        let items = Self {
            server,
            requests,
            call,
            handler,
            client,
            responses: responses.clone(),
            tasks,
            unanswered,
            ids,
            started,
        };
        tokio::spawn(async move {
            // Whichever branch completes, dropping the others frees what the stream held.
            let _end = EndOnDrop(responses.clone());
            let served = async {
                items.run().await;
                responses.end();
                responses.all_read().await;
            };
            tokio::select! {
                // The client went away.
                () = responses.closed() => {}
                () = responses.stalled() => {
                    count::<P>(ItemResult::Unread);
                    responses.abort(ServiceError::ResponsesUnread { timeout: READ_TIMEOUT }.into());
                }
                () = served => {}
            }
        });
        stream
    }

    async fn run(mut self) {
        let drain = self.server.drain.clone();
        let mut draining = false;
        let mut reading = true;
        let mut expired = false;
        loop {
            if self.tasks.is_empty() && (!reading || draining) {
                break;
            }
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next_with_id() => self.task_ended(ended),
                () = drain.aborting() => break,
                () = drain.draining(), if !draining => draining = true,
                // It bounds the deadlines of all items: the loop ends once they are answered.
                () = self.call.passed(), if !expired => (expired, reading) = (true, false),
                request = next(&self.responses, &mut self.requests), if reading => match request {
                    Some(Ok(request)) => {
                        if let Err(violation) = self.handle_message(request, draining) {
                            self.responses.send(Err(ServiceError::from(violation).into()));
                            return;
                        }
                    }
                    // A message that the transport refused, or a client that went away.
                    Some(Err(status)) => {
                        self.responses.send(Err(status));
                        return;
                    }
                    None => reading = false,
                },
            }
        }
        let status = match (draining, expired) {
            // Items that are still on the wire were not accepted: the client sends them to another worker.
            (true, _) if reading => ServiceError::Draining,
            (_, true) => ServiceError::Deadline(self.started.elapsed()),
            _ => return,
        };
        self.responses.send(Err(status.into()));
    }

    /// Handles a message. An error is a violation of the protocol that no response could refer to.
    fn handle_message(&mut self, request: P::Request, draining: bool) -> Result<(), FieldError> {
        let item = match P::incoming(request) {
            Incoming::Item(item) => item,
            Incoming::Cancel(id) => {
                if let Some(stop) = self.unanswered.get(&id) {
                    stop.stop(StopReason::Cancelled);
                }
                return Ok(());
            }
            Incoming::Neither => return Err(FieldError::missing("kind", "item or cancel")),
        };
        let id = P::id(&item).to_owned();
        validate_id("item.id", &id)?;
        if self.unanswered.contains_key(&id) {
            let allowed = "an id that no other unanswered item of the stream has";
            return Err(FieldError::new("item.id", format_args!("`{id}`, which is in flight"), allowed));
        }
        let refusal = if draining { Some(ServiceError::Draining) } else { None };
        let held = match refusal.map_or_else(|| self.server.admit(self.client, &item), Err) {
            Ok(held) => held,
            Err(refused) => {
                count::<P>(ItemResult::Refused);
                self.responses.send(Ok(P::failed(id, refused.failure())));
                return Ok(());
            }
        };
        let deadline = self.call.and_item(P::deadline_ms(&item));
        let stop = StopSignal::default();
        self.unanswered.insert(id.clone(), stop.clone());
        let server = self.server.clone();
        let handler = Arc::clone(&self.handler);
        let responses = self.responses.clone();
        let task_id = id.clone();
        let task = self.tasks.spawn(async move {
            let answer = run_item(&server, task_id, item, deadline, stop, |item, context| handler(item, context)).await;
            drop(held);
            responses.send(Ok(answer));
        });
        self.ids.insert(task.id(), id);
        Ok(())
    }

    /// Forgets an item whose task has ended; answers it if its handler panicked.
    fn task_ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (task, panicked) = match &ended {
            Ok((task, ())) => (*task, false),
            Err(error) => (error.id(), true),
        };
        let Some(id) = self.ids.remove(&task) else { return };
        self.unanswered.remove(&id);
        if panicked {
            count::<P>(ItemResult::Panicked);
            tracing::error!(items = P::NAME, sample = %one_line(&id, MAX_ID_CHARS), "a handler panicked");
            let message = "the handler panicked".to_owned();
            let failure = ServiceError::Internal { message }.failure();
            self.responses.send(Ok(P::failed(id, failure)));
        }
    }
}

/// The next message, once there is capacity for its response. Waiting is the backpressure on the client.
async fn next<A, S: Stream + Unpin>(responses: &ResponseSender<A>, requests: &mut S) -> Option<S::Item> {
    responses.has_capacity().await;
    requests.next().await
}

/// Ends the response stream when it is dropped.
struct EndOnDrop<A>(ResponseSender<A>);

impl<A> Drop for EndOnDrop<A> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Runs one item: waits for a permit, calls the handler, and bounds both by deadline, cancellation and shutdown.
pub(super) async fn run_item<P, H, F>(
    server: &Capacity<P>,
    id: String,
    item: P::Item,
    deadline: Deadline,
    stop: StopSignal,
    handler: H,
) -> P::Response
where
    P: Items,
    H: FnOnce(P::Item, ItemContext) -> F,
    F: Future<Output = P::Response>,
{
    let accepted = Instant::now();
    let own: Result<TraceContext, _> = P::traceparent(&item).parse();
    let parent = own.ok().or_else(TraceContext::current);
    let trace = parent.map_or_else(TraceContext::root, TraceContext::child);
    let _stop_on_drop = AbortOnDrop(stop.clone());
    let stopping = async {
        tokio::select! {
            reason = stop.wait() => reason,
            () = deadline.passed() => StopReason::Deadline,
            () = server.drain.aborting() => StopReason::Aborted,
        }
    };
    let mut stopping = pin!(stopping);
    let stopped = |reason: StopReason| {
        count::<P>(match reason {
            StopReason::Cancelled => ItemResult::Cancelled,
            StopReason::Deadline => ItemResult::Deadline,
            StopReason::Aborted => ItemResult::Aborted,
        });
        P::failed(id.clone(), reason.error(accepted.elapsed()).failure())
    };

    let permit = tokio::select! {
        biased;
        reason = &mut stopping => return stopped(reason),
        permit = Arc::clone(&server.running).acquire_owned() => permit,
    };
    // Nothing closes the semaphore.
    let permit = Arc::new(Mutex::new(permit.ok()));
    let queued = accepted.elapsed();
    let context = ItemContext { deadline, queued, trace, parent, stop: stop.clone(), permit: Arc::downgrade(&permit) };
    metrics::histogram!("evenkeel_item_queue_seconds", "items" => P::NAME).record(queued);
    let started = Instant::now();
    let _in_flight = InFlight::enter(&server.in_flight);
    let span = tracing::info_span!("item", items = P::NAME, sample = %one_line(&id, MAX_ID_CHARS), trace_id = %trace.trace_id());
    let mut answering = pin!(trace.scope(handler(item, context)).instrument(span));
    let answer = tokio::select! {
        biased;
        answer = &mut answering => answer,
        reason = &mut stopping => {
            stop.stop(reason);
            match tokio::time::timeout(server.grace, answering).await {
                Ok(answer) => answer,
                Err(_) => return stopped(reason),
            }
        }
    };
    metrics::histogram!("evenkeel_item_work_seconds", "items" => P::NAME).record(started.elapsed());
    count::<P>(ItemResult::Answered);
    answer
}

fn count<P: Items>(result: ItemResult) {
    metrics::counter!("evenkeel_items_total", "items" => P::NAME, "result" => result.label()).increment(1);
}

/// Counts a running item until it is dropped.
struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
