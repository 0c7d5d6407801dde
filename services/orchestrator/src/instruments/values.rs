//! The values of a run's lines as gauges: what `metrics.jsonl`, `evaluation.jsonl` and `warm_start.jsonl` have, as of the newest line.
//!
//! A value that the newest line of its kind does not have is NaN, so that no chart shows an older one in its place.

use evenkeel_proto::v1::StepKind;
use evenkeel_run_files::{MetricsLine, at_k};
use evenkeel_telemetry::{Series, Values};
use metrics::gauge;

/// A value of a line, the gauge that shows it, and the gauge's label, if it has one.
type Shown = (&'static str, &'static str, Option<(&'static str, &'static str)>);

const BENCHMARK: (&str, Values) = ("benchmark", Values::Few("benchmarks of the recipe"));
const METRIC: (&str, Values) = ("metric", Values::Few("`mean@k`, `best@k`, `pass@n`, `maj@k` of the recipe's k"));

/// Their gauges.
pub(super) const VALUES: &[Series] = &[
    Series::gauge("evenkeel_run_reward", "mean reward of the step's valid samples, before and after shaping")
        .by(&[("reward", Values::Of(&["raw", "shaped"]))]),
    Series::gauge("evenkeel_run_reward_component", "mean of a part of the shaped reward, before its weight")
        .by(&[("component", Values::Few("parts of the recipe's reward, and of its verifiers"))]),
    Series::gauge("evenkeel_run_source_reward", "mean raw reward of a data source")
        .by(&[("source", Values::Few("data sources, at most 32"))])
        .only("two or more data sources"),
    Series::gauge(
        "evenkeel_run_response_tokens",
        "mean length of the step's responses, in tokens: of all, of correct and of incorrect ones",
    )
    .by(&[("answers", Values::Of(&["all", "correct", "incorrect"]))]),
    Series::gauge("evenkeel_run_longest_response_tokens", "length of the step's longest response"),
    Series::gauge("evenkeel_run_prompt_tokens", "mean length of the step's prompts"),
    Series::gauge("evenkeel_run_truncated_ratio", "share of responses that reached the longest allowed length"),
    Series::gauge(
        "evenkeel_run_pull",
        "sum of weight times absolute advantage over tokens with a positive and with a negative advantage",
    )
    .by(&[("advantage", Values::Of(&["positive", "negative"]))]),
    Series::gauge(
        "evenkeel_run_length_variation_ratio",
        "coefficient of variation of lengths within a group, mean over groups",
    ),
    Series::gauge(
        "evenkeel_run_length_gap_tokens",
        "how much longer responses with a negative advantage are, mean over groups",
    ),
    Series::gauge("evenkeel_run_uniform_groups", "groups whose samples are all correct or all incorrect")
        .by(&[("answers", Values::Of(&["correct", "incorrect"]))]),
    Series::gauge("evenkeel_run_entropy_nats", "mean entropy of the policy over trained tokens"),
    Series::gauge("evenkeel_run_kl_nats", "estimate of the divergence of the new policy from that before the step"),
    Series::gauge(
        "evenkeel_run_clipped_ratio",
        "share of tokens whose ratio was clipped; `lower`: by the bound for negative advantages",
    )
    .by(&[("bound", Values::Of(&["any", "lower"]))]),
    Series::gauge("evenkeel_run_policy_ratio_max", "largest ratio of new to old probability of a token"),
    Series::gauge(
        "evenkeel_run_logp_gap_nats",
        "agreement of engine and learner: mean difference of their log-probabilities of a token, without its sign",
    ),
    Series::gauge("evenkeel_run_correction_weight", "mean factor that corrects for their difference"),
    Series::gauge("evenkeel_run_correction_bounded_ratio", "share of tokens whose factor was bounded"),
    Series::gauge(
        "evenkeel_run_proof_gap_nats",
        "difference of log-probabilities on the same tokens when the weights were proven last",
    )
    .by(&[("statistic", Values::Of(&["mean", "max"]))]),
    Series::gauge("evenkeel_run_gradient_norm", "norm of the gradient before clipping"),
    Series::gauge("evenkeel_run_learning_rate", "learning rate of the step"),
    Series::gauge("evenkeel_run_loss", "the step's loss").by(&[("kind", Values::Of(&["train", "warm_start"]))]),
    Series::gauge("evenkeel_run_update_skipped", "1 if the newest step skipped an update")
        .by(&[("kind", Values::Of(&["train", "warm_start"]))]),
    Series::gauge("evenkeel_run_epoch", "passes over the data before the step's first prompt"),
    Series::gauge(
        "evenkeel_run_prompts_tried",
        "prompts that the step sampled; more than it trained on with dynamic sampling",
    ),
    Series::gauge(
        "evenkeel_run_step_part_seconds",
        "parts of the newest step, one after the other, as in `timing_s/*`",
    )
    .by(&[("part", Values::Of(&["generation", "reward", "update_actor", "update_weights", "proof", "step"]))]),
    Series::gauge(
        "evenkeel_run_throughput_tokens_per_second",
        "tokens of all samples with their prompts, per second of the step",
    ),
    Series::gauge("evenkeel_run_evaluation_accuracy_ratio", "accuracy in the newest evaluation, 0 to 1")
        .by(&[BENCHMARK, METRIC]),
    Series::gauge("evenkeel_run_evaluation_step", "GRPO steps before the newest evaluation"),
];

const TRAIN: &[Shown] = &[
    ("critic/score/mean", "evenkeel_run_reward", Some(("reward", "raw"))),
    ("critic/rewards/mean", "evenkeel_run_reward", Some(("reward", "shaped"))),
    ("response_length/mean", "evenkeel_run_response_tokens", Some(("answers", "all"))),
    ("response_length/correct/mean", "evenkeel_run_response_tokens", Some(("answers", "correct"))),
    ("response_length/incorrect/mean", "evenkeel_run_response_tokens", Some(("answers", "incorrect"))),
    ("response_length/max", "evenkeel_run_longest_response_tokens", None),
    ("response_length/clip_ratio", "evenkeel_run_truncated_ratio", None),
    ("prompt_length/mean", "evenkeel_run_prompt_tokens", None),
    ("aggregation/pull_positive", "evenkeel_run_pull", Some(("advantage", "positive"))),
    ("aggregation/pull_negative", "evenkeel_run_pull", Some(("advantage", "negative"))),
    ("aggregation/length_cv", "evenkeel_run_length_variation_ratio", None),
    ("aggregation/length_gap", "evenkeel_run_length_gap_tokens", None),
    ("rollout/groups_all_correct", "evenkeel_run_uniform_groups", Some(("answers", "correct"))),
    ("rollout/groups_all_incorrect", "evenkeel_run_uniform_groups", Some(("answers", "incorrect"))),
    ("actor/entropy", "evenkeel_run_entropy_nats", None),
    ("actor/ppo_kl", "evenkeel_run_kl_nats", None),
    ("actor/pg_clipfrac", "evenkeel_run_clipped_ratio", Some(("bound", "any"))),
    ("actor/pg_clipfrac_lower", "evenkeel_run_clipped_ratio", Some(("bound", "lower"))),
    ("actor/ratio_max", "evenkeel_run_policy_ratio_max", None),
    ("actor/grad_norm", "evenkeel_run_gradient_norm", None),
    ("actor/lr", "evenkeel_run_learning_rate", None),
    ("actor/loss", "evenkeel_run_loss", Some(("kind", "train"))),
    ("actor/skipped", "evenkeel_run_update_skipped", Some(("kind", "train"))),
    ("rollout_corr/logp_gap", "evenkeel_run_logp_gap_nats", None),
    ("rollout_corr/weight_mean", "evenkeel_run_correction_weight", None),
    ("rollout_corr/bounded_fraction", "evenkeel_run_correction_bounded_ratio", None),
    ("proof/mean_gap", "evenkeel_run_proof_gap_nats", Some(("statistic", "mean"))),
    ("proof/max_gap", "evenkeel_run_proof_gap_nats", Some(("statistic", "max"))),
    ("training/epoch", "evenkeel_run_epoch", None),
    ("training/prompts_tried", "evenkeel_run_prompts_tried", None),
    ("timing_s/gen", "evenkeel_run_step_part_seconds", Some(("part", "generation"))),
    ("timing_s/reward", "evenkeel_run_step_part_seconds", Some(("part", "reward"))),
    ("timing_s/update_actor", "evenkeel_run_step_part_seconds", Some(("part", "update_actor"))),
    ("timing_s/update_weights", "evenkeel_run_step_part_seconds", Some(("part", "update_weights"))),
    ("timing_s/proof", "evenkeel_run_step_part_seconds", Some(("part", "proof"))),
    ("timing_s/step", "evenkeel_run_step_part_seconds", Some(("part", "step"))),
    ("perf/throughput", "evenkeel_run_throughput_tokens_per_second", None),
];

const WARM_START: &[Shown] = &[
    ("warm_start/loss", "evenkeel_run_loss", Some(("kind", "warm_start"))),
    ("warm_start/skipped", "evenkeel_run_update_skipped", Some(("kind", "warm_start"))),
    ("warm_start/grad_norm", "evenkeel_run_gradient_norm", None),
    ("warm_start/lr", "evenkeel_run_learning_rate", None),
];

/// Shows a line.
pub(super) fn show(line: &MetricsLine) {
    show_of(line.kind, |name| line.get(name));
    match line.kind {
        StepKind::Train => {
            for (name, value) in &line.values {
                let between = |before, after| name.strip_prefix(before)?.strip_suffix(after);
                if let Some(component) = between("reward/components/", "/mean") {
                    gauge!("evenkeel_run_reward_component", "component" => component.to_owned()).set(*value);
                } else if let Some(source) = between("data_source/", "/score/mean") {
                    gauge!("evenkeel_run_source_reward", "source" => source.to_owned()).set(*value);
                }
            }
        }
        StepKind::Evaluation => {
            gauge!("evenkeel_run_evaluation_step").set(line.step as f64);
            for (name, value) in &line.values {
                if let Some((benchmark, metric)) = at_k::parse_core(name) {
                    let (benchmark, metric) = (benchmark.to_owned(), metric.to_owned());
                    gauge!("evenkeel_run_evaluation_accuracy_ratio", "benchmark" => benchmark, "metric" => metric)
                        .set(*value);
                }
            }
        }
        StepKind::WarmStart | StepKind::Progress | StepKind::Unspecified => {}
    }
}

/// Forgets the values of an earlier run.
pub(super) fn forget() {
    show_of(StepKind::WarmStart, |_| None);
    show_of(StepKind::Train, |_| None);
}

fn show_of(kind: StepKind, value: impl Fn(&str) -> Option<f64>) {
    let shown = match kind {
        StepKind::Train => TRAIN,
        StepKind::WarmStart => WARM_START,
        StepKind::Evaluation | StepKind::Progress | StepKind::Unspecified => &[],
    };
    for &(name, series, label) in shown {
        let gauge = match label {
            Some((label, value)) => gauge!(series, label => value),
            None => gauge!(series),
        };
        gauge.set(value(name).unwrap_or(f64::NAN));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_value_is_shown_by_a_described_gauge_and_every_gauge_shows_one() {
        let shown: BTreeSet<_> = TRAIN.iter().chain(WARM_START).map(|(_, series, _)| *series).collect();
        let elsewhere = [
            "evenkeel_run_reward_component",
            "evenkeel_run_source_reward",
            "evenkeel_run_evaluation_accuracy_ratio",
            "evenkeel_run_evaluation_step",
        ];
        let described: BTreeSet<_> = VALUES.iter().map(|series| series.name).collect();
        assert_eq!(shown.union(&elsewhere.into()).copied().collect::<BTreeSet<_>>(), described);
        for (_, name, label) in TRAIN.iter().chain(WARM_START) {
            let series = VALUES.iter().find(|series| series.name == *name).unwrap();
            let allowed = series.labels.first().map(|(label, values)| (*label, values));
            match (label, allowed) {
                (None, None) => {}
                (Some((label, value)), Some((of, Values::Of(values)))) => {
                    assert!(*label == of && values.contains(value), "{name}: {label}={value}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
