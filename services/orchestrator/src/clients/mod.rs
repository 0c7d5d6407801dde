//! The three services as the loop calls them: with deadlines, again where they are gone, and never past a stop.

mod calls;
mod feed;
mod outage;
mod retrier;
mod services;
mod stop;
mod train;

pub(crate) use feed::Feed;
pub(crate) use outage::Outage;
pub(crate) use retrier::Retrier;
pub(crate) use services::Services;
pub(crate) use stop::Stop;

/// Where the services are. All of them speak gRPC, also within one process.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoints {
    /// The generation service, `http://HOST:PORT` or `https://HOST:PORT`; it stands for all engines behind it.
    pub generation: String,
    /// Reward workers, one URL each, or `dns://HOST:PORT` for every address behind a name.
    pub reward: Vec<String>,
    /// The learner.
    pub learner: String,
}
