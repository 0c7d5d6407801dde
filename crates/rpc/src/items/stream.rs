//! One item stream of one client.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_proto::FieldError;
use evenkeel_proto::shown::shown;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use tracing::Instrument;

use super::answers::{AnswerStream, Answers, READ_TIMEOUT};
use super::capacity::Capacity;
use super::context::{Stop, StopOnDrop};
use super::{Incoming, ItemContext, Items, Stopped, check_id};
use crate::deadline::Deadline;
use crate::error::ServiceError;
use crate::peer::ClientId;
use evenkeel_telemetry::TraceContext;

/// Longest id that is logged, in characters.
const MAX_ID_CHARS: usize = 200;

/// The server's end of one stream.
pub(super) struct Connection<P: Items, S, H> {
    server: Capacity<P>,
    requests: S,
    call: Deadline,
    handler: Arc<H>,
    client: ClientId,
    answers: Answers<P::Answer>,
    tasks: JoinSet<()>,
    live: HashMap<String, Stop>,
    ids: HashMap<Id, String>,
    begun: Instant,
}

impl<P, S, H, F> Connection<P, S, H>
where
    P: Items,
    S: Stream<Item = Result<P::Request, Status>> + Send + Unpin + 'static,
    H: Fn(P::Item, ItemContext) -> F + Send + Sync + 'static,
    F: Future<Output = P::Answer> + Send + 'static,
{
    pub(super) fn start(server: Capacity<P>, requests: S, call: Deadline, handler: Arc<H>) -> AnswerStream<P::Answer> {
        let client = ClientId::current();
        let (answers, stream) = Answers::channel(server.bytes.nothing(client));
        let (tasks, live, ids) = (JoinSet::new(), HashMap::new(), HashMap::new());
        let begun = Instant::now();
        let connection =
            Self { server, requests, call, handler, client, answers: answers.clone(), tasks, live, ids, begun };
        tokio::spawn(async move {
            // However this ends, dropping the rest frees what the stream held.
            let _end = EndOnDrop(answers.clone());
            let served = async {
                connection.run().await;
                answers.end();
                answers.read().await;
            };
            tokio::select! {
                // The client went away: nobody reads answers any more.
                () = answers.gone() => {}
                () = answers.stalled() => {
                    count::<P>("unread");
                    answers.cut(ServiceError::Unread { timeout: READ_TIMEOUT }.into());
                }
                () = served => {}
            }
        });
        stream
    }

    async fn run(mut self) {
        let drain = self.server.drain.clone();
        let (mut draining, mut reading, mut expired) = (false, true, false);
        loop {
            if self.tasks.is_empty() && (!reading || draining) {
                break;
            }
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next_with_id() => self.end(ended),
                () = drain.aborting() => break,
                () = drain.draining(), if !draining => draining = true,
                // Every item's own deadline ends by now, too: the loop goes on until they have said so.
                () = self.call.passed(), if !expired => (expired, reading) = (true, false),
                request = next(&self.answers, &mut self.requests), if reading => match request {
                    Some(Ok(request)) => {
                        if let Err(broken) = self.take(request, draining) {
                            self.answers.send(Err(ServiceError::from(broken).into()));
                            return;
                        }
                    }
                    // A message that the server does not take, or a client that went away in the middle and hears nothing.
                    Some(Err(broken)) => {
                        self.answers.send(Err(broken));
                        return;
                    }
                    None => reading = false,
                },
            }
        }
        let status = match (draining, expired) {
            // Items that crossed with the drain were never taken: the client gives them to another.
            (true, _) if reading => ServiceError::Draining,
            (_, true) => ServiceError::Deadline(self.begun.elapsed()),
            _ => return,
        };
        self.answers.send(Err(status.into()));
    }

    /// Takes a message. An error breaks the protocol in a way that no answer could say.
    fn take(&mut self, request: P::Request, draining: bool) -> Result<(), FieldError> {
        let item = match P::incoming(request) {
            Incoming::Item(item) => item,
            Incoming::Cancel(id) => {
                if let Some(stop) = self.live.get(&id) {
                    stop.because(Stopped::Cancelled);
                }
                return Ok(());
            }
            Incoming::Neither => return Err(FieldError::missing("kind", "item or cancel")),
        };
        let id = P::id(&item).to_owned();
        check_id("item.id", &id)?;
        if self.live.contains_key(&id) {
            let allowed = "an id that no other unanswered item of the stream has";
            return Err(FieldError::new("item.id", format_args!("`{id}`, which is in work"), allowed));
        }
        let refusal = if draining { Some(ServiceError::Draining) } else { None };
        let held = match refusal.map_or_else(|| self.server.admit(self.client, &item), Err) {
            Ok(held) => held,
            Err(refused) => {
                count::<P>("refused");
                self.answers.send(Ok(P::failed(id, refused.failure())));
                return Ok(());
            }
        };
        let deadline = self.call.and_item(P::deadline_ms(&item));
        let stop = Stop::default();
        self.live.insert(id.clone(), stop.clone());
        let (server, handler, answers) = (self.server.clone(), Arc::clone(&self.handler), self.answers.clone());
        let (client, task_id) = (self.client, id.clone());
        let task = self.tasks.spawn(async move {
            let answer =
                work(&server, client, task_id, item, deadline, stop, |item, context| handler(item, context)).await;
            drop(held);
            answers.send(Ok(answer));
        });
        self.ids.insert(task.id(), id);
        Ok(())
    }

    /// Forgets an item that was answered, or answers for a handler that panicked.
    fn end(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (task, panicked) = match &ended {
            Ok((task, ())) => (*task, false),
            Err(error) => (error.id(), true),
        };
        let Some(id) = self.ids.remove(&task) else { return };
        self.live.remove(&id);
        if panicked {
            count::<P>("panicked");
            tracing::error!(items = P::NAME, id = %shown(&id, MAX_ID_CHARS), "a handler panicked");
            let message = "the handler failed in a way that it did not expect".to_owned();
            let failure = ServiceError::Internal { message }.failure();
            self.answers.send(Ok(P::failed(id, failure)));
        }
    }
}

/// The next message, as soon as the answers to it would have room. Waiting slows the client down.
async fn next<A, S: Stream + Unpin>(answers: &Answers<A>, requests: &mut S) -> Option<S::Item> {
    answers.room().await;
    requests.next().await
}

/// Ends the stream of answers when its connection is dropped.
struct EndOnDrop<A>(Answers<A>);

impl<A> Drop for EndOnDrop<A> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// One item from its place to its answer.
pub(super) async fn work<P, H, F>(
    server: &Capacity<P>,
    client: ClientId,
    id: String,
    item: P::Item,
    deadline: Deadline,
    stop: Stop,
    handler: H,
) -> P::Answer
where
    P: Items,
    H: FnOnce(P::Item, ItemContext) -> F,
    F: Future<Output = P::Answer>,
{
    let taken = Instant::now();
    let given: Result<TraceContext, _> = P::traceparent(&item).parse();
    let trace = given.ok().or_else(TraceContext::current).map_or_else(TraceContext::root, TraceContext::child);
    let _stop_threads = StopOnDrop(stop.clone());
    let stopping = async {
        tokio::select! {
            reason = stop.wait() => reason,
            () = deadline.passed() => Stopped::Deadline,
            () = server.drain.aborting() => Stopped::Aborted,
        }
    };
    let mut stopping = pin!(stopping);
    let stopped = |reason: Stopped| {
        count::<P>(match reason {
            Stopped::Cancelled => "cancelled",
            Stopped::Deadline => "deadline",
            Stopped::Aborted => "aborted",
        });
        P::failed(id.clone(), reason.error(taken.elapsed()).failure())
    };

    let turn = tokio::select! {
        biased;
        reason = &mut stopping => return stopped(reason),
        turn = server.running.take(client) => turn,
    };
    let place = Arc::new(Mutex::new(Some(turn)));
    let queued = taken.elapsed();
    let context = ItemContext { deadline, queued, trace, stop: stop.clone(), place: Arc::downgrade(&place) };
    metrics::histogram!("evenkeel_item_queue_seconds", "items" => P::NAME).record(queued);
    let begun = Instant::now();
    let _in_work = InWork::enter(&server.in_work);
    let span =
        tracing::debug_span!("item", items = P::NAME, id = %shown(&id, MAX_ID_CHARS), trace_id = %trace.trace_id());
    let mut answering = pin!(trace.scope(handler(item, context)).instrument(span));
    let answer = tokio::select! {
        biased;
        answer = &mut answering => answer,
        reason = &mut stopping => {
            stop.because(reason);
            match tokio::time::timeout(server.grace, answering).await {
                Ok(answer) => answer,
                Err(_) => return stopped(reason),
            }
        }
    };
    metrics::histogram!("evenkeel_item_work_seconds", "items" => P::NAME).record(begun.elapsed());
    count::<P>("answered");
    answer
}

fn count<P: Items>(result: &'static str) {
    metrics::counter!("evenkeel_items_total", "items" => P::NAME, "result" => result).increment(1);
}

/// Counts an item in work, however its work ends.
struct InWork<'a>(&'a AtomicUsize);

impl<'a> InWork<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
