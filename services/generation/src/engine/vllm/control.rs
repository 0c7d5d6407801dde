//! Health and weight updates: vLLM's development routes.

use evenkeel_proto::v1::SleepLevel;
use serde::Deserialize;
use serde_json::{Value, json};

use super::VllmClient;
use crate::engine::{EngineClientError, EnginePause, WakeTarget};

/// Seconds after which the engine itself gives up on its workers. Longer than any caller waits: the caller's deadline
/// decides.
pub(super) const COLLECTIVE_TIMEOUT_S: u64 = 3600;

impl VllmClient {
    pub(super) async fn check_health(&self) -> Result<(), EngineClientError> {
        self.control.get("/health", self.control_timeout).await.map(drop)
    }

    /// `None` before vLLM 0.28, which lacks the route.
    pub(super) async fn weight_info(&self) -> Result<Option<String>, EngineClientError> {
        #[derive(Deserialize)]
        struct Info {
            weight_version: Value,
        }
        let body = match self.control.get("/weight_info", self.control_timeout).await {
            Ok(body) => body,
            Err(error) if error.is_missing_route() => return Ok(None),
            Err(error) => return Err(error),
        };
        match serde_json::from_slice::<Info>(&body) {
            Ok(Info { weight_version: Value::String(label) }) => Ok(Some(label)),
            Ok(Info { weight_version: Value::Null }) => Ok(None),
            // A label set by another program may be a number.
            Ok(Info { weight_version }) => Ok(Some(weight_version.to_string())),
            Err(error) => Err(EngineClientError::invalid("weight_info", error, "an object with weight_version")),
        }
    }

    pub(super) async fn post_pause(&self, mode: EnginePause, clear_cache: bool) -> Result<(), EngineClientError> {
        let mode = match mode {
            EnginePause::Abort => "abort",
            EnginePause::Wait => "wait",
        };
        let query = format!("?mode={mode}&clear_cache={clear_cache}");
        // No timeout: an engine that waits for its samples takes as long as they do.
        self.control.post("/pause", &query, None, None).await.map(drop)
    }

    pub(super) async fn reload_weights(&self, path: &str) -> Result<(), EngineClientError> {
        let body = json!({
            "method": "reload_weights",
            "kwargs": { "weights_path": path },
            "timeout": COLLECTIVE_TIMEOUT_S,
        });
        self.control.post("/collective_rpc", "", Some(&body), None).await.map(drop)
    }

    /// False before vLLM 0.28, which lacks the route.
    pub(super) async fn update_weight_version(&self, label: &str) -> Result<bool, EngineClientError> {
        let body = json!({ "new_version": label });
        match self.control.post("/update_weight_version", "", Some(&body), Some(self.control_timeout)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_missing_route() => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn post_resume(&self) -> Result<(), EngineClientError> {
        self.control.post("/resume", "", None, Some(self.control_timeout)).await.map(drop)
    }

    /// Requires an engine started with `--enable-sleep-mode`. It stops sampling as after a pause.
    pub(super) async fn post_sleep(&self, level: SleepLevel) -> Result<(), EngineClientError> {
        let level = if level == SleepLevel::Discard { 2 } else { 1 };
        // No timeout: copying weights to host memory takes as long as it does.
        self.control.post("/sleep", &format!("?level={level}&mode=wait"), None, None).await.map(drop)
    }

    pub(super) async fn post_wake_up(&self, target: WakeTarget) -> Result<(), EngineClientError> {
        // One by one: a tag that is awake already is skipped only if it is named.
        let queries: &[&str] = match target {
            WakeTarget::Weights => &["?tags=weights"],
            WakeTarget::Cache => &["?tags=kv_cache"],
            WakeTarget::All => &["?tags=weights", "?tags=kv_cache"],
        };
        for query in queries {
            self.control.post("/wake_up", query, None, Some(self.wake_timeout)).await?;
        }
        Ok(())
    }

    /// `None` without the route.
    pub(super) async fn is_sleeping(&self) -> Result<Option<bool>, EngineClientError> {
        self.get_flag("/is_sleeping", "is_sleeping").await
    }

    /// `None` without the routes.
    pub(super) async fn is_paused(&self) -> Result<Option<bool>, EngineClientError> {
        self.get_flag("/is_paused", "is_paused").await
    }

    /// A route that responds with an object whose `field` is true or false.
    async fn get_flag(&self, route: &'static str, field: &str) -> Result<Option<bool>, EngineClientError> {
        let body = match self.control.get(route, self.control_timeout).await {
            Ok(body) => body,
            Err(error) if error.is_missing_route() => return Ok(None),
            Err(error) => return Err(error),
        };
        let answer = serde_json::from_slice::<Value>(&body).ok().and_then(|answer| answer[field].as_bool());
        let refused =
            || EngineClientError::invalid(field, String::from_utf8_lossy(&body), format!("an object with {field}"));
        answer.map(Some).ok_or_else(refused)
    }
}
