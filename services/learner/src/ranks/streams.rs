//! Ranks that are processes: each but rank 0 has one connection, to rank 0, which passes on what is for others.
//!
//! What arrives is taken off the connection at once and kept until its turn, so that no rank waits for another to read.
//! A rank cannot begin an exchange before the one before it has ended everywhere, which bounds what is kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_proto::v1::{RankCommand, RankMessage, RankPart, rank_command, rank_message};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use super::message::{is_whole, name_of, sealed};
use super::{Collective, RankError};

#[cfg(test)]
mod tests;

/// Bytes in one message.
const CHUNK: usize = 1 << 20;

/// What others wait longer for rank 0 than it waits for them: it knows best who is late.
const PATIENCE: f64 = 1.2;

/// What arrives from a rank, in its order.
pub(crate) struct Inbox {
    messages: mpsc::UnboundedReceiver<Result<RankMessage, String>>,
    kept: Arc<AtomicU64>,
}

impl Inbox {
    /// Takes messages off a stream, and keeps a limited number of bytes.
    pub(crate) fn of<S>(mut stream: S, limit: u64) -> Self
    where
        S: Stream<Item = Result<RankMessage, Status>> + Unpin + Send + 'static,
    {
        let (sender, messages) = mpsc::unbounded_channel();
        let kept = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&kept);
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    message = stream.next() => message,
                    () = sender.closed() => return,
                };
                let mut message = match message {
                    Some(Ok(message)) => message,
                    None => return drop(sender.send(Err("it has left".into()))),
                    Some(Err(status)) => return drop(sender.send(Err(status.message().to_owned()))),
                };
                if count.fetch_add(size(&message), Ordering::SeqCst) > limit {
                    return drop(sender.send(Err(format!("it sent more than the {limit} bytes of an exchange"))));
                }
                if !is_whole(&mut message) {
                    let name = name_of(message.kind.as_ref());
                    return drop(sender.send(Err(format!("{name} arrived damaged: its checksum is another"))));
                }
                if sender.send(Ok(message)).is_err() {
                    return;
                }
            }
        });
        Self { messages, kept }
    }

    /// Waits for the next message.
    pub(crate) async fn next(&mut self) -> Result<RankMessage, String> {
        let message = self.messages.recv().await.unwrap_or_else(|| Err("its connection has ended".into()))?;
        self.kept.fetch_sub(size(&message), Ordering::SeqCst);
        Ok(message)
    }
}

/// Bytes that a message is counted as; commands are few and small beside what is exchanged.
fn size(message: &RankMessage) -> u64 {
    let values = match &message.kind {
        Some(rank_message::Kind::Part(part)) => part.values.len() as u64,
        _ => 0,
    };
    256 + values
}

/// A connection to another rank.
pub(crate) struct Link {
    pub(crate) rank: usize,
    /// Host and process of that rank.
    pub(crate) host: String,
    pub(crate) outgoing: mpsc::UnboundedSender<RankMessage>,
    pub(crate) inbox: Inbox,
}

impl Link {
    fn lost(&self, reason: impl Into<String>) -> RankError {
        RankError::Lost { rank: self.rank, host: self.host.clone(), reason: reason.into() }
    }

    /// Whether the other side is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.outgoing.is_closed()
    }

    fn send(&self, message: RankMessage) -> Result<(), RankError> {
        self.outgoing.send(message).map_err(|_| self.lost("its connection has ended"))
    }
}

/// One of several ranks in processes of their own.
pub(crate) struct Streams {
    rank: usize,
    ranks: usize,
    timeout: Duration,
    runtime: Handle,
    /// Links of rank 0 to all others, in their order; on the others the one link to rank 0.
    links: Vec<Link>,
    /// The number of the next exchange.
    operation: u64,
    /// Commands that have arrived and were not taken.
    commands: VecDeque<rank_command::Kind>,
    /// Why the ranks cannot go on.
    failure: Option<RankError>,
}

impl Streams {
    /// Rank `rank` of `ranks` that have all joined.
    pub(crate) fn new(rank: usize, ranks: usize, links: Vec<Link>, timeout: Duration, runtime: Handle) -> Self {
        let timeout = if rank == 0 { timeout } else { timeout.mul_f64(PATIENCE) };
        Self { rank, ranks, timeout, runtime, links, operation: 0, commands: VecDeque::new(), failure: None }
    }

    /// Why the ranks cannot go on, if that is known.
    pub(crate) fn failure(&mut self) -> Option<RankError> {
        if self.failure.is_none() {
            self.failure = self.links.iter().find(|link| link.is_closed()).map(|link| link.lost("it has ended"));
        }
        self.failure.clone()
    }

    /// Waits for the next command of rank 0.
    ///
    /// # Errors
    /// Rank 0 is lost, or out of step.
    pub(crate) fn told(&mut self) -> Result<rank_command::Kind, RankError> {
        if let Some(command) = self.commands.pop_front() {
            return Ok(command);
        }
        let link = &mut self.links[0];
        let message = self.runtime.block_on(link.inbox.next()).map_err(|reason| link.lost(reason))?;
        match message.kind {
            Some(rank_message::Kind::Command(RankCommand { kind: Some(kind) })) => Ok(kind),
            other => Err(RankError::OutOfStep {
                rank: link.rank,
                host: link.host.clone(),
                found: name_of(other.as_ref()),
                expected: "a command".into(),
            }),
        }
    }

    /// Waits until all others have left, at most that long.
    pub(crate) fn wait_until_left(&mut self, limit: Duration) {
        let links = &self.links;
        let left = async {
            for link in links {
                link.outgoing.closed().await;
            }
        };
        let _ = self.runtime.block_on(async { tokio::time::timeout(limit, left).await });
    }

    fn checked<T>(&mut self, result: Result<T, RankError>) -> Result<T, RankError> {
        if let Err(error) = &result {
            self.failure.get_or_insert_with(|| error.clone());
        }
        result
    }

    /// Sends a part to one rank or to all others, in messages of a bounded size.
    fn send(&self, what: &str, to: Option<usize>, part: &[u8]) -> Result<(), RankError> {
        let chunks = part.len().div_ceil(CHUNK).max(1);
        for (number, values) in part.chunks(CHUNK).chain(part.is_empty().then_some(&[][..])).enumerate() {
            let part = RankPart {
                operation: self.operation,
                what: what.to_owned(),
                from: self.rank as u32,
                to: to.map(|to| to as u32),
                last: number + 1 == chunks,
                values: values.to_vec(),
            };
            self.route(self.rank, to, sealed(rank_message::Kind::Part(part)))?;
        }
        Ok(())
    }

    /// Sends a message on the link that leads to its rank, or on all others than the one it came from.
    fn route(&self, from: usize, to: Option<usize>, message: RankMessage) -> Result<(), RankError> {
        if self.rank != 0 {
            return self.links[0].send(message);
        }
        match to {
            Some(to) => self.links[to - 1].send(message),
            None => {
                let mut others = self.links.iter().filter(|link| link.rank != from);
                others.try_for_each(|link| link.send(message.clone()))
            }
        }
    }

    /// Receives what every other rank gives in this exchange. `own` is what this rank keeps, `everyone` whether each
    /// gives all others the same.
    fn receive(&mut self, what: &str, own: Vec<u8>, everyone: bool) -> Result<Vec<Vec<u8>>, RankError> {
        let deadline = Instant::now() + self.timeout;
        let mut parts: Vec<Vec<u8>> = vec![Vec::new(); self.ranks];
        parts[self.rank] = own;
        for at in 0..self.links.len() {
            // Whose parts are missing. On a link of rank 0 its rank gives to all others; on that of another rank all
            // others give to it.
            let mut open: Vec<usize> = match self.rank {
                0 if everyone => vec![self.links[at].rank],
                0 => vec![self.links[at].rank; self.ranks - 1],
                own => (0..self.ranks).filter(|&rank| rank != own).collect(),
            };
            while let Some(&missing) = open.first() {
                let (part, checksum) = self.next_part(at, what, missing, deadline)?;
                let from = part.from as usize;
                let to = part.to.map(|to| to as usize);
                if let Some(whole) = open.iter().position(|&rank| part.last && rank == from) {
                    open.remove(whole);
                }
                if self.rank == 0 && to != Some(0) {
                    if to.is_none() {
                        parts[from].extend_from_slice(&part.values);
                    }
                    self.route(from, to, RankMessage { kind: Some(rank_message::Kind::Part(part)), checksum })?;
                } else if parts[from].is_empty() {
                    parts[from] = part.values;
                } else {
                    parts[from].extend_from_slice(&part.values);
                }
            }
        }
        Ok(parts)
    }

    /// The next part of this exchange on a link, which waits for one of the rank `missing`, and its checksum. Commands
    /// that come before it are kept.
    fn next_part(
        &mut self,
        at: usize,
        what: &str,
        missing: usize,
        deadline: Instant,
    ) -> Result<(RankPart, u32), RankError> {
        loop {
            let link = &mut self.links[at];
            let waiting = async { tokio::time::timeout_at(deadline, link.inbox.next()).await };
            let message = self.runtime.block_on(waiting);
            let rank = link.rank;
            let host = link.host.clone();
            let Ok(message) = message else {
                let host = if missing == rank { host } else { format!("behind rank {rank}") };
                return Err(RankError::Late { rank: missing, host, what: what.to_owned(), waited: self.timeout });
            };
            let message = message.map_err(|reason| link.lost(reason))?;
            match message.kind {
                Some(rank_message::Kind::Command(RankCommand { kind: Some(kind) })) if self.rank != 0 => {
                    self.commands.push_back(kind);
                }
                Some(rank_message::Kind::Part(part)) if self.is_of(&part, at, what) => {
                    return Ok((part, message.checksum));
                }
                // A rank that failed says why instead of what is its turn.
                Some(rank_message::Kind::Part(part)) if part.what == OUTCOME && part.values.starts_with(FAILED) => {
                    let message = String::from_utf8_lossy(&part.values[FAILED.len()..]).into_owned();
                    return Err(RankError::Failed { rank: part.from as usize, message });
                }
                other => {
                    let found = name_of(other.as_ref());
                    let expected = format!("{what} of exchange {}", self.operation);
                    return Err(RankError::OutOfStep { rank, host, found, expected });
                }
            }
        }
    }

    /// Whether a part is one that may come on a link now.
    fn is_of(&self, part: &RankPart, at: usize, what: &str) -> bool {
        let from = part.from as usize;
        let ranks = self.ranks;
        let is_known = part.to.is_none_or(|to| (to as usize) < ranks && to != part.from) && from < ranks;
        let is_from_there = if self.rank == 0 { from == self.links[at].rank } else { from != self.rank };
        is_known && is_from_there && part.operation == self.operation && part.what == what
    }

    fn all(&mut self, what: &str, part: Vec<u8>) -> Result<Vec<Vec<u8>>, RankError> {
        self.send(what, None, &part)?;
        self.receive(what, part, true)
    }

    fn each(&mut self, what: &str, mut parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, RankError> {
        for (to, part) in parts.iter().enumerate().filter(|(to, _)| *to != self.rank) {
            self.send(what, Some(to), part)?;
        }
        self.receive(what, std::mem::take(&mut parts[self.rank]), false)
    }
}

/// What a rank says of a part of a step: what it has done, or why it failed, after [`FAILED`].
pub(crate) const OUTCOME: &str = "outcome";

/// What the outcome of a rank that failed begins with.
pub(crate) const FAILED: &[u8] = b"failed: ";

impl Collective for Streams {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn exchange(&mut self, what: &'static str, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, RankError> {
        let found = self.each(what, parts);
        self.operation += 1;
        self.checked(found)
    }

    fn all_gather(&mut self, what: &'static str, part: Vec<u8>) -> Result<Vec<Vec<u8>>, RankError> {
        let found = self.all(what, part);
        self.operation += 1;
        self.checked(found)
    }

    fn fail(&mut self, error: &RankError) {
        self.failure.get_or_insert_with(|| error.clone());
    }

    fn tell(&mut self, command: rank_command::Kind) -> Result<(), RankError> {
        let message = sealed(rank_message::Kind::Command(RankCommand { kind: Some(command) }));
        let told = self.links.iter().try_for_each(|link| link.send(message.clone()));
        self.checked(told)
    }
}
