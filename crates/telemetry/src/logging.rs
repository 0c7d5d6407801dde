//! Logs on stderr, as text or JSON lines, filtered by target and level.

use std::io::IsTerminal;

use evenkeel_errors::FieldError;
use evenkeel_errors::shown::shown;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::{self, FormatFields};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use evenkeel_config::Settings;

/// Longest value that is logged, in characters.
const MAX_VALUE_CHARS: usize = 4000;

/// Settings `telemetry`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// Filter: a level, or `target=level` pairs separated by commas.
    pub log: String,
    /// Format of a line.
    pub log_format: LogFormat,
    /// Address that serves `/metrics`, `HOST:PORT`. Absent: it is not served.
    pub metrics_listen: Option<String>,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text, coloured in a terminal.
    #[default]
    Human,
    /// A JSON object per line.
    Json,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { log: "info".to_owned(), log_format: LogFormat::Human, metrics_listen: None }
    }
}

impl Settings for TelemetryConfig {
    fn validate(&self) -> Result<(), FieldError> {
        filter(&self.log).map(drop)
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is malformed.
    #[error(transparent)]
    Filter(#[from] FieldError),
    /// Logging was set up before.
    #[error("logging was set up before: {0}")]
    Again(#[from] TryInitError),
}

/// Sets up logging for the whole process; once.
pub fn init_logging(config: &TelemetryConfig) -> Result<(), TelemetryError> {
    let ansi = std::io::stderr().is_terminal();
    let builder = fmt::fmt().with_env_filter(filter(&config.log)?).with_writer(std::io::stderr).with_ansi(ansi);
    match config.log_format {
        LogFormat::Human => builder.fmt_fields(one_line()).finish().try_init()?,
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init()?,
    }
    Ok(())
}

/// Fields as `name=value`, escaped: values from outside neither end a line nor control the terminal. JSON does its own escaping.
fn one_line() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    debug_fn(|writer, field, value| {
        let value = format!("{value:?}");
        let value = shown(&value, MAX_VALUE_CHARS);
        match field.name() {
            "message" => write!(writer, "{value}"),
            name => write!(writer, "{}={value}", name.trim_start_matches("r#")),
        }
    })
    .delimited(" ")
}

fn filter(text: &str) -> Result<EnvFilter, FieldError> {
    EnvFilter::builder().parse(text).map_err(|error| {
        let allowed =
            format!("a level (error, warn, info, debug, trace) or target=level pairs separated by commas ({error})");
        FieldError::new("log", format_args!("{text:?}"), allowed)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn values_from_outside_neither_end_a_line_nor_reach_the_terminal() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let file = Arc::new(log.reopen().unwrap());
        let subscriber = fmt::fmt().with_writer(file).with_ansi(false).fmt_fields(one_line()).finish();
        let hostile = format!("a\n INFO forged \x1b[31m{}", "x".repeat(1 << 20));
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("call", run_id = %hostile);
            let _entered = span.enter();
            tracing::warn!(id = %hostile, quoted = hostile, "refused {hostile}");
        });
        let log = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(log.lines().count(), 1);
        assert!(!log.contains('\x1b') && log.len() < 20_000, "{} bytes", log.len());
        assert!(log.contains(r"id=a\n INFO forged \u{1b}[31mxxx") && log.contains("refused a"), "{}", &log[..300]);
    }

    #[test]
    fn a_malformed_filter_is_refused_before_it_is_used() {
        let config = TelemetryConfig { log: "evenkeel=loud".into(), ..TelemetryConfig::default() };
        let error = config.validate().unwrap_err();
        assert_eq!((error.field.as_str(), error.value.as_str()), ("log", "\"evenkeel=loud\""));
        assert_eq!(TelemetryConfig::default().validate(), Ok(()));
    }
}
