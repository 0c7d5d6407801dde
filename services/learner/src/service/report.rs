//! A step's report as a message, with measurements under verl's names if verl has them.

use std::collections::BTreeMap;

use evenkeel_objective::{KlStats, MismatchByLag, PolicyStats};
use evenkeel_proto::v1::{TrainHeader, TrainKind, TrainReport};

use crate::{RuleGradient, SkipReason, StepReport, SupervisedReport, UpdateStats};

/// Tokens received, which the learner's own report does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) prompt_tokens: u64,
    pub(super) response_tokens: u64,
    pub(super) trainable_tokens: u64,
}

pub(super) fn grpo(header: &TrainHeader, report: &StepReport, counts: Counts) -> TrainReport {
    let updates = &report.updates;
    let mean = |value: fn(&UpdateStats) -> f64| match updates.is_empty() {
        true => None,
        false => Some(updates.iter().map(value).sum::<f64>() / updates.len() as f64),
    };
    // A step is skipped if none of its updates changed anything.
    let skip_reason = match updates.last().map(|last| last.skipped) {
        None => Some("no_trainable_token"),
        Some(Some(reason)) if updates.iter().all(|update| update.skipped.is_some()) => Some(reason.label()),
        Some(_) => None,
    };
    TrainReport {
        run_id: header.run_id.clone(),
        step: header.step,
        kind: TrainKind::Grpo.into(),
        base_version: header.base_version,
        version: report.version,
        skipped: skip_reason.is_some(),
        skip_reason: skip_reason.unwrap_or_default().into(),
        loss: mean(|update| update.loss).unwrap_or(0.0),
        gradient_norm: mean(|update| update.grad_norm),
        learning_rate: updates.last().map_or(0.0, |update| update.learning_rate),
        groups: report.groups as u32,
        groups_without_signal: (report.groups - report.groups_with_signal) as u32,
        samples: report.responses as u32,
        invalid_samples: report.invalid as u32,
        prompt_tokens: counts.prompt_tokens,
        response_tokens: counts.response_tokens,
        trainable_tokens: counts.trainable_tokens,
        metrics: metrics(report, mean(|update| update.policy_loss)),
        timings: None,
    }
}

pub(super) fn supervised(header: &TrainHeader, report: SupervisedReport, counts: Counts) -> TrainReport {
    TrainReport {
        run_id: header.run_id.clone(),
        step: header.step,
        kind: TrainKind::Supervised.into(),
        base_version: header.base_version,
        version: report.version,
        skipped: report.skipped.is_some(),
        skip_reason: report.skipped.map(SkipReason::label).unwrap_or_default().into(),
        loss: report.loss,
        gradient_norm: Some(report.grad_norm),
        learning_rate: report.learning_rate,
        samples: header.expected_examples,
        prompt_tokens: counts.prompt_tokens,
        response_tokens: counts.response_tokens,
        trainable_tokens: report.tokens as u64,
        ..TrainReport::default()
    }
}

fn metrics(report: &StepReport, policy_loss: Option<f64>) -> BTreeMap<String, f64> {
    let (mut policy, mut kl) = (PolicyStats::default(), KlStats::default());
    for update in &report.updates {
        policy.add(&update.policy);
        kl.add(&update.kl);
    }
    let mut out = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            out.insert(name.to_owned(), value);
        }
    };
    let largest = report.updates.iter().map(|update| update.largest_ratio).reduce(f64::max);
    let first = report.updates.first();
    put("actor/pg_loss", policy_loss);
    put("actor/pg_clipfrac", policy.clip_fraction());
    put("actor/pg_clipfrac_lower", policy.clip_fraction_lower());
    put("actor/ppo_kl", policy.ppo_kl());
    put("actor/entropy", first.and_then(|update| update.entropy));
    put("actor/kl_loss", (kl.tokens > 0).then(|| report.updates.iter().map(|update| update.kl_loss).sum()));
    put("actor/ratio_max", largest);
    put("rollout_corr/logp_gap", first.and_then(|update| update.rollout_gap));
    put("rollout_corr/weight_mean", policy.correction_mean());
    put("rollout_corr/bounded_fraction", policy.correction_fraction());

    let quantities = &report.quantities;
    put("aggregation/length_cv", quantities.length_variation);
    put("aggregation/length_cv_pooled", quantities.length_variation_pooled);
    put("aggregation/length_gap", quantities.length_gap);
    put("aggregation/length_gap_pooled", quantities.length_gap_pooled);
    for (rule, pull) in &quantities.pulls {
        put(&format!("aggregation/{rule}/pull_positive"), Some(pull.positive));
        put(&format!("aggregation/{rule}/pull_negative"), Some(pull.negative));
        put(&format!("aggregation/{rule}/bias"), pull.bias());
    }
    if let Some(pull) = quantities.pulls.get(&report.aggregation) {
        put("aggregation/pull_positive", Some(pull.positive));
        put("aggregation/pull_negative", Some(pull.negative));
    }
    for (quarter, length) in (1..).zip(quantities.length_quarters.iter().flatten()) {
        put(&format!("aggregation/length_q{quarter}"), Some(rounded(*length)));
    }
    for (rule, by_length) in &quantities.by_length {
        for (quarter, (share, weight)) in (1..).zip(by_length.share.iter().zip(&by_length.weight)) {
            put(&format!("aggregation/{rule}/share_q{quarter}"), Some(rounded(*share)));
            put(&format!("aggregation/{rule}/weight_q{quarter}"), Some(rounded(*weight)));
        }
    }
    for (name, value) in report.lags.iter().flat_map(by_lag) {
        put(&name, value);
    }
    if let Some(probe) = &report.probe {
        let learning_rate = first.map(|update| update.learning_rate);
        for RuleGradient { aggregation: rule, norm, cosines, .. } in &probe.rules {
            put(&format!("probe/{rule}/grad_norm"), Some(*norm));
            let as_long = learning_rate.and_then(|rate| probe.learning_rate(*rule, report.aggregation, rate));
            put(&format!("probe/{rule}/learning_rate"), as_long);
            for (RuleGradient { aggregation: other, .. }, cosine) in probe.rules.iter().zip(cosines) {
                // The matrix is symmetric: report each pair once.
                if rule < other {
                    put(&format!("probe/{rule}/cosine/{other}"), *cosine);
                }
            }
        }
        put("timing_s/probe_gradients", Some(probe.took.as_secs_f64()));
    }
    out
}

/// Statistics by lag, each under its name.
fn by_lag(lags: &MismatchByLag) -> Vec<(String, Option<f64>)> {
    let tokens = lags.tokens() as f64;
    let mut all = vec![("lag/mean".to_owned(), lags.mean_lag())];
    for (lag, of_lag) in lags.iter() {
        let values = [
            ("share", Some(of_lag.tokens() as f64 / tokens)),
            ("ratio/p1", of_lag.ratio_quantile(0.01)),
            ("ratio/p50", of_lag.ratio_quantile(0.5)),
            ("ratio/p99", of_lag.ratio_quantile(0.99)),
            ("ess", of_lag.sample_size_of_factors()),
            ("ratio_ess", of_lag.ratio_sample_size()),
            ("bounded_fraction", of_lag.bounded_fraction()),
            ("kl_k1", of_lag.kl_k1()),
            ("kl_k3", of_lag.kl_k3()),
        ];
        all.extend(values.map(|(name, value)| (format!("lag/{lag}/{name}"), value)));
    }
    all
}

/// Rounded to four decimals: a line has many of them, and nobody needs more.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
