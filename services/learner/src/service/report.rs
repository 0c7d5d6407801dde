//! A step's report as a message, with measurements under verl's names if verl has them.

use std::collections::BTreeMap;

use evenkeel_objective::{MismatchByLag, PolicyStats};
use evenkeel_proto::v1::{SampleReport, TrainHeader, TrainKind, TrainReport};
use evenkeel_run::metric::{MetricName, table as metric};

use crate::{ResponseGroup, ResponseReport, RuleGradient, SkipReason, StepReport, SupervisedReport, UpdateStats};

/// Tokens received, which the learner's own report does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenCounts {
    pub(super) prompt_tokens: u64,
    pub(super) response_tokens: u64,
    pub(super) trainable_tokens: u64,
}

impl TokenCounts {
    /// Adds the tokens of a group.
    pub(crate) fn add(&mut self, group: &ResponseGroup) {
        self.prompt_tokens += group.prompt.len() as u64;
        for response in &group.responses {
            self.response_tokens += response.tokens.len() as u64;
            self.trainable_tokens += response.trainable() as u64;
        }
    }
}

pub(crate) fn grpo(header: &TrainHeader, report: &StepReport, counts: TokenCounts) -> TrainReport {
    let updates = &report.updates;
    let mean = |value: fn(&UpdateStats) -> f64| {
        if updates.is_empty() { None } else { Some(updates.iter().map(value).sum::<f64>() / updates.len() as f64) }
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
        equal_tokens: report.compared.equal as u64,
        uncompared_tokens: if header.equal_arithmetic.is_empty() { 0 } else { report.compared.uncompared as u64 },
        sample_reports: if header.report_samples {
            report.response_reports.iter().map(sample_report).collect()
        } else {
            Vec::new()
        },
    }
}

fn sample_report(response: &ResponseReport) -> SampleReport {
    let ResponseReport { advantage, weight, trained, logp: log_probability, ratio } = *response;
    SampleReport { advantage, weight, trained, log_probability, ratio }
}

pub(super) fn supervised(header: &TrainHeader, report: SupervisedReport, counts: TokenCounts) -> TrainReport {
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
    let mut policy = PolicyStats::default();
    for update in &report.updates {
        policy.add(&update.policy);
    }
    let mut out = BTreeMap::new();
    let mut put = |name: MetricName, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            out.insert(name.into(), value);
        }
    };
    let largest = report.updates.iter().map(|update| update.largest_ratio).reduce(f64::max);
    let first = report.updates.first();
    put(metric::POLICY_LOSS.into(), policy_loss);
    // Without a bonus it has no part in the loss.
    let has_bonus = report.updates.iter().any(|update| update.entropy_loss != 0.0);
    let bonus = report.updates.iter().map(|update| update.entropy_loss).sum::<f64>() / report.updates.len() as f64;
    put(metric::ENTROPY_LOSS.into(), has_bonus.then_some(bonus));
    put(metric::CLIPPED.into(), policy.clip_fraction());
    put(metric::CLIPPED_LOWER.into(), policy.clip_fraction_lower());
    put(metric::POLICY_KL.into(), policy.ppo_kl());
    put(metric::ENTROPY.into(), first.and_then(|update| update.entropy));
    let moved: Vec<f64> = report.updates.iter().filter_map(|update| update.update_norm).collect();
    put(metric::UPDATE_NORM.into(), (!moved.is_empty()).then(|| moved.iter().sum::<f64>() / moved.len() as f64));
    report.metrics.iter().for_each(|(name, value)| put(name.clone(), Some(*value)));
    put(metric::LARGEST_RATIO.into(), largest);
    put(metric::LOGP_GAP.into(), first.and_then(|update| update.rollout_gap));
    put(metric::CORRECTION.into(), policy.correction_mean());
    put(metric::BOUNDED.into(), policy.correction_fraction());

    let quantities = &report.quantities;
    put(metric::LENGTH_VARIATION.into(), quantities.length_variation);
    put(metric::LENGTH_VARIATION_POOLED.into(), quantities.length_variation_pooled);
    put(metric::LENGTH_GAP.into(), quantities.length_gap);
    put(metric::LENGTH_GAP_POOLED.into(), quantities.length_gap_pooled);
    for (rule, pull) in &quantities.pulls {
        put(metric::RULE_PULL.of([rule, &"positive"]), Some(pull.positive));
        put(metric::RULE_PULL.of([rule, &"negative"]), Some(pull.negative));
        put(metric::RULE_BIAS.of([rule]), pull.bias());
    }
    if let Some(pull) = quantities.pulls.get(&report.aggregation) {
        put(metric::PULL.of([&"positive"]), Some(pull.positive));
        put(metric::PULL.of([&"negative"]), Some(pull.negative));
    }
    if let Some(sides) = report.sides {
        put(metric::SIDE_RATIO.into(), Some(sides.ratio));
        put(metric::SILENCED_GROUPS.into(), Some(sides.silenced_groups as f64));
    }
    for (quarter, length) in (1..).zip(quantities.length_quarters.iter().flatten()) {
        put(metric::QUARTER_LENGTH.of([&quarter]), Some(rounded(*length)));
    }
    for (rule, by_length) in &quantities.by_length {
        for (quarter, (share, weight)) in (1..).zip(by_length.share.iter().zip(&by_length.weight)) {
            put(metric::RULE_SHARE.of([rule, &quarter]), Some(rounded(*share)));
            put(metric::RULE_WEIGHT.of([rule, &quarter]), Some(rounded(*weight)));
        }
    }
    for (name, value) in report.lags.iter().flat_map(by_lag) {
        put(name, value);
    }
    if let Some(probe) = &report.probe {
        let learning_rate = first.map(|update| update.learning_rate);
        for RuleGradient { aggregation: rule, norm, cosines, .. } in &probe.rules {
            put(metric::PROBE_NORM.of([rule]), Some(*norm));
            let as_long = learning_rate.and_then(|rate| probe.learning_rate(*rule, report.aggregation, rate));
            put(metric::PROBE_RATE.of([rule]), as_long);
            for (RuleGradient { aggregation: other, .. }, cosine) in probe.rules.iter().zip(cosines) {
                // The matrix is symmetric: report each pair once.
                if rule < other {
                    put(metric::PROBE_COSINE.of([rule, other]), *cosine);
                }
            }
        }
        put(metric::PROBE_TIME.into(), Some(probe.took.as_secs_f64()));
    }
    out
}

/// Statistics by lag, each under its name.
fn by_lag(lags: &MismatchByLag) -> Vec<(MetricName, Option<f64>)> {
    let tokens = lags.tokens() as f64;
    let mut all = vec![(MetricName::from(metric::MEAN_LAG), lags.mean_lag())];
    for (lag, of_lag) in lags.iter() {
        let values = [
            (metric::LAG_SHARE.of([&lag]), Some(of_lag.tokens() as f64 / tokens)),
            (metric::LAG_RATIO.of([&lag, &"p1"]), of_lag.ratio_quantile(0.01)),
            (metric::LAG_RATIO.of([&lag, &"p50"]), of_lag.ratio_quantile(0.5)),
            (metric::LAG_RATIO.of([&lag, &"p99"]), of_lag.ratio_quantile(0.99)),
            (metric::LAG_ESS.of([&lag]), of_lag.sample_size_of_factors()),
            (metric::LAG_RATIO_ESS.of([&lag]), of_lag.ratio_sample_size()),
            (metric::LAG_BOUNDED.of([&lag]), of_lag.bounded_fraction()),
            (metric::LAG_KL_K1.of([&lag]), of_lag.kl_k1()),
            (metric::LAG_KL_K3.of([&lag]), of_lag.kl_k3()),
        ];
        all.extend(values);
    }
    all
}

/// Rounded to four decimals: a line has many of them, and nobody needs more.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
