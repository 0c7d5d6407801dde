//! Why a learner does not start.

use evenkeel_rpc::client::ClientError;
use evenkeel_rpc::server::ServerError;

use crate::error::LearnerError;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port or a certificate.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Settings or the model.
    #[error(transparent)]
    Learner(#[from] LearnerError),
    /// A disk without room for a checkpoint and a version.
    #[error("{0}")]
    Disk(String),
    /// The learner's thread could not be started.
    #[error("cannot start the learner's thread: {0}")]
    Thread(std::io::Error),
    /// How other ranks are reached.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Rank 0 has something else than this rank.
    #[error("rank 0 at {address} refuses this rank: {message}")]
    RankRefused {
        /// Where rank 0 is.
        address: String,
        /// Message of the failure.
        message: String,
    },
    /// Rank 0 stayed away.
    #[error("rank 0 at {address} has not taken this rank within ranks.join_timeout; at last: {message}")]
    NoRankZero {
        /// Address where the service should be.
        address: String,
        /// Why it was not reached, or what it said.
        message: String,
    },
    /// A defect: the learner's thread panicked before the model was open.
    #[error("the learner's thread ended while loading the model; the log says why")]
    ThreadEnded,
}
