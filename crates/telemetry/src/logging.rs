//! Logs on stderr, as text or JSON lines, filtered by target and level.

use std::io::{self, IsTerminal, Write};

use evenkeel_errors::FieldError;
use evenkeel_errors::shown::{self, without_credentials};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::{self, FormatFields};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use evenkeel_config::Settings;

/// Longest value that is logged, in characters.
const MAX_VALUE_CHARS: usize = 4000;

/// Settings of section `telemetry`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySettings {
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
    /// A JSON object for each line.
    Json,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self { log: "info".to_owned(), log_format: LogFormat::Human, metrics_listen: None }
    }
}

impl Settings for TelemetrySettings {
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
    /// Logging is already set up.
    #[error("logging is already set up: {0}")]
    Again(#[from] TryInitError),
}

/// Sets up logging for the whole process. Call it once.
pub fn init_logging(settings: &TelemetrySettings) -> Result<(), TelemetryError> {
    let ansi = io::stderr().is_terminal();
    let builder = fmt::fmt().with_env_filter(filter(&settings.log)?).with_writer(io::stderr).with_ansi(ansi);
    // A terminal that is gone, as after SIGHUP, must not make logging panic.
    let builder = builder.log_internal_errors(false);
    match settings.log_format {
        LogFormat::Human => builder.fmt_fields(one_line()).finish().try_init()?,
        LogFormat::Json => {
            // Every line includes its spans: run, step and sample.
            let builder = builder.json().flatten_event(true).with_current_span(false);
            builder.with_writer(|| ShortValues(io::stderr())).finish().try_init()?;
        }
    }
    Ok(())
}

/// Fields as `name=value`, escaped so that external values neither end a line nor control the terminal. JSON has its
/// own escaping.
fn one_line() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    debug_fn(|writer, field, value| {
        let value = format!("{value:?}");
        let value = shown::one_line(&value, MAX_VALUE_CHARS);
        match field.name() {
            "message" => write!(writer, "{value}"),
            name => write!(writer, "{}={value}", name.trim_start_matches("r#")),
        }
    })
    .delimited(" ")
}

/// JSON lines with long texts cut, and without the passwords of URLs.
struct ShortValues<W>(W);

impl<W: Write> Write for ShortValues<W> {
    /// Writes an entry as a whole.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let long = entry.len() > MAX_VALUE_CHARS;
        let hidden = std::str::from_utf8(entry).map(without_credentials);
        let shown = hidden.as_ref().map_or(entry, |text| text.as_bytes());
        match serde_json::from_slice(shown) {
            Ok(mut values) if long => {
                cut(&mut values);
                self.0.write_all(format!("{values}\n").as_bytes())?;
            }
            _ => self.0.write_all(shown)?,
        }
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(MAX_VALUE_CHARS) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(values) => values.iter_mut().for_each(cut),
        Value::Object(values) => values.values_mut().for_each(cut),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
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
    fn values_of_json_are_cut_and_stay_json() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let file = Arc::new(log.reopen().unwrap());
        let writer = move || ShortValues(Arc::clone(&file));
        let subscriber = fmt::fmt().json().flatten_event(true).with_current_span(false).with_writer(writer).finish();
        let hostile = format!("a\n\x1b[31m\u{202e}{}", "\x07".repeat(1 << 20));
        tracing::subscriber::with_default(subscriber, || {
            let _entered = tracing::info_span!("call", run_id = %hostile).entered();
            tracing::warn!(id = %hostile, quoted = hostile, count = 7, "refused {hostile}");
            tracing::info!("the next");
        });
        let log = std::fs::read_to_string(log.path()).unwrap();
        assert!(log.len() < 250_000 && !log.contains('\x1b'), "{} bytes", log.len());
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), &lines[0]["count"], &lines[1]["message"]), (2, &7.into(), &"the next".into()));
        let id = lines[0]["id"].as_str().unwrap();
        assert!(id.starts_with("a\n\x1b[31m") && id.ends_with('…') && id.chars().count() == MAX_VALUE_CHARS + 1);
        assert!(lines[0]["spans"][0]["run_id"].as_str().unwrap().chars().count() <= MAX_VALUE_CHARS + 1);
    }

    #[test]
    fn json_lines_carry_the_fields_of_their_spans() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let file = Arc::new(log.reopen().unwrap());
        let builder = fmt::fmt().with_writer(file).json().flatten_event(true).with_current_span(false);
        tracing::subscriber::with_default(builder.finish(), || {
            let _run = tracing::info_span!("run", run = "first").entered();
            let _step = tracing::info_span!("step", step = 3).entered();
            let _sample = tracing::info_span!("sample", sample = "train/3/1/2").entered();
            tracing::warn!(reason = "late", "no verdict");
        });
        let line: Value = serde_json::from_str(&std::fs::read_to_string(log.path()).unwrap()).unwrap();
        assert_eq!((&line["message"], &line["reason"]), (&"no verdict".into(), &"late".into()));
        let spans = line["spans"].as_array().unwrap();
        let field = |name: &str| spans.iter().find_map(|span| span.get(name)).unwrap();
        assert_eq!((field("run"), field("step"), field("sample")), (&"first".into(), &3.into(), &"train/3/1/2".into()));
    }

    #[test]
    fn a_malformed_filter_is_refused_before_it_is_used() {
        let settings = TelemetrySettings { log: "evenkeel=loud".into(), ..TelemetrySettings::default() };
        let error = settings.validate().unwrap_err();
        assert_eq!((error.field.as_str(), error.value.as_str()), ("log", "\"evenkeel=loud\""));
        assert_eq!(TelemetrySettings::default().validate(), Ok(()));
    }
}
