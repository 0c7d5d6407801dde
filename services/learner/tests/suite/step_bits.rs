//! The bits of whole steps, which stay what they are however steps are computed. A change that is meant to change them
//! (another order of sums, another formula) changes these digests, says so, and raises the number of bits in
//! [`evenkeel_run::PROGRAM`].

use evenkeel_host::sha256;
use evenkeel_learner::{Example, Learner, LoraSettings, OldLogp, ProbeSettings, StepReport, TrainingSettings};
use evenkeel_run::PROGRAM;

use crate::support::{group, groups, learner, settings, weights, without_signal};

/// A report with all digits, but for times. The only term beside those of policy and entropy, that of KL, stands as it
/// did when the digests were taken: in fields of its own, zeros where there is none.
fn said(mut report: StepReport) -> String {
    report.probe.iter_mut().for_each(|probe| probe.took = std::time::Duration::ZERO);
    report.metrics.clear();
    report.compared = Default::default();
    let written = [
        ("metrics: [], ", ""),
        ("details: [], ", ""),
        ("sides: None, ", ""),
        ("compared: ComparedTokens { equal: 0, uncompared: 0 }, ", ""),
        ("term_losses: []", "kl_loss: 0.0"),
        ("terms: []", "kl: KlStats { loss: 0.0, kl_sum: 0.0, tokens: 0 }"),
        ("term_losses: [", "kl_loss: "),
        ("], entropy_loss: ", ", entropy_loss: "),
        ("terms: [TermStats { ", "kl: KlStats { "),
        (", sum: ", ", kl_sum: "),
        (", bounded: 0 }], entropy: ", " }, entropy: "),
    ];
    written.iter().fold(without_losses_of_rules(&format!("{report:?}")), |text, (now, then)| text.replace(now, then))
}

/// Reports as they were when the digests were taken: without the norm of the update.
fn without_update_norm(reports: &str) -> String {
    let mut parts = reports.split("update_norm: ");
    let before = parts.next().unwrap().to_owned();
    parts.fold(before, |all, part| all + part.split_once(", ").unwrap().1)
}

/// A probe's report as it was when the digests were taken: rules had no losses.
fn without_losses_of_rules(report: &str) -> String {
    let mut rules = report.split("RuleGradient { ");
    let before = rules.next().unwrap().to_owned();
    rules.fold(before, |all, rule| {
        let (aggregation, rest) = rule.split_once(", loss: ").unwrap();
        let (_, gradient) = rest.split_once(", norm: ").unwrap();
        all + "RuleGradient { " + aggregation + ", norm: " + gradient
    })
}

/// The first 16 digits of the digest of everything that a supervised step and three policy steps say and leave:
/// reports, weights, moments.
fn digest(settings: TrainingSettings, measured: bool) -> String {
    let mut learner = learner(settings);
    let examples: Vec<Example> =
        (0..11).map(|n| Example { prompt: vec![2 + n % 5, 3], response: vec![4, 5 + n % 7, 1] }).collect();
    let mut all = format!("{:?}", learner.supervised_step(&examples).unwrap());
    for (step, count) in [(1, 9), (2, 6), (3, 2)] {
        let mut groups = groups(step, count);
        groups.push(without_signal(step));
        groups.push(group(500 + step, 3));
        let mut in_progress = learner.step_of(groups.len());
        if measured {
            in_progress = in_progress.with_probe().unwrap().with_lags().unwrap();
        }
        groups.into_iter().for_each(|group| in_progress.add(group).unwrap());
        all += &said(in_progress.finish().unwrap());
    }
    // A batch without a gradient: the moments alone move the weights.
    all += &said(learner.train(vec![without_signal(7)]).unwrap());
    let mut bytes = without_update_norm(&all).into_bytes();
    bytes.extend(weights(&learner).into_iter().flat_map(f32::to_le_bytes));
    bytes.extend(moments(&learner));
    sha256(bytes)[.."sha256:".len() + 16].to_owned()
}

fn moments(learner: &Learner) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    learner.save_checkpoint(&path, b"").unwrap();
    std::fs::read(path.join("moments.safetensors")).unwrap()
}

#[test]
fn whole_steps_have_the_bits_that_they_always_had() {
    let with = |change: fn(&mut TrainingSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let several = |s: &mut TrainingSettings| {
        (s.shuffle, s.mini_batch_groups, s.epochs) = (true, 3, 2);
        s.optimizer.max_grad_norm = Some(0.05);
    };
    let regularized = |s: &mut TrainingSettings| {
        (s.objective.kl_coefficient, s.objective.entropy_coefficient) = (0.1, 0.01);
    };
    let adapters = |s: &mut TrainingSettings| {
        s.lora = Some(LoraSettings { rank: 2, alpha: 6.0, ..LoraSettings::default() });
    };
    let measured = |s: &mut TrainingSettings| {
        (s.old_logp, s.probe_gradients) = (OldLogp::Proximal, ProbeSettings::default());
    };
    let found = [
        ("one update", digest(settings(), false)),
        ("several updates", digest(with(several), false)),
        ("regularized", digest(with(regularized), false)),
        ("adapters", digest(with(adapters), false)),
        ("measured", digest(with(measured), true)),
    ];
    let expected = [
        ("one update", "sha256:9afb948b33f2ff0b"),
        ("several updates", "sha256:f005a587ed727c5a"),
        ("regularized", "sha256:3c0b80cbce9acdcd"),
        ("adapters", "sha256:c7668deae21f1833"),
        ("measured", "sha256:a158dc533587f94c"),
    ];
    let words = "if weights or moments have other bits now, raise the number in PROGRAM (crates/run/src/program.rs): \
        runs of before cannot be recomputed by this program, and are not different";
    assert_eq!(found, expected.map(|(name, digest)| (name, digest.to_owned())), "{words}; now {PROGRAM}");
}
