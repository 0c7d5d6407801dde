//! The charts of a run and their captions.

use evenkeel_report::{Chart, Figure, Point, Series, Style};
use evenkeel_run_files::{Curves, MetricsLine, accuracy};

use super::benchmarks;

/// A column as points over steps, which people count from 1.
pub(super) fn points(curves: &Curves, name: &str) -> impl Iterator<Item = Point> {
    curves.column(name).iter().map(|(step, value)| Point::new((step + 1) as f64, *value))
}

/// Its line with an average over the last steps.
pub(super) fn averaged(curves: &Curves, label: &str, colour: usize, name: &str) -> Series {
    Series::new(label, Style::Averaged, points(curves, name)).coloured(colour)
}

/// Rewards and accuracies.
pub(super) fn results(steps: &Curves, evaluations: &[MetricsLine]) -> Vec<Figure> {
    let held_out = evaluations.iter().filter_map(|line| Some(Point::new(line.step as f64, accuracy(line)?)));
    let reward = Chart::new(
        "Reward",
        "mean raw reward of a step, averaged over five steps, and accuracy on problems that are never trained on",
    );
    let reward = reward.from(0.0).up_to(1.0).with(averaged(steps, "reward", 1, "critic/score/mean"));
    let mut all = vec![reward.with(Series::new("held out", Style::Points, held_out).coloured(2))];
    if !evaluations.is_empty() {
        all.extend(benchmarks::charts(evaluations));
    }
    all.into_iter().map(Figure::from).collect()
}

/// Lengths of answers.
pub(super) fn lengths(steps: &Curves) -> [Figure; 3] {
    let all = Chart::new("Response length", "tokens of correct and of incorrect answers").from(0.0);
    let all = all
        .with(averaged(steps, "incorrect", 2, "response_length/incorrect/mean"))
        .with(averaged(steps, "correct", 3, "response_length/correct/mean"))
        .with(averaged(steps, "all", 1, "response_length/mean"));
    let gap =
        "how many tokens longer answers with a negative advantage are than those with a positive one in their group";
    let gap = Chart::new("Length gap", gap).from(0.0).with(averaged(steps, "gap", 1, "aggregation/length_gap"));
    let variation = "coefficient of variation of response lengths within a group";
    let variation = Chart::new("Length variation", variation).from(0.0);
    let variation = variation.with(averaged(steps, "variation", 1, "aggregation/length_cv"));
    [all.into(), gap.into(), variation.into()]
}

/// What the learner reports.
pub(super) fn training(steps: &Curves) -> Vec<Figure> {
    let one = |title: &str, caption: &str, name: &str| {
        let chart = Chart::new(title, caption).from(0.0);
        chart.with(averaged(steps, &title.to_lowercase(), 1, name))
    };
    let zero = "groups whose answers are all correct or all incorrect: they teach nothing";
    let zero = Chart::new("Zero-advantage groups", zero).from(0.0);
    let mut all = vec![
        one("Entropy", "mean entropy of the policy at a sampled token, in nats", "actor/entropy"),
        one("Gradient norm", "before clipping", "actor/grad_norm"),
        one("Clipped tokens", "share of tokens whose ratio is clipped", "actor/pg_clipfrac"),
        one("Approximate KL", "mean of old minus new log-probability, in nats", "actor/ppo_kl"),
        one("Truncated answers", "share of answers that reached the longest length", "response_length/clip_ratio"),
        zero.with(averaged(steps, "all correct", 3, "rollout/groups_all_correct")).with(averaged(
            steps,
            "all incorrect",
            2,
            "rollout/groups_all_incorrect",
        )),
    ];
    let lr = Chart::new("Learning rate", "of the step").from(0.0);
    all.push(lr.with(Series::new("learning rate", Style::Line, points(steps, "actor/lr"))));
    all.into_iter().map(Figure::from).collect()
}

/// The loss of the supervised steps.
pub(super) fn warm_start(warm_start: &Curves) -> Figure {
    let chart = Chart::new("Warm start", "mean cross-entropy of demonstrated tokens, in nats").from(0.0);
    chart.over("warm-start step").with(Series::new("loss", Style::Line, points(warm_start, "warm_start/loss"))).into()
}
