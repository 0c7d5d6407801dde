//! The charts of the report and their captions.

use std::borrow::Cow;

use super::benchmarks;
use super::chart::{Chart, Series, Style};
use crate::metrics::MetricsLine;
use crate::summary::accuracy;

/// Charts of results, then of training, then of time; those without data are left out.
pub(super) fn charts(metrics: &[MetricsLine], warm_start: &[MetricsLine], evaluations: &[MetricsLine]) -> Vec<Chart> {
    let of = |label, colour, style, name: &str| Series {
        label: Cow::Borrowed(label),
        colour,
        style,
        points: points(metrics, name),
        errors: Vec::new(),
    };
    let chart = |title, caption, floor, series| Chart { title, caption, series, floor, ceiling: None, x_label: "step" };
    let held_out = evaluations.iter().filter_map(|line| Some((line.step as f64, accuracy(line)?))).collect();
    let mut charts = vec![
        Chart {
            ceiling: Some(1.0),
            ..chart(
                "Reward",
                "mean raw reward of a step, averaged over five steps, and accuracy on problems that are never trained on",
                Some(0.0),
                vec![
                    of("reward", 1, Style::Averaged, "critic/score/mean"),
                    Series {
                        label: "held out".into(),
                        colour: 2,
                        style: Style::Points,
                        points: held_out,
                        errors: Vec::new(),
                    },
                ],
            )
        },
        chart(
            "Response length",
            "tokens of correct and of incorrect answers",
            Some(0.0),
            vec![
                of("incorrect", 2, Style::Averaged, "response_length/incorrect/mean"),
                of("correct", 3, Style::Averaged, "response_length/correct/mean"),
                of("all", 1, Style::Averaged, "response_length/mean"),
            ],
        ),
        chart(
            "Length gap",
            "how many tokens longer answers with a negative advantage are than those with a positive one in their group; aggregation may turn it into a bias",
            Some(0.0),
            vec![of("gap", 1, Style::Averaged, "aggregation/length_gap")],
        ),
        chart(
            "Positive and negative mass",
            "sum of weight times advantage over tokens with a positive and with a negative advantage; balanced aggregation keeps them equal",
            Some(0.0),
            vec![
                of("positive", 3, Style::Averaged, "aggregation/pull_positive"),
                of("negative", 2, Style::Dashed, "aggregation/pull_negative"),
            ],
        ),
        chart(
            "Length variation",
            "coefficient of variation of response lengths within a group",
            Some(0.0),
            vec![of("variation", 1, Style::Averaged, "aggregation/length_cv")],
        ),
        chart(
            "Entropy",
            "mean entropy of the policy at a sampled token, in nats",
            Some(0.0),
            vec![of("entropy", 1, Style::Averaged, "actor/entropy")],
        ),
        chart("Policy loss", "value of the objective", None, vec![of("loss", 1, Style::Line, "actor/pg_loss")]),
        chart("Gradient norm", "before clipping", Some(0.0), vec![of("norm", 1, Style::Averaged, "actor/grad_norm")]),
        chart(
            "Clipped tokens",
            "share of tokens whose ratio is clipped",
            Some(0.0),
            vec![of("clipped", 1, Style::Averaged, "actor/pg_clipfrac")],
        ),
        chart(
            "Zero-advantage groups",
            "groups whose answers are all correct or all incorrect: they teach nothing",
            Some(0.0),
            vec![
                of("all correct", 3, Style::Averaged, "rollout/groups_all_correct"),
                of("all incorrect", 2, Style::Averaged, "rollout/groups_all_incorrect"),
            ],
        ),
        chart(
            "Seconds of a step",
            "wall time by phase; the phases do not overlap",
            Some(0.0),
            vec![
                of("generation", 1, Style::Line, "timing_s/gen"),
                of("training", 2, Style::Line, "timing_s/update_actor"),
                of("weights", 3, Style::Line, "timing_s/update_weights"),
                of("verification", 4, Style::Line, "timing_s/reward"),
            ],
        ),
        Chart {
            x_label: "warm-start step",
            ..chart(
                "Warm start",
                "mean cross-entropy of demonstrated tokens, in nats",
                Some(0.0),
                vec![Series {
                    label: "loss".into(),
                    colour: 1,
                    style: Style::Line,
                    points: points(warm_start, "warm_start/loss"),
                    errors: Vec::new(),
                }],
            )
        },
    ];
    // The results right behind the reward.
    charts.splice(1..1, benchmarks::charts(evaluations));
    charts.retain(|chart| !chart.is_empty());
    charts
}

fn points(lines: &[MetricsLine], name: &str) -> Vec<(f64, f64)> {
    lines.iter().filter_map(|line| Some(((line.step + 1) as f64, line.get(name)?))).collect()
}
