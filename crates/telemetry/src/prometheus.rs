//! Metrics: one recorder for each process, and a route that serves it.

use std::sync::{Mutex, OnceLock, PoisonError};

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::process::process_metrics;

/// Upper bounds of the histogram buckets of every metric that ends in `_seconds`: from one verification to a training
/// step.
pub const DURATION_BUCKETS_SECONDS: [f64; 20] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0,
    60.0, 300.0, 1200.0, 3600.0,
];

/// Reads values that are only read when the metrics are requested. False once there is nothing to read any
/// more.
type Reading = Box<dyn Fn() -> bool + Send + Sync>;

static READINGS: Mutex<Vec<Reading>> = Mutex::new(Vec::new());

/// Access to the metrics of the process.
#[derive(Debug, Clone)]
pub struct MetricsHandle(PrometheusHandle);

impl MetricsHandle {
    /// All metrics in Prometheus's text format, those of the process with them.
    pub fn render(&self) -> String {
        // A poisoned lock is harmless: what is kept are functions.
        READINGS.lock().unwrap_or_else(PoisonError::into_inner).retain(|read| read());
        // Histograms keep every sample until upkeep folds them into buckets.
        self.0.run_upkeep();
        self.0.render() + &process_metrics()
    }

    /// Folds samples into buckets. Call it regularly: without it the memory of a process that is never scraped grows.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

/// Installs the recorder of the process with the first call. `None` if another recorder is installed.
pub fn install_metrics() -> Option<MetricsHandle> {
    static HANDLE: OnceLock<MetricsHandle> = OnceLock::new();
    static INSTALL: Mutex<()> = Mutex::new(());
    // A poisoned lock is harmless: its value is set in one assignment.
    let _guard = INSTALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = HANDLE.get() {
        return Some(handle.clone());
    }
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &DURATION_BUCKETS_SECONDS)
        .expect("the list of buckets is not empty");
    let recorder = builder.build_recorder();
    let handle = MetricsHandle(recorder.handle());
    metrics::set_global_recorder(recorder).ok()?;
    Some(HANDLE.get_or_init(|| handle).clone())
}

/// Has `read` set gauges each time the metrics are asked for, until it returns false. It must be fast.
pub fn on_scrape(read: impl Fn() -> bool + Send + Sync + 'static) {
    READINGS.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(read));
}

/// A router that serves `GET /metrics`.
pub fn metrics_router(handle: MetricsHandle) -> Router {
    let render = move || {
        let text = handle.render();
        async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text) }
    };
    Router::new().route("/metrics", get(render))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_recorder_is_installed_once_and_shared() {
        let first = install_metrics().unwrap();
        let second = install_metrics().unwrap();
        metrics::counter!("evenkeel_test_total").increment(3);
        metrics::histogram!("evenkeel_test_seconds").record(0.003);
        assert!(first.render().contains("evenkeel_test_total 3"));
        assert!(second.render().contains("evenkeel_test_seconds_bucket{le=\"0.005\"} 1"), "{}", second.render());
    }

    #[test]
    fn values_are_read_when_the_metrics_are_asked_for_while_there_is_something_to_read() {
        let handle = install_metrics().unwrap();
        let source = Arc::new(());
        let readings = Arc::new(AtomicUsize::new(0));
        let weak = Arc::downgrade(&source);
        let counted = Arc::clone(&readings);
        on_scrape(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            weak.strong_count() > 0
        });
        drop(handle.render());
        assert!(readings.load(Ordering::Relaxed) >= 1);
        drop(source);
        // The reader finds that there is nothing to read, and is not called again.
        drop(handle.render());
        let last = readings.load(Ordering::Relaxed);
        (0..3).for_each(|_| drop(handle.render()));
        assert_eq!(readings.load(Ordering::Relaxed), last);
    }
}
