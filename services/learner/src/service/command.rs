//! Commands for the thread that owns the learner.

use evenkeel_proto::v1::{
    LoadCheckpointRequest, LoadCheckpointResponse, OperateRequest, OperateResponse, PublishRequest, PublishResponse,
    ResetRequest, ResetResponse, SaveCheckpointRequest, SaveCheckpointResponse, TrainHeader,
};
use evenkeel_rpc::error::ServiceError;
use tokio::sync::oneshot;

use super::train_call::TrainCall;

/// Where the answer goes; it is discarded if the caller has left.
pub(super) type Reply<T> = oneshot::Sender<Result<T, ServiceError>>;

/// Work for the thread that owns the learner, besides sequences to score.
pub(super) enum Command {
    /// A training step, whose parts arrive on a separate channel.
    Train { header: Box<TrainHeader>, call: TrainCall },
    /// Weights for engines.
    Publish { request: PublishRequest, reply: Reply<PublishResponse> },
    /// A checkpoint to write.
    Save { request: SaveCheckpointRequest, reply: Reply<SaveCheckpointResponse> },
    /// A checkpoint to continue from.
    Load { request: LoadCheckpointRequest, reply: Reply<LoadCheckpointResponse> },
    /// The initial weights.
    Reset { request: ResetRequest, reply: Reply<ResetResponse> },
    /// One operation of a caller that trains in its own.
    Operate { request: Box<OperateRequest>, reply: Reply<OperateResponse> },
}

impl Command {
    /// Answers with an error.
    pub(super) fn refuse(self, error: ServiceError) {
        // A caller that has left gets nothing.
        match self {
            Self::Train { call, .. } => call.finish(Err(error)),
            Self::Publish { reply, .. } => drop(reply.send(Err(error))),
            Self::Save { reply, .. } => drop(reply.send(Err(error))),
            Self::Load { reply, .. } => drop(reply.send(Err(error))),
            Self::Reset { reply, .. } => drop(reply.send(Err(error))),
            Self::Operate { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}
