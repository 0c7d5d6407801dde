//! The paper's criterion: where runs lie, what it expects there, and whether that held.

use evenkeel_comparison::{
    ClaimKind, Comparison, ConclusionKind, Criterion, Lengths, Measure, Preference, Run, Verdict,
};

use crate::support::{arm, around, compare, said};

/// The runs in a place of the plane, where they stay; a step of the first has no gap.
fn at(variation: f64, gap: f64, runs: Vec<Run>) -> Vec<Run> {
    let lengths = |at: usize| -> Vec<Lengths> {
        let known = (0..30).filter(|step| at > 0 || *step != 3);
        known.map(|step| Lengths { step, variation, gap, mean: 20.0 }).collect()
    };
    runs.into_iter().enumerate().map(|(index, run)| Run { lengths: lengths(index), ..run }).collect()
}

fn on(task: &str, runs: Vec<Run>) -> Vec<Run> {
    let on_task = |run: Run| Run { task: task.to_owned(), name: format!("{task}/{}", run.name), ..run };
    runs.into_iter().map(on_task).collect()
}

/// Three rules with these accuracies over 8 seeds.
fn rules([token, sequence, balanced]: [f64; 3]) -> Vec<Run> {
    let runs = |name: &str, level: f64, kind: u64| arm(name, &around(level, 8, kind));
    [runs("token", token, 1), runs("sequence", sequence, 2), runs("balanced", balanced, 3)].concat()
}

fn judged(comparison: &Comparison) -> (&Criterion, Vec<(ClaimKind, String, String, Verdict)>) {
    let task = &comparison.tasks[0];
    let criterion = task.criterion.as_ref().unwrap();
    let label = |arm: usize| task.arms[arm].label.clone();
    let claims = criterion.claims.iter();
    (criterion, claims.map(|claim| (claim.kind, label(claim.arm), label(claim.other), claim.verdict)).collect())
}

fn verdict(claims: &[(ClaimKind, String, String, Verdict)], arm: &str, other: &str) -> Option<Verdict> {
    claims.iter().find(|(_, one, two, _)| (one.as_str(), two.as_str()) == (arm, other)).map(|(.., verdict)| *verdict)
}

#[test]
fn a_small_gap_for_the_variation_is_where_token_is_expected_to_win() {
    let comparison = compare(&at(0.6, 2.0, rules([0.6, 0.4, 0.6])));
    let (criterion, claims) = judged(&comparison);
    assert_eq!(criterion.preference, Preference::Token);
    assert!((criterion.start.variation - 0.6).abs() < 1e-9 && (criterion.start.gap - 2.0).abs() < 1e-9);
    assert_eq!(verdict(&claims, "token", "sequence"), Some(Verdict::Held));
    assert_eq!(verdict(&claims, "sequence", "token"), None);
    assert_eq!(verdict(&claims, "balanced", "sequence"), Some(Verdict::Held));
    assert_eq!(verdict(&claims, "balanced", "token"), Some(Verdict::Open));
    let shown = said(&comparison, ConclusionKind::Shown);
    assert!(shown.contains("The criterion held: token is better than sequence in last mean@k."), "{shown}");
    let caution = said(&comparison, ConclusionKind::Caution);
    assert!(
        caution.contains("length variation 0.60, a gap of 2.0 tokens (10 % of a mean answer, 0.2 deviations"),
        "{caution}"
    );
    assert!(caution.contains("where the paper's criterion prefers token to sequence"), "{caution}");
    assert!(caution.contains("The paper's criterion has no threshold"), "{caution}");
}

#[test]
fn the_opposite_contradicts_it() {
    let comparison = compare(&at(0.3, 9.0, rules([0.6, 0.4, 0.2])));
    let (criterion, claims) = judged(&comparison);
    assert_eq!(criterion.preference, Preference::Sequence);
    for (arm, other) in [("sequence", "token"), ("balanced", "token"), ("balanced", "sequence")] {
        assert_eq!(verdict(&claims, arm, other), Some(Verdict::Contradicted), "{arm}, {other}");
    }
    let shown = said(&comparison, ConclusionKind::Shown);
    assert!(shown.contains("contradicted: it prefers sequence, and token is better in last mean@k"), "{shown}");
    assert!(shown.contains("That balanced is robust is contradicted here: token is better"), "{shown}");
    let text = comparison.to_text();
    assert!(text.contains("first steps, all arms") && text.contains("no worse than token: contradicted"), "{text}");
}

#[test]
fn less_is_better_where_the_measure_says_so() {
    let mut runs = at(0.6, 2.0, rules([0.6, 0.4, 0.5]));
    // Token is there first, each seed at a step of its own.
    for run in &mut runs {
        let reached = 10 + run.seed % 3 + if run.arm.label() == "token" { 0 } else { 4 + run.seed % 5 };
        run.rewards.iter_mut().for_each(|(step, reward)| *reward = if *step >= reached { 0.9 } else { 0.1 });
    }
    let options = evenkeel_comparison::Options {
        primary: Some(Measure::StepsToReward),
        reward: Some(0.5),
        ..crate::support::options()
    };
    let comparison = Comparison::of(&runs, &options).unwrap();
    let task = &comparison.tasks[0];
    let claim = task.criterion.as_ref().unwrap().claims[0];
    assert_eq!((task.arms[claim.arm].label.as_str(), claim.verdict), ("token", Verdict::Held));
}

#[test]
fn without_a_shown_difference_it_is_open() {
    let alike = compare(&at(0.6, 2.0, rules([0.5, 0.5, 0.5])));
    assert!(judged(&alike).1.iter().all(|(.., verdict)| *verdict == Verdict::Open));
    let text = said(&alike, ConclusionKind::NotShown);
    assert!(
        text.contains("is open: it prefers token to sequence, and in last mean@k no difference is shown"),
        "{text}"
    );
    assert!(text.contains("Whether balanced is robust against token and sequence is open"), "{text}");
    assert!(text.contains("no difference is shown, nor that it is no worse by the margin of 0.010"), "{text}");
    let mut few = at(0.6, 2.0, rules([0.6, 0.4, 0.5]));
    few.retain(|run| run.seed < 7);
    let few = compare(&few);
    assert!(judged(&few).1.iter().all(|(.., verdict)| *verdict == Verdict::Open));
    assert!(said(&few, ConclusionKind::Inconclusive).contains("and in last mean@k a verdict takes 8 seeds"));
}

#[test]
fn where_lengths_are_alike_or_unknown_it_expects_nothing() {
    let alike = compare(&at(0.05, 0.5, rules([0.6, 0.4, 0.5])));
    let (criterion, claims) = judged(&alike);
    assert_eq!(criterion.preference, Preference::Alike);
    assert!(claims.iter().all(|(kind, ..)| *kind != ClaimKind::Preferred));
    let unknown = compare(&rules([0.6, 0.4, 0.5]));
    assert_eq!(unknown.tasks[0].criterion, None);
    assert!(!said(&unknown, ConclusionKind::Caution).contains("criterion"));
}

#[test]
fn balanced_is_no_worse_where_its_interval_stays_above_the_margin() {
    // Accuracies that differ by fractions of a point.
    let near = |level: f64, kind: u64| -> Vec<f64> {
        around(level, 8, kind).iter().map(|v| 0.5 + (v - level) / 20.0).collect()
    };
    let runs =
        [arm("token", &near(0.5, 1)), arm("sequence", &near(0.5, 2)), arm("balanced-count", &near(0.5, 3))].concat();
    let comparison = compare(&at(0.6, 2.0, runs.clone()));
    let (criterion, claims) = judged(&comparison);
    for other in ["token", "sequence"] {
        assert_eq!(verdict(&claims, "balanced-count", other), Some(Verdict::Held), "{other}");
    }
    let claim = criterion.claims.iter().find(|claim| claim.kind == ClaimKind::Robust).unwrap();
    let test = claim.no_worse.unwrap();
    assert_eq!((test.margin, test.seeds, test.needed, test.p), (0.01, 8, 8, 2.0 / 256.0));
    let shown = said(&comparison, ConclusionKind::Shown);
    assert!(shown.contains("balanced-count is robust here against token and sequence: it is no worse in last mean@k by the margin of 0.010"), "{shown}");
    let narrow = evenkeel_comparison::Options { margin: 0.0001, ..crate::support::options() };
    let open = Comparison::of(&at(0.6, 2.0, runs), &narrow).unwrap();
    assert_eq!(
        verdict(&judged(&open).1, "balanced-count", "token"),
        Some(Verdict::Open),
        "a tie within a narrow margin"
    );
}

#[test]
fn verls_token_mean_is_judged_as_token_is() {
    let mut runs = at(0.6, 2.0, rules([0.6, 0.4, 0.6]));
    for run in runs.iter_mut().filter(|run| run.rule.as_deref() == Some("token")) {
        run.rule = Some("batch-token".to_owned());
        run.arm = crate::support::of_rule("batch-token");
    }
    let comparison = compare(&runs);
    let (_, claims) = judged(&comparison);
    assert_eq!(verdict(&claims, "batch-token", "sequence"), Some(Verdict::Held));
    assert!(verdict(&claims, "balanced", "batch-token").is_some());
}

#[test]
fn the_arm_that_falls_furthest_from_its_peak_is_judged_by_its_drop() {
    // Token ends 0.1 below its peak of 0.7, the others at their peaks.
    let falling: Vec<Run> =
        (0..8).map(|seed| crate::support::run("token", seed, &[0.2, 0.7 + 0.003 * seed as f64, 0.6])).collect();
    let others = [arm("sequence", &around(0.6, 8, 2)), arm("balanced", &around(0.6, 8, 3))].concat();
    let comparison = compare(&at(0.6, 2.0, [falling, others].concat()));
    let (criterion, _) = judged(&comparison);
    let drops: Vec<_> = criterion.claims.iter().filter(|claim| claim.kind == ClaimKind::LargestDrop).collect();
    assert_eq!(drops.len(), 2);
    assert!(drops.iter().all(|claim| claim.verdict == Verdict::Held && claim.measure == Measure::AccuracyDrop));
    let shown = said(&comparison, ConclusionKind::Shown);
    assert!(shown.contains("token falls further from its peak than sequence and balanced"), "{shown}");
}

#[test]
fn runs_of_one_rule_have_a_place_and_no_verdict() {
    let mut runs = at(0.4, 3.0, [arm("1e-3", &around(0.6, 8, 1)), arm("1e-4", &around(0.5, 8, 2))].concat());
    runs.iter_mut().for_each(|run| run.rule = Some("balanced".to_owned()));
    let comparison = compare(&runs);
    let criterion = comparison.tasks[0].criterion.as_ref().unwrap();
    assert!(criterion.claims.is_empty() && criterion.arms.len() == 2);
    // A step that one run lacks is in no course of its arm.
    assert_eq!(criterion.arms.iter().map(|arm| arm.course.len()).collect::<Vec<_>>(), [29, 30]);
    assert!(!said(&comparison, ConclusionKind::Caution).contains("criterion"));
}

#[test]
fn between_tasks_their_order_in_the_plane_is_enough() {
    let varied = |accuracies| on("varied", at(0.6, 1.0, rules(accuracies)));
    let gapped = |accuracies| on("gapped", at(0.4, 8.0, rules(accuracies)));
    let comparison = |one, other| compare(&[varied(one), gapped(other)].concat());
    let held = comparison([0.6, 0.4, 0.5], [0.4, 0.6, 0.5]);
    let [pair] = &held.criterion[..] else { panic!("one pair: {:?}", held.criterion) };
    assert_eq!((pair.token_favoured.as_str(), pair.sequence_favoured.as_str()), ("varied", "gapped"));
    assert_eq!(pair.verdict, Verdict::Open, "the same noise on both tasks has no spread");

    // Other noise on the second task.
    let mut second = gapped([0.4, 0.6, 0.5]);
    for run in &mut second {
        let more = 0.003 * ((run.seed * 5 + 1) % 7) as f64 * if run.arm.label() == "token" { 1.0 } else { -1.0 };
        run.evaluations.iter_mut().flat_map(|e| e.benchmarks.values_mut()).for_each(|scores| scores.mean.value += more);
    }
    let held = compare(&[varied([0.6, 0.4, 0.5]), second.clone()].concat());
    assert_eq!(held.criterion[0].verdict, Verdict::Held);
    assert!((held.criterion[0].difference.value - 0.4).abs() < 0.05);
    let text = said(&held, ConclusionKind::Shown);
    assert!(text.contains("expects token to gain on sequence there: it does, by 0."), "{text}");
    assert!(text.contains("The criterion held."), "{text}");

    let turned = compare(&[on("varied", at(0.4, 8.0, varied([0.6, 0.4, 0.5]))), at(0.6, 1.0, second)].concat());
    assert_eq!(
        (turned.criterion[0].token_favoured.as_str(), turned.criterion[0].verdict),
        ("gapped", Verdict::Contradicted)
    );
}

#[test]
fn tasks_that_differ_in_one_quantity_alone_are_not_ordered() {
    let all = [on("a", at(0.6, 1.0, rules([0.6, 0.4, 0.5]))), on("b", at(0.3, 1.0, rules([0.6, 0.4, 0.5])))].concat();
    assert!(compare(&all).criterion.is_empty());
}

#[test]
fn impossible_lengths_are_refused() {
    let mut runs = at(0.6, 1.0, rules([0.6, 0.4, 0.5]));
    runs[1].lengths[4].mean = 0.0;
    let error = Comparison::of(&runs, &crate::support::options()).unwrap_err().to_string();
    assert!(error.starts_with("runs[runs/") && error.contains("lengths[4] is variation 0.6, gap 1, mean 0"), "{error}");
}
