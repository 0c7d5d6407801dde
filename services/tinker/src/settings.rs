//! The settings of the front.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, Settings, at_least_1ms, at_least_one};
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientSettings;
use evenkeel_rpc::exposure::{Protection, validate_address};
use evenkeel_rpc::server::ServerTlsSettings;
use evenkeel_trust::ProofSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of a client's `train_unembed`, which is true by default, where adapters of the output head are not
/// trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnembedSetting {
    /// A model that is created with it is refused: the client has to pass `train_unembed=False`.
    #[default]
    Refuse,
    /// The head stays as it is. Clients are warned when their session begins, and are told that it is not trained.
    Frozen,
}

/// A front that speaks Tinker's HTTP API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TinkerSettings {
    /// Address to listen on, `HOST:PORT`; port 0 takes any free one.
    pub listen: String,
    /// Whether other machines may be served in plaintext, or with `tls` without credentials: `token_file` or
    /// `tls.client_ca_file`.
    pub insecure: bool,
    /// TLS certificates. Absent: plaintext.
    pub tls: Option<ServerTlsSettings>,
    /// File with the keys, one on each line, of which a client must have one as its API key. The SDK takes keys that
    /// begin with `tml-`. Absent: any key.
    pub token_file: Option<PathBuf>,
    /// The name under which clients ask for the model. Required: the cookbook looks it up in a table of its own.
    pub model_name: String,
    /// The tokenizer that clients are told to load. Absent: `model_name`.
    pub tokenizer: Option<String>,
    /// The folder of what survives a restart: sessions, checkpoints, weights. It is made for its user alone; refused are
    /// a link, a folder of another user, and one that others may write to.
    pub folder: PathBuf,
    /// What becomes of `train_unembed`, which clients set unless they are told not to.
    pub unembed: UnembedSetting,
    /// How long a session may be silent before its client counts as gone, and another may take the model over. The SDK
    /// reports every 10 seconds.
    #[serde(with = "HumanDuration")]
    pub session_expiry: Duration,
    /// How long training requests wait for one with a lower `seq_id` that has not arrived. Then it counts as refused.
    #[serde(with = "HumanDuration")]
    pub missing_request: Duration,
    /// How long a request for a result waits for it. The SDK waits 45 seconds.
    #[serde(with = "HumanDuration")]
    pub hold: Duration,
    /// How long a result that was fetched is kept for a client that lost it; five seconds where memory is short. One
    /// that was not is kept until its session ends.
    #[serde(with = "HumanDuration")]
    pub keep_results: Duration,
    /// Largest request.
    pub max_body: ByteSize,
    /// Memory for requests that wait and results that are kept, beside twice `max_body` for requests that arrive. Further
    /// ones are answered 429. Not below twice `max_body`.
    pub max_memory: ByteSize,
    /// Requests that wait or run; further ones are answered 429.
    pub max_requests: usize,
    /// Connections at once, at most half of what the process may open (`ulimit -n`); further ones wait.
    pub max_connections: usize,
    /// Weights without a name that a session may sample from: the newest of them. Those with a name, and checkpoints,
    /// are kept until they expire or are deleted.
    pub keep_samplers: usize,
    /// Time limit of a sample, from when the engines have it.
    #[serde(with = "HumanDuration")]
    pub sample_deadline: Duration,
    /// How long the learner or the generation service may be unreachable before an operation fails.
    #[serde(with = "HumanDuration")]
    pub outage_timeout: Duration,
    /// Proof that engines have the weights that they load, before anything is sampled: as in a run, where every load is
    /// a step. `every` is 1, or 0 for no proof.
    pub proof: ProofSettings,
    /// Connections to the learner and the generation service.
    pub client: ClientSettings,
}

impl Default for TinkerSettings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8010".to_owned(),
            insecure: false,
            tls: None,
            token_file: None,
            model_name: String::new(),
            tokenizer: None,
            folder: "tinker".into(),
            unembed: UnembedSetting::default(),
            session_expiry: Duration::from_secs(120),
            missing_request: Duration::from_secs(60),
            hold: Duration::from_secs(30),
            keep_results: Duration::from_secs(600),
            max_body: ByteSize::mib(28),
            max_memory: ByteSize::mib(512),
            max_requests: 4096,
            max_connections: 512,
            keep_samplers: 64,
            sample_deadline: Duration::from_secs(3600),
            outage_timeout: Duration::from_secs(300),
            proof: ProofSettings::default(),
            client: ClientSettings::default(),
        }
    }
}

impl TinkerSettings {
    pub(crate) fn protection(&self) -> Protection {
        Protection {
            insecure: self.insecure,
            tls: self.tls.is_some(),
            authenticates: self.token_file.is_some()
                || self.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some()),
            credentials: "`token_file` or `tls.client_ca_file`",
        }
    }

    /// The tokenizer that clients are told to load.
    pub(crate) fn tokenizer_name(&self) -> &str {
        self.tokenizer.as_deref().unwrap_or(&self.model_name)
    }
}

impl Settings for TinkerSettings {
    fn validate(&self) -> Result<(), FieldError> {
        validate_address("listen", &self.listen)?;
        self.protection().validate("listen", &self.listen)?;
        if self.model_name.is_empty() {
            return Err(FieldError::missing("model_name", "a name, such as one of tinker-cookbook's table"));
        }
        if self.folder.as_os_str().is_empty() {
            return Err(FieldError::missing("folder", "a folder"));
        }
        self.client.validate().map_err(|error| error.within("client"))?;
        at_least_1ms(&[
            ("session_expiry", self.session_expiry),
            ("missing_request", self.missing_request),
            ("hold", self.hold),
            ("sample_deadline", self.sample_deadline),
        ])?;
        at_least_one(&[
            ("max_body", self.max_body.bytes()),
            ("max_requests", self.max_requests as u64),
            ("max_connections", self.max_connections as u64),
            ("keep_samplers", self.keep_samplers as u64),
        ])?;
        if self.max_memory.bytes() < 2 * self.max_body.bytes() {
            let allowed = format!("at least twice max_body, which is {}", self.max_body);
            return Err(FieldError::new("max_memory", self.max_memory, allowed));
        }
        if self.client.max_message < self.max_body {
            let allowed = format!("at least max_body, which is {}", self.max_body);
            return Err(FieldError::new("client.max_message", self.client.max_message, allowed));
        }
        self.proof.validate().map_err(|error| error.within("proof"))?;
        FieldError::ensure(self.proof.every <= 1, "proof.every", self.proof.every, "1, or 0 for no proof")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_proven_at_each_load_or_never() {
        let validate = |every| {
            let proof = ProofSettings { every, ..ProofSettings::default() };
            TinkerSettings { model_name: "a".to_owned(), proof, ..TinkerSettings::default() }.validate()
        };
        assert_eq!((validate(0), validate(1)), (Ok(()), Ok(())));
        assert_eq!(validate(2).unwrap_err().to_string(), "proof.every is 2, allowed: 1, or 0 for no proof");
    }
}
