//! Steps whose gradients are probed.

use evenkeel_learner::{ProbeSettings, TrainingSettings};
use evenkeel_proto::v1::TrainReport;

use super::{start, start_training};
use crate::support::settings;

#[tokio::test]
async fn steps_that_are_due_report_the_gradient_of_every_rule_and_train_alike() {
    let probed = TrainingSettings { probe_gradients: ProbeSettings { every: 2, rules: Vec::new() }, ..settings() };
    let mut probed = start_training(probed).await;
    let mut plain = start().await;
    assert_eq!(probed.hash, plain.hash);
    for step in 0..3 {
        let found = probed.step(step + 1, step).await.unwrap();
        let known = plain.step(step + 1, step).await.unwrap();
        let own = |name: &str| name.starts_with("probe/") || name == "timing_s/probe_gradients";
        let is_due = step != 1;
        assert_eq!(found.metrics.keys().any(|name| own(name)), is_due, "step {step}");
        if is_due {
            let norm = found.metrics["probe/balanced/grad_norm"];
            assert!((norm / found.gradient_norm.unwrap() - 1.0).abs() < 1e-5, "step {step}: {norm}");
            let rate = found.metrics["probe/balanced/learning_rate"];
            assert!((rate / found.learning_rate - 1.0).abs() < 1e-12, "step {step}: {rate}");
            assert!(found.metrics["probe/token/cosine/balanced"] < 1.0);
            assert!(!found.metrics.contains_key("probe/balanced/cosine/token"), "each pair once");
        }
        let rest = |report: &TrainReport| {
            let metrics =
                report.metrics.iter().filter(|(name, _)| !own(name)).map(|(name, value)| (name.clone(), *value));
            (metrics.collect::<std::collections::BTreeMap<_, _>>(), report.loss, report.gradient_norm)
        };
        assert_eq!(rest(&found), rest(&known));
        let quarters: f64 = (1..5).map(|quarter| found.metrics[&format!("aggregation/token/share_q{quarter}")]).sum();
        assert!((quarters - 1.0).abs() < 3e-4, "{quarters}");
    }
}
