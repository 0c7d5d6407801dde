//! Rank 0: the other ranks assemble at its port, and after a loss do so again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_proto::v1::ranks_server::RanksServer;
use evenkeel_proto::v1::{RankOrder, rank_command};
use evenkeel_rpc::server::{RunningServer, Server, ServerError};
use tokio::runtime::Handle;

use super::rank_identity::{identity, kept_bytes};
use super::rank_port::RankPort;
use super::start_error::StartError;
use crate::error::{LearnerError, Result};
use crate::learner::Learner;
use crate::ranks::{Collective, Division, RankError, Streams};
use crate::settings::{RankPlace, RankSettings};
use crate::trainer::SharedCollective;

/// How long the others may take to leave when there is nothing more to do.
const FAREWELL: Duration = Duration::from_secs(5);

/// Where the others will join, before the model is open.
pub(super) struct Meeting {
    server: Server,
    place: RankPlace,
    settings: RankSettings,
}

impl Meeting {
    /// Binds the port.
    ///
    /// # Errors
    /// A port in use, or certificates that cannot be read.
    pub(super) async fn bind(settings: &RankSettings, place: RankPlace) -> Result<Self, StartError> {
        let at = settings.server_at(&place);
        let is_at_place = at.listen == place.address;
        let server = Server::bind("ranks", "learner.ranks.server", at).await.map_err(|error| match error {
            // By the setting that chooses another port.
            ServerError::Listen { address, source, .. } if is_at_place => {
                ServerError::Listen { setting: "learner.ranks.address".to_owned(), address, source }
            }
            other => other,
        })?;
        Ok(Self { server, place, settings: settings.clone() })
    }

    /// Which rank this is.
    pub(super) fn division(&self) -> Division {
        self.place.division
    }

    /// Waits for the others, whose models must be that of `learner`.
    ///
    /// # Errors
    /// Ranks that do not join in time.
    pub(super) fn assemble(self, learner: &mut Learner, runtime: &Handle) -> Result<Leader> {
        let Self { server, place, settings } = self;
        let port = RankPort::new(identity(learner, place.division)?, kept_bytes(learner));
        let most = server.max_message();
        let service = RanksServer::new(port.clone()).max_decoding_message_size(most).max_encoding_message_size(most);
        let server = {
            let _inside = runtime.enter();
            server.with_service(service).spawn()
        };
        tracing::info!(address = place.address, ranks = place.division.ranks(), "waiting for the other ranks");
        let assembled = runtime.block_on(async { tokio::time::timeout(settings.join_timeout, port.assembled()).await });
        let ranks = place.division.ranks();
        let links = assembled.map_err(|_| RankError::Missing { missing: port.missing(), ranks, last: None })?;
        let streams = Streams::new(0, ranks, links, settings.timeout, runtime.clone());
        let streams = Arc::new(Mutex::new(streams));
        learner.join(Some(streams.clone()));
        tracing::info!(ranks, "all ranks have joined");
        Ok(Leader {
            _server: server,
            port,
            streams: Some(streams),
            settings,
            place,
            last: None,
            runtime: runtime.clone(),
        })
    }
}

/// What rank 0 has of the others.
pub(super) struct Leader {
    _server: RunningServer,
    port: RankPort,
    /// Absent until all have joined again.
    streams: Option<Arc<Mutex<Streams>>>,
    settings: RankSettings,
    place: RankPlace,
    /// Why they have to join again.
    last: Option<String>,
    runtime: Handle,
}

impl Leader {
    /// Whether ranks were lost since the last call. The learner then no longer takes part, and what it has is of no
    /// step.
    pub(super) fn has_lost(&mut self, learner: &mut Learner) -> Option<RankError> {
        let streams = self.streams.as_ref()?;
        let failure = streams.lock().unwrap_or_else(PoisonError::into_inner).failure()?;
        tracing::error!(error = %failure, "ranks are lost: training returns to the last checkpoint once all have \
            joined again");
        metrics::counter!("evenkeel_ranks_lost_total").increment(1);
        learner.join(None);
        self.streams = None;
        self.port.dissolve();
        self.last = Some(failure.to_string());
        Some(failure)
    }

    /// Goes on with all ranks, if they have joined. Returns whether they have done so only now.
    ///
    /// # Errors
    /// Those that have not.
    pub(super) fn ready(&mut self, learner: &mut Learner) -> Result<bool> {
        if self.streams.is_some() {
            return Ok(false);
        }
        let ranks = self.place.division.ranks();
        let Some(links) = self.port.assemble() else {
            return Err(RankError::Missing { missing: self.port.missing(), ranks, last: self.last.clone() }.into());
        };
        let streams = Streams::new(0, ranks, links, self.settings.timeout, self.runtime.clone());
        let streams = Arc::new(Mutex::new(streams));
        learner.join(Some(streams.clone()));
        self.streams = Some(streams);
        tracing::info!(ranks, "all ranks have joined again");
        Ok(true)
    }

    /// Ends the others, and waits for it.
    pub(super) fn end(self) {
        if let Some(streams) = &self.streams {
            let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
            if streams.tell(order(RankOrder::End)).is_ok() {
                streams.wait_until_left(FAREWELL);
            }
        }
    }
}

/// A command without content.
pub(super) fn order(order: RankOrder) -> rank_command::Kind {
    rank_command::Kind::Order(order.into())
}

/// The way to tell the other ranks what comes next; alone there is nobody to tell.
pub(super) struct Teller(Option<SharedCollective>);

impl Teller {
    pub(super) fn of(learner: &Learner) -> Self {
        Self(learner.collective())
    }

    /// Whether there are other ranks.
    pub(super) fn has_others(&self) -> bool {
        self.0.is_some()
    }

    /// Tells all other ranks. `command` is only called if there are some.
    ///
    /// # Errors
    /// A rank that is lost.
    pub(super) fn tell(&self, command: impl FnOnce() -> rank_command::Kind) -> Result<()> {
        let Some(collective) = &self.0 else { return Ok(()) };
        let mut collective = collective.lock().unwrap_or_else(PoisonError::into_inner);
        collective.tell(command()).map_err(LearnerError::from)
    }
}
