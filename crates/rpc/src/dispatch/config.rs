//! Settings of a dispatcher: where its workers are and how much each gets.

use evenkeel_proto::FieldError;
use serde::{Deserialize, Serialize};

use super::Endpoints;
use evenkeel_config::Settings;

/// When an item's deadline begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineStart {
    /// When the caller hands the item over: waiting for a worker counts.
    #[default]
    Submitted,
    /// When a worker gets the item, and anew with each worker: a long queue makes no item late.
    Assigned,
}

/// Workers, and how items are given to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DispatchConfig {
    /// Workers: `http://HOST:PORT` or `https://HOST:PORT` for one, `dns://HOST:PORT` or `dns+tls://HOST:PORT` for every address
    /// behind a name.
    pub endpoints: Vec<String>,
    /// Items that one worker may have at once.
    pub max_outstanding: usize,
    /// Items that may be handed over and not answered, over all workers; who submits more waits.
    pub max_queued: usize,
    /// How often an item may be begun: 2 gives the work of a lost worker to another once more.
    pub max_attempts: u32,
    /// Deadline of items that have none of their own.
    pub item_deadline_ms: u64,
    /// When deadlines begin.
    pub deadline_start: DeadlineStart,
    /// How often names are resolved.
    pub resolve_interval_ms: u64,
    /// How long a connection and its stream may take to stand.
    pub open_timeout_ms: u64,
    /// First pause before a lost worker is tried again; doubles up to `backoff_max_ms`.
    pub backoff_initial_ms: u64,
    /// Longest pause.
    pub backoff_max_ms: u64,
    /// How long a worker may leave a cancelled item unanswered before its stream counts as stuck and is opened anew.
    pub abandon_ms: u64,
}

impl Default for DispatchConfig {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            max_outstanding: 64,
            max_queued: 4096,
            max_attempts: 3,
            item_deadline_ms: 600_000,
            deadline_start: DeadlineStart::default(),
            resolve_interval_ms: 3_000,
            open_timeout_ms: 10_000,
            backoff_initial_ms: 100,
            backoff_max_ms: 5_000,
            abandon_ms: 15_000,
        }
    }
}

impl Settings for DispatchConfig {
    fn validate(&self) -> Result<(), FieldError> {
        let positive = [
            ("max_outstanding", self.max_outstanding as u64),
            ("max_queued", self.max_queued as u64),
            ("max_attempts", self.max_attempts.into()),
            ("item_deadline_ms", self.item_deadline_ms),
            ("resolve_interval_ms", self.resolve_interval_ms),
            ("open_timeout_ms", self.open_timeout_ms),
            ("backoff_initial_ms", self.backoff_initial_ms),
            ("abandon_ms", self.abandon_ms),
        ];
        if let Some((field, _)) = positive.into_iter().find(|&(_, value)| value == 0) {
            return Err(FieldError::new(field, 0, "at least 1"));
        }
        if self.backoff_max_ms < self.backoff_initial_ms {
            let allowed = format!("at least backoff_initial_ms, which is {}", self.backoff_initial_ms);
            return Err(FieldError::new("backoff_max_ms", self.backoff_max_ms, allowed));
        }
        Endpoints::parse(&self.endpoints).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let good = DispatchConfig { endpoints: vec!["http://a:1".into()], ..DispatchConfig::default() };
        assert_eq!(good.validate(), Ok(()));
        let refused = |config: DispatchConfig| config.validate().unwrap_err().to_string();
        assert_eq!(
            refused(DispatchConfig { max_attempts: 0, ..good.clone() }),
            "max_attempts is 0, allowed: at least 1"
        );
        assert_eq!(
            refused(DispatchConfig { backoff_max_ms: 1, ..good.clone() }),
            "backoff_max_ms is 1, allowed: at least backoff_initial_ms, which is 100"
        );
        assert!(refused(DispatchConfig { endpoints: vec![], ..good }).starts_with("endpoints is empty"));
    }
}
