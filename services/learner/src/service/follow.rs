//! A rank after rank 0: it joins, does what rank 0 says, and joins again whenever ranks are lost.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_proto::v1::ranks_client::RanksClient;
use evenkeel_proto::v1::{RankHello, RankOrder, SupervisedExample, TrainHeader, TrainKind, rank_command, rank_message};
use evenkeel_rpc::client::{Connector, ServerAddress};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status};

use super::convert;
use super::operations::take_part;
use super::rank_identity::{identity, kept_bytes};
use super::settings::LearnerSettings;
use super::start_error::StartError;
use crate::error::{LearnerError, Result};
use crate::learner::Learner;
use crate::ranks::{Inbox, Link, RankError, Streams, sealed};
use crate::settings::{RankPlace, RankSettings};

/// Pause before joining again.
const PAUSE: Duration = Duration::from_millis(500);

/// How a rank after rank 0 has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankEnd {
    /// Rank 0 has nothing more to do.
    Finished,
    /// The rank was told to end before that, and rank 0 needs it again.
    Stopped,
}

/// Trains as a rank after rank 0 until rank 0 has nothing more to do. After `shutdown` it goes on for at most
/// `server.drain`, so that rank 0 can end its step.
///
/// # Errors
/// Settings or a model that are refused, here or by rank 0; rank 0 that stays away for `ranks.join_timeout`.
pub async fn follow(
    settings: LearnerSettings,
    place: RankPlace,
    shutdown: impl Future<Output = ()>,
) -> Result<RankEnd, StartError> {
    let drain = settings.server.drain;
    let runtime = Handle::current();
    let (ended, end) = oneshot::channel();
    let spawned = std::thread::Builder::new().name("learner".into()).spawn(move || {
        let _ = ended.send(Follower::run(settings, place, runtime));
    });
    spawned.map_err(StartError::Thread)?;
    let mut end = end;
    tokio::select! {
        ended = &mut end => return ended.map_err(|_| StartError::ThreadEnded)?.map(|()| RankEnd::Finished),
        () = shutdown => {}
    }
    match tokio::time::timeout(drain, end).await {
        Ok(ended) => ended.map_err(|_| StartError::ThreadEnded)?.map(|()| RankEnd::Finished),
        Err(_) => Ok(RankEnd::Stopped),
    }
}

struct Follower {
    learner: Learner,
    place: RankPlace,
    settings: RankSettings,
    hello: RankHello,
    connector: Connector,
    runtime: Handle,
}

impl Follower {
    #[expect(clippy::result_large_err, reason = "once in the life of a process")]
    fn run(settings: LearnerSettings, place: RankPlace, runtime: Handle) -> Result<(), StartError> {
        let ranks = settings.training.ranks.clone().unwrap_or_default();
        let learner =
            Learner::open_rank(&settings.model, settings.training, place.division, settings.engines_stay_awake)?;
        let hello = identity(&learner, place.division)?;
        let connector = Connector::new("learner.ranks.client", ranks.client())?;
        let mut follower = Self { learner, place, settings: ranks, hello, connector, runtime };
        loop {
            let streams = Arc::new(Mutex::new(follower.join()?));
            follower.learner.join(Some(streams.clone()));
            // What an exchange that failed has left is of no step.
            let followed = follower.learner.reset().and_then(|()| follower.follow(&streams));
            follower.learner.join(None);
            match followed {
                Ok(()) => return Ok(()),
                Err(error) => tracing::error!(%error, "this rank leaves and joins again"),
            }
        }
    }

    /// Joins, as often as it takes.
    #[expect(clippy::result_large_err, reason = "once in the life of a process")]
    fn join(&self) -> Result<Streams, StartError> {
        let began = Instant::now();
        loop {
            let tried = self.runtime.block_on(self.try_join());
            let error = match tried {
                Ok(link) => {
                    let division = self.place.division;
                    let rank = division.rank();
                    let ranks = division.ranks();
                    tracing::info!(rank, ranks, "all ranks have joined");
                    let timeout = self.settings.timeout;
                    return Ok(Streams::new(rank, ranks, vec![link], timeout, self.runtime.clone()));
                }
                Err(error) => error,
            };
            let address = self.place.address.clone();
            match error {
                Join::Refused(message) => return Err(StartError::RankRefused { address, message }),
                Join::Failed(message) if began.elapsed() > self.settings.join_timeout => {
                    return Err(StartError::NoRankZero { address, message });
                }
                Join::Failed(message) => tracing::info!(address, message, "rank 0 does not accept this rank yet"),
            }
            std::thread::sleep(PAUSE);
        }
    }

    async fn try_join(&self) -> Result<Link, Join> {
        let failed = |error: &dyn std::fmt::Display| Join::Failed(error.to_string());
        let address = ServerAddress::new(self.settings.url(&self.place));
        let channel = self.connector.connect(&address).await.map_err(|error| failed(&error))?;
        let most = self.connector.max_message();
        let mut client = RanksClient::new(channel).max_decoding_message_size(most).max_encoding_message_size(most);
        let (outgoing, receiver) = mpsc::unbounded_channel();
        let hello = rank_message::Kind::Hello(self.hello.clone());
        outgoing.send(sealed(hello)).map_err(|error| failed(&error))?;
        let answer = client.join(UnboundedReceiverStream::new(receiver)).await.map_err(Join::of)?;
        let mut inbox = Inbox::of(answer.into_inner(), kept_bytes(&self.learner));
        // As long as it takes for the others: rank 0 ends the call if they do not come.
        match inbox.next().await.map_err(Join::Failed)?.kind {
            Some(rank_message::Kind::Welcome(_)) => {}
            _ => return Err(Join::Failed("its first message is no welcome".into())),
        }
        Ok(Link { rank: 0, host: self.place.address.clone(), outgoing, inbox })
    }

    /// Does what rank 0 says until there is nothing more.
    fn follow(&mut self, streams: &Mutex<Streams>) -> Result<()> {
        loop {
            match told(streams)? {
                rank_command::Kind::Begin(header) => self.step(&header, streams)?,
                rank_command::Kind::Operate(request) => unless_agreed(take_part(&mut self.learner, &request))?,
                // What is left of a step that was refused here as well.
                rank_command::Kind::Group(_) | rank_command::Kind::Examples(_) => {}
                rank_command::Kind::Order(order) => match RankOrder::try_from(order) {
                    Ok(RankOrder::End) => return Ok(()),
                    Ok(RankOrder::Save) => self.learner.give_moments()?,
                    // A checkpoint that rank 0 could not read is not restored here either.
                    Ok(RankOrder::Restore) => unless_agreed(self.learner.receive_checkpoint())?,
                    Ok(RankOrder::Reset) => self.learner.reset()?,
                    Ok(RankOrder::Finish | RankOrder::Abandon | RankOrder::Unspecified) | Err(_) => {}
                },
            }
        }
    }

    fn step(&mut self, header: &TrainHeader, streams: &Mutex<Streams>) -> Result<()> {
        self.learner.set_seed(header.seed);
        match header.kind() {
            TrainKind::Supervised => self.supervised(streams),
            _ => self.grpo(header, streams),
        }
    }

    fn grpo(&mut self, header: &TrainHeader, streams: &Mutex<Streams>) -> Result<()> {
        let is_probed = self.learner.settings().probe_gradients.is_due(header.step);
        let mut step = self.learner.step_of(header.expected_groups as usize).numbered(header.step)?;
        if is_probed {
            step = step.with_probe()?;
        }
        if header.max_lag.is_some_and(|most| most > 0) {
            step = step.with_lags()?;
        }
        let mut received = 0;
        let mut refused = None;
        loop {
            match told(streams)? {
                rank_command::Kind::Group(group) if refused.is_none() => {
                    let group = convert::group(group, received, header).map_err(LearnerError::Input);
                    refused = group.and_then(|group| step.add(group)).err();
                    received += 1;
                }
                rank_command::Kind::Order(order) if order == i32::from(RankOrder::Finish) => break,
                rank_command::Kind::Order(_) => return Ok(()),
                // A group that is refused here is refused by rank 0 as well, which then abandons the step.
                _ => {}
            }
        }
        match refused {
            // Rank 0 went on.
            Some(error) => unless_agreed(step.trainer().agree("groups", Err::<(), _>(error))),
            None => unless_agreed(step.finish().map(drop)),
        }
    }

    fn supervised(&mut self, streams: &Mutex<Streams>) -> Result<()> {
        let mut examples: Vec<SupervisedExample> = Vec::new();
        loop {
            match told(streams)? {
                rank_command::Kind::Examples(batch) => examples.extend(batch.examples),
                rank_command::Kind::Order(order) if order == i32::from(RankOrder::Finish) => break,
                rank_command::Kind::Order(_) => return Ok(()),
                _ => {}
            }
        }
        let examples: Vec<_> = examples.into_iter().map(convert::example).collect();
        unless_agreed(self.learner.supervised_step(&examples).map(drop))
    }
}

fn told(streams: &Mutex<Streams>) -> Result<rank_command::Kind, RankError> {
    streams.lock().unwrap_or_else(PoisonError::into_inner).told()
}

/// An error that every rank has, such as too many skipped updates, leaves them in step; any other does not.
fn unless_agreed(result: Result<()>) -> Result<()> {
    match result {
        Err(error @ LearnerError::Rank(_)) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "refused by all ranks");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Why a rank has not joined.
enum Join {
    /// The rank will never be accepted.
    Refused(String),
    /// A later attempt may succeed.
    Failed(String),
}

impl Join {
    #[expect(clippy::needless_pass_by_value, reason = "as errors are mapped")]
    fn of(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::FailedPrecondition
            | Code::InvalidArgument
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::Unimplemented => Self::Refused(message),
            _ => Self::Failed(message),
        }
    }
}
