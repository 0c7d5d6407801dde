//! The port at which the other ranks join rank 0.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::ranks_server::Ranks;
use evenkeel_proto::v1::{RankHello, RankMessage, RankWelcome, rank_message};
use evenkeel_rpc::error::{Reason, ServiceError};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use crate::ranks::{Inbox, Link, is_whole, sealed};

/// How long a caller may take to say who it is.
const HELLO: Duration = Duration::from_secs(10);

/// Longest name of a host in messages, in characters.
const HOST: usize = 120;

/// Ranks that have joined. Clones share them.
#[derive(Clone)]
pub(super) struct RankPort(Arc<JoinedRanks>);

struct JoinedRanks {
    /// What every rank must have.
    expected: RankHello,
    /// Most bytes that are kept of a rank.
    limit: u64,
    seats: Mutex<Vec<Seat>>,
    joined: Notify,
}

/// The place of one rank.
#[derive(Default)]
struct Seat {
    /// Who has joined and waits for the others.
    waiting: Option<Link>,
    /// Who takes part: where it is, and the way to it.
    active: Option<(String, mpsc::UnboundedSender<RankMessage>)>,
}

impl Seat {
    /// Host of the rank that holds the seat.
    fn holder(&self) -> Option<&str> {
        let waiting = self.waiting.as_ref().filter(|link| !link.is_closed()).map(|link| link.host.as_str());
        let active = self.active.as_ref().filter(|(_, sender)| !sender.is_closed()).map(|(host, _)| host.as_str());
        waiting.or(active)
    }
}

impl RankPort {
    /// For ranks that say the same as `expected`, but for number and host.
    pub(super) fn new(expected: RankHello, limit: u64) -> Self {
        let seats = Mutex::new((1..expected.ranks).map(|_| Seat::default()).collect());
        Self(Arc::new(JoinedRanks { expected, limit, seats, joined: Notify::new() }))
    }

    /// The ranks that are not there, or that join while others still take part.
    pub(super) fn missing(&self) -> Vec<usize> {
        let seats = self.seats();
        let is_missing = |seat: &Seat| seat.waiting.as_ref().is_none_or(Link::is_closed);
        seats.iter().enumerate().filter(|(_, seat)| is_missing(seat)).map(|(at, _)| at + 1).collect()
    }

    /// Welcomes all ranks if every one has joined, and returns their links in order.
    pub(super) fn assemble(&self) -> Option<Vec<Link>> {
        if !self.missing().is_empty() {
            return None;
        }
        let mut seats = self.seats();
        let links: Vec<Link> = seats.iter_mut().filter_map(|seat| seat.waiting.take()).collect();
        for (seat, link) in seats.iter_mut().zip(&links) {
            seat.active = Some((link.host.clone(), link.outgoing.clone()));
            let _ = link.outgoing.send(sealed(rank_message::Kind::Welcome(RankWelcome {})));
        }
        Some(links)
    }

    /// Waits until every rank has joined; returns their links.
    pub(super) async fn assembled(&self) -> Vec<Link> {
        loop {
            let joined = self.0.joined.notified();
            if let Some(links) = self.assemble() {
                return links;
            }
            // Also looks for those that left again.
            let _ = tokio::time::timeout(Duration::from_secs(1), joined).await;
        }
    }

    /// Notes that those who take part no longer do: they may join again.
    pub(super) fn dissolve(&self) {
        self.seats().iter_mut().for_each(|seat| seat.active = None);
    }

    fn seats(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.0.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a rank that differs from rank 0 in program, settings or weights.
    fn validate(&self, hello: &RankHello) -> Result<(), ServiceError> {
        let RankHello { ranks, program, settings_hash, weights_digest, .. } = &self.0.expected;
        if hello.rank == 0 || hello.rank >= *ranks {
            let allowed = format!("1 to {}: rank 0 has {ranks} ranks in all", ranks - 1);
            return Err(refused(&FieldError::new("rank", hello.rank, allowed)));
        }
        let same = [
            ("ranks", hello.ranks.to_string(), ranks.to_string()),
            ("program", hello.program.clone(), program.clone()),
            ("settings_hash", hello.settings_hash.clone(), settings_hash.clone()),
            ("weights_digest", hello.weights_digest.clone(), weights_digest.clone()),
        ];
        match same.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((field, found, expected)) => {
                let found: String = found.chars().take(HOST).collect();
                Err(refused(&FieldError::quoted(field, found, format!("{expected}, that of rank 0"))))
            }
        }
    }

    fn seat(&self, rank: usize, link: Link) -> Result<(), ServiceError> {
        let mut seats = self.seats();
        let seat = &mut seats[rank - 1];
        if let Some(holder) = seat.holder() {
            let message = format!("rank {rank} has joined already, from {holder}");
            return Err(ServiceError::Conflict { message });
        }
        tracing::info!(rank, host = link.host, "a rank has joined");
        seat.waiting = Some(link);
        drop(seats);
        self.0.joined.notify_waiters();
        Ok(())
    }
}

fn refused(error: &FieldError) -> ServiceError {
    ServiceError::Precondition { reason: Reason::RankRefused, message: error.to_string() }
}

#[tonic::async_trait]
impl Ranks for RankPort {
    type JoinStream = Pin<Box<dyn Stream<Item = Result<RankMessage, Status>> + Send>>;

    async fn join(&self, request: Request<Streaming<RankMessage>>) -> Result<Response<Self::JoinStream>, Status> {
        let mut messages = request.into_inner();
        let first = tokio::time::timeout(HELLO, messages.message()).await;
        let first = first.map_err(|_| ServiceError::Deadline(HELLO))??;
        let mut first = first.unwrap_or_default();
        let is_whole = is_whole(&mut first);
        let Some(rank_message::Kind::Hello(hello)) = first.kind else {
            return Err(ServiceError::from(FieldError::missing("hello", "as the first message")).into());
        };
        if !is_whole {
            let message = "the hello arrived damaged: its checksum is another".to_owned();
            return Err(ServiceError::DataLoss { message }.into());
        }
        self.validate(&hello)?;
        let rank = hello.rank as usize;
        let (outgoing, receiver) = mpsc::unbounded_channel();
        let host = hello.host.chars().filter(char::is_ascii_graphic).take(HOST).collect();
        self.seat(rank, Link { rank, host, outgoing, inbox: Inbox::of(messages, self.0.limit) })?;
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(receiver).map(Ok))))
    }
}
