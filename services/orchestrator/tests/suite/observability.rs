//! What a run counts and times for Prometheus.

use evenkeel_proto::v1::InvalidReason;
use evenkeel_telemetry::install_metrics;

use crate::support::{Cluster, bounded, recipe, temp};

/// The value of a series, which includes what other tests of this process have counted.
fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_counts_its_steps_samples_groups_and_retries_and_times_its_phases() {
    bounded(async {
        let metrics = install_metrics().unwrap();
        let before = metrics.render();
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let late = |id: &str, _: u32| (id == "train/2/4/1").then_some(InvalidReason::Deadline);
        *cluster.reward.state.script.lock().unwrap() = Some(Box::new(late));
        cluster.generation.state.identical.lock().unwrap().replace(Box::new(|group| group == "train/1/1"));
        let mut recipe = recipe();
        recipe.services.max_late_share = 0.1;
        cluster.run(&path, &recipe).await.1.unwrap();
        let after = metrics.render();
        let added = |series: &str| value(&after, series) - value(&before, series);
        // Runs of other tests may have added to them meanwhile.
        let least = [
            ("evenkeel_run_steps_total{kind=\"warm_start\"}", 2.0),
            ("evenkeel_run_steps_total{kind=\"train\"}", 6.0),
            ("evenkeel_run_steps_total{kind=\"evaluation\"}", 2.0),
            ("evenkeel_run_samples_total{status=\"valid\"}", 95.0 + 10.0),
            ("evenkeel_run_samples_total{status=\"late\"}", 1.0),
            ("evenkeel_run_groups_total{result=\"trained_zero_advantage\"}", 1.0),
            ("evenkeel_run_retries_total{service=\"reward\"}", 2.0),
            ("evenkeel_runs_total{state=\"completed\"}", 1.0),
        ];
        for (series, least) in least {
            assert!(added(series) >= least, "{series} grew by {}, expected {least}", added(series));
        }
        let phases = [
            "warm_start",
            "generation",
            "reward",
            "update_actor",
            "update_weights",
            "step",
            "evaluation",
            "checkpoint",
        ];
        for phase in phases {
            let count = added(&format!("evenkeel_run_phase_seconds_count{{phase=\"{phase}\"}}"));
            assert!(count >= 2.0, "{phase} was timed {count} times");
        }
        assert!(added("evenkeel_run_response_tokens_total") > 96.0);
    })
    .await;
}
