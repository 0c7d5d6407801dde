//! Any number of ranks reaches the bits of one process: here as threads.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use candle_core::{DType, Device, Tensor};
use evenkeel_learner::{
    Collective, Comparison, Division, Example, InProcess, Learner, LearnerError, LoraSettings, OldLogp,
    OptimizerSettings, ProbeSettings, RankError, ResponseGroup, StepReport, TargetLoss, TargetSequence,
    TrainingSettings,
};
use evenkeel_model::Parameters;
use evenkeel_objective::{RatioBounds, SummedLoss};

use crate::support::{bits, config, group, groups, learner, settings, without_signal};

/// Far more than any exchange takes.
const PATIENT: Duration = Duration::from_secs(60);

fn rank(settings: TrainingSettings, division: Division, collective: impl Collective + 'static) -> Learner {
    // As those of `learner`.
    rank_of(Parameters::random(&config(), 11, 0.2, &Device::Cpu).unwrap(), settings, division, collective)
}

fn rank_of(
    parameters: Parameters,
    settings: TrainingSettings,
    division: Division,
    collective: impl Collective + 'static,
) -> Learner {
    let mut learner = Learner::new_rank(config(), parameters, settings, division).unwrap();
    learner.join(Some(Arc::new(Mutex::new(collective))));
    learner
}

/// What `work` returns on each of a number of ranks; one rank is a learner alone.
fn on<T: Send>(ranks: usize, settings: &TrainingSettings, work: impl Fn(usize, &mut Learner) -> T + Sync) -> Vec<T> {
    if ranks == 1 {
        return vec![work(0, &mut learner(settings.clone()))];
    }
    std::thread::scope(|scope| {
        let collectives = InProcess::ranks(ranks, PATIENT).into_iter().enumerate();
        let threads = collectives.map(|(number, collective)| {
            let work = &work;
            scope.spawn(move || {
                let mut learner = rank(settings.clone(), Division::new(number, ranks), collective);
                work(number, &mut learner)
            })
        });
        // All of them begin before the first is waited for.
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Everything that a report says, with all digits, but for times.
fn said(mut report: StepReport) -> String {
    report.probe.iter_mut().for_each(|probe| probe.took = Duration::ZERO);
    format!("{report:?}")
}

fn examples(count: usize) -> Vec<Example> {
    (0..count as u32).map(|n| Example { prompt: vec![2 + n % 5, 3], response: vec![4, 5 + n % 7, 1] }).collect()
}

/// A supervised step and three policy steps, with groups that teach nothing among them and fewer groups than blocks.
fn train(learner: &mut Learner) -> Vec<String> {
    let mut said_of = vec![format!("{:?}", learner.supervised_step(&examples(11)).unwrap())];
    for (step, count) in [(1, 13), (2, 8), (3, 2)] {
        let mut groups = groups(step, count);
        groups.push(without_signal(step));
        groups.push(group(500 + step, 3));
        said_of.push(said(learner.train(groups).unwrap()));
    }
    said_of
}

/// Every file of a checkpoint that rank 0 writes.
fn checkpoint(number: usize, learner: &Learner) -> Vec<Vec<u8>> {
    if number > 0 {
        learner.give_moments().unwrap();
        return Vec::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    learner.save_checkpoint(&path, b"place in the data").unwrap();
    let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.into_iter().map(|name| fs::read(name).unwrap()).collect()
}

fn assert_same_on_any_number_of_ranks(settings: &TrainingSettings) {
    let run = |number: usize, learner: &mut Learner| {
        let said = train(learner);
        (said, bits(learner), checkpoint(number, learner))
    };
    let alone = on(1, settings, run).remove(0);
    for ranks in [2, 3, 4, 8] {
        for (number, found) in on(ranks, settings, run).into_iter().enumerate() {
            assert_eq!(found.0, alone.0, "rank {number} of {ranks}");
            assert!(found.1 == alone.1, "weights of rank {number} of {ranks}");
            assert!(number > 0 || found.2 == alone.2, "checkpoint of {ranks} ranks");
        }
    }
}

#[test]
fn two_three_four_and_eight_ranks_have_the_bits_of_one_process() {
    assert_same_on_any_number_of_ranks(&settings());
}

#[test]
fn so_they_do_with_mini_batches_epochs_shuffling_and_clipping() {
    let mut settings = settings();
    (settings.shuffle, settings.mini_batch_groups, settings.epochs) = (true, 5, 2);
    settings.optimizer.max_grad_norm = Some(0.05);
    assert_same_on_any_number_of_ranks(&settings);
}

#[test]
fn so_they_do_with_a_reference_and_an_entropy_term() {
    let mut settings = settings();
    (settings.objective.kl_coefficient, settings.objective.entropy_coefficient) = (0.1, 0.01);
    (settings.mini_batch_groups, settings.epochs) = (4, 2);
    assert_same_on_any_number_of_ranks(&settings);
}

#[test]
fn so_they_do_with_adapters() {
    let lora = LoraSettings { rank: 2, alpha: 6.0, ..LoraSettings::default() };
    assert_same_on_any_number_of_ranks(&TrainingSettings { lora: Some(lora), ..settings() });
}

#[test]
fn so_they_do_with_the_gradients_of_all_rules_and_statistics_by_lag() {
    for old_logp in [OldLogp::Proximal, OldLogp::Rollout] {
        let mut settings = TrainingSettings { old_logp, probe_gradients: ProbeSettings::default(), ..settings() };
        (settings.mini_batch_groups, settings.epochs) = (3, 2);
        let run = |_: usize, learner: &mut Learner| {
            let mut step = learner.step_of(9).with_probe().unwrap().with_lags().unwrap();
            groups(7, 9).into_iter().for_each(|group| step.add(group).unwrap());
            let report = step.finish().unwrap();
            assert!(report.probe.is_some() && report.lags.is_some());
            (said(report), bits(learner))
        };
        let alone = on(1, &settings, run).remove(0);
        for ranks in [2, 4] {
            on(ranks, &settings, run).into_iter().for_each(|found| assert!(found == alone, "{ranks} {old_logp:?}"));
        }
    }
}

/// Two sums over all and over fewer sequences than blocks, one that is refused, and their updates: what is said of
/// each.
fn operate(learner: &mut Learner) -> Vec<String> {
    let loss = |loss| TargetLoss { loss, bounds: RatioBounds::default() };
    let sequence = |n: u32| TargetSequence {
        tokens: vec![2 + n % 5, 3, 4, 5 + n % 7],
        targets: vec![3, 4, 5 + n % 7, 1],
        factors: vec![0.0, 0.5, -0.25 * n as f32, 1.0],
        ..TargetSequence::default()
    };
    let sampled = |n| TargetSequence { sampler_logp: vec![-3.0, -2.5, -3.5, -2.0], ..sequence(n) };
    let adam = OptimizerSettings { weight_decay: 0.0, ..settings().optimizer };
    let mut said = Vec::new();
    let plain: Vec<TargetSequence> = (0..13).map(sequence).collect();
    said.push(format!("{:?}", learner.accumulate(&plain, loss(SummedLoss::CrossEntropy)).unwrap()));
    said.push(format!("{:?}", learner.accumulate(&[sampled(3), sampled(5)], loss(SummedLoss::Ppo)).unwrap()));
    said.push(format!("{:?}", learner.apply(&adam).unwrap()));
    let wrong = TargetSequence { targets: vec![999; 4], ..sequence(1) };
    said.push(learner.accumulate(&[sequence(0), wrong], loss(SummedLoss::CrossEntropy)).unwrap_err().to_string());
    said.push(learner.apply(&adam).unwrap_err().to_string());
    said.push(format!("{:?}", learner.accumulate(&plain[..1], loss(SummedLoss::CrossEntropy)).unwrap()));
    said.push(format!("{:?}", learner.apply(&adam).unwrap()));
    // A whole step after them, and before the next sum.
    said.push(self::said(learner.train(groups(4, 5)).unwrap()));
    said.push(learner.apply(&adam).unwrap_err().to_string());
    said
}

#[test]
fn operations_of_a_caller_have_the_same_bits_on_any_number_of_ranks() {
    let lora = LoraSettings { rank: 2, alpha: 6.0, ..LoraSettings::default() };
    for settings in [settings(), TrainingSettings { lora: Some(lora), ..settings() }] {
        let run = |number: usize, learner: &mut Learner| (operate(learner), bits(learner), checkpoint(number, learner));
        let alone = on(1, &settings, run).remove(0);
        assert!(alone.0[4].contains("999") && alone.0[6].contains("version: 2"), "{:?}", alone.0);
        for ranks in [2, 3, 8] {
            for (number, found) in on(ranks, &settings, run).into_iter().enumerate() {
                assert_eq!(found.0, alone.0, "rank {number} of {ranks}");
                assert!(found.1 == alone.1, "weights of rank {number} of {ranks}");
                assert!(number > 0 || found.2 == alone.2, "checkpoint of {ranks} ranks");
            }
        }
    }
}

#[test]
fn a_checkpoint_does_not_know_how_many_ranks_wrote_it() {
    let mut settings = settings();
    (settings.shuffle, settings.mini_batch_groups) = (true, 4);
    let alone = on(1, &settings, |_, learner| {
        (1..5).for_each(|step| drop(learner.train(groups(step, 8)).unwrap()));
        bits(learner)
    });
    let folder = tempfile::tempdir().unwrap();
    for (before, after) in [(1, 2), (2, 4), (4, 1), (3, 2)] {
        let path = folder.path().join(format!("{before}-{after}"));
        on(before, &settings, |number, learner| {
            (1..3).for_each(|step| drop(learner.train(groups(step, 8)).unwrap()));
            save(number, learner, &path);
        });
        let found = on(after, &settings, |number, learner| {
            // They have trained on other data before.
            learner.train(groups(99, 3)).unwrap();
            match number {
                0 => assert_eq!(learner.restore_checkpoint(&path).unwrap(), b"place in the data"),
                _ => learner.receive_checkpoint().unwrap(),
            }
            assert_eq!(learner.version(), 2);
            (3..5).for_each(|step| drop(learner.train(groups(step, 8)).unwrap()));
            bits(learner)
        });
        assert!(found.iter().all(|found| *found == alone[0]), "written by {before}, read by {after}");
    }
}

fn save(number: usize, learner: &Learner, path: &Path) {
    match number {
        0 => learner.save_checkpoint_as(path, b"place in the data", DType::F32).unwrap(),
        _ => learner.give_moments().unwrap(),
    }
}

/// A rank that notes how many bytes of moments come to it at most in one exchange.
struct NotingMoments(InProcess, Arc<AtomicUsize>);

impl Collective for NotingMoments {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn ranks(&self) -> usize {
        self.0.ranks()
    }

    fn exchange(&mut self, what: &'static str, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, RankError> {
        let got = self.0.exchange(what, parts)?;
        if what == "moments" {
            self.1.fetch_max(got.iter().map(Vec::len).sum(), Ordering::Relaxed);
        }
        Ok(got)
    }

    fn all_gather(&mut self, what: &'static str, part: Vec<u8>) -> Result<Vec<Vec<u8>>, RankError> {
        self.0.all_gather(what, part)
    }
}

#[test]
fn rank_0_never_holds_more_than_one_moment_of_the_others_while_it_writes_a_checkpoint() {
    let most = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (number, collective) in InProcess::ranks(3, PATIENT).into_iter().enumerate() {
            let most = Arc::clone(&most);
            scope.spawn(move || {
                let collective = NotingMoments(collective, if number == 0 { most } else { Arc::default() });
                checkpoint(number, &rank(settings(), Division::new(number, 3), collective));
            });
        }
    });
    let largest = learner(settings()).parameters().values().iter().map(|value| 4 * value.elem_count()).max().unwrap();
    let most = most.load(Ordering::Relaxed);
    // A length goes with the values.
    assert!(most > 8 && most <= largest + 8, "{most} bytes at once, the largest tensor has {largest}");
}

#[test]
fn an_update_that_all_ranks_skip_changes_nothing_on_any() {
    let mut settings = settings();
    settings.max_skipped_updates = 3;
    // Steps far too large to end well.
    settings.optimizer.learning_rate = 1e30;
    settings.optimizer.max_grad_norm = None;
    let run = |_: usize, learner: &mut Learner| {
        let step = |step| learner.train(groups(step, 6)).map(said).map_err(|error| error.to_string());
        let all: Vec<_> = (1..7).map(step).collect();
        assert!(all[5].as_ref().unwrap_err().starts_with("skipped updates in a row: 3"), "{all:?}");
        (all, learner.version(), bits(learner))
    };
    let alone = on(1, &settings, run).remove(0);
    on(2, &settings, run).into_iter().for_each(|found| assert!(found == alone, "{found:?}\n{alone:?}"));
}

#[test]
fn a_rank_that_fails_alone_is_named_with_its_error_by_all_others_and_nobody_goes_on() {
    let settings = settings();
    let errors = on(3, &settings, |number, learner| {
        let mut groups = groups(1, 9);
        if number == 1 {
            // Its settings could not be those of the others.
            groups.truncate(8);
        }
        let mut step = learner.step_of(9);
        groups.into_iter().for_each(|group| step.add(group).unwrap());
        (step.finish().unwrap_err().to_string(), learner.version())
    });
    for (error, version) in errors {
        assert_eq!(version, 0);
        assert!(error.starts_with("rank 1 failed: groups is a list of 8, allowed: 9"), "{error}");
    }
}

/// Parameters as those of the other ranks, but for the lowest bit of one value.
fn with_another_bit() -> Parameters {
    let mut parameters = Parameters::random(&config(), 11, 0.2, &Device::Cpu).unwrap();
    let weights = &mut parameters.trained_values_mut()[3];
    let mut values: Vec<f32> = weights.flatten_all().unwrap().to_vec1().unwrap();
    values[5] = f32::from_bits(values[5].to_bits() ^ 1);
    *weights = Tensor::from_vec(values, weights.shape(), &Device::Cpu).unwrap();
    parameters
}

/// What `work` returns on each of three ranks, of which number 1 has another bit in one weight.
fn with_one_other_weight<T: Send>(work: impl Fn(usize, &mut Learner) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let collectives = InProcess::ranks(3, PATIENT).into_iter().enumerate();
        let threads = collectives.map(|(number, collective)| {
            let work = &work;
            scope.spawn(move || {
                let division = Division::new(number, 3);
                let mut learner = match number {
                    1 => rank_of(with_another_bit(), settings(), division, collective),
                    _ => rank(settings(), division, collective),
                };
                work(number, &mut learner)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_rank_with_one_other_bit_in_one_weight_is_named_before_the_update_and_nobody_goes_on() {
    let before = bits(&learner(settings()));
    let found = with_one_other_weight(|_, learner| {
        let error = learner.train(groups(1, 9)).unwrap_err();
        let again = learner.train(groups(1, 9)).unwrap_err();
        assert!(matches!(again, LearnerError::Torn), "{again}");
        (error.to_string(), learner.version(), bits(learner))
    });
    let name = learner(settings()).parameters().trained_specs()[3].name.clone();
    for (number, (error, version, weights)) in found.into_iter().enumerate() {
        assert!(error.starts_with("rank 1 has other weights than rank "), "{error}");
        assert!(error.contains(&format!(": `{name}` differs, by damage to its memory")), "{error}");
        assert_eq!((version, weights == before), (0, number != 1), "rank {number} has updated nothing");
    }
}

#[test]
fn no_checkpoint_is_written_while_a_rank_has_other_weights() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let errors = with_one_other_weight(|number, learner| match number {
        0 => learner.save_checkpoint(&path, b"").unwrap_err().to_string(),
        _ => learner.give_moments().unwrap_err().to_string(),
    });
    assert!(errors.iter().all(|error| error.starts_with("rank 1 has other weights")), "{errors:?}");
    assert!(!path.exists());
}

/// A rank whose memory changes the last bit of the weights that rank 0 gave to it.
struct WithBadMemory(InProcess);

impl Collective for WithBadMemory {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn ranks(&self) -> usize {
        self.0.ranks()
    }

    fn exchange(&mut self, what: &'static str, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, RankError> {
        self.0.exchange(what, parts)
    }

    fn all_gather(&mut self, what: &'static str, part: Vec<u8>) -> Result<Vec<Vec<u8>>, RankError> {
        let mut got = self.0.all_gather(what, part)?;
        if what == "weights" {
            *got[0].last_mut().unwrap() ^= 1;
        }
        Ok(got)
    }
}

#[test]
fn weights_that_are_damaged_after_they_arrived_end_the_step() {
    let errors = std::thread::scope(|scope| {
        let mut ranks = InProcess::ranks(2, PATIENT);
        let second = WithBadMemory(ranks.pop().unwrap());
        let first = ranks.pop().unwrap();
        let train = |mut learner: Learner| (learner.train(groups(1, 9)).unwrap_err().to_string(), learner.version());
        let threads = [
            scope.spawn(move || train(rank(settings(), Division::new(0, 2), first))),
            scope.spawn(move || train(rank(settings(), Division::new(1, 2), second))),
        ];
        threads.map(|thread| thread.join().unwrap())
    });
    for (error, version) in errors {
        // Rank 0 updates this tensor.
        assert!(error.starts_with("rank 1 has other weights than rank 0: "), "{error}");
        assert_eq!(version, 0);
    }
}

#[test]
fn a_rank_that_has_not_joined_cannot_train() {
    let parameters = Parameters::random(&config(), 11, 0.2, &Device::Cpu).unwrap();
    let mut learner = Learner::new_rank(config(), parameters, settings(), Division::new(1, 3)).unwrap();
    let error = learner.train(groups(1, 2)).unwrap_err();
    assert!(matches!(&error, LearnerError::Rank(RankError::Missing { ranks: 3, .. })), "{error}");
    assert_eq!(error.to_string(), "ranks [0, 2] of 3 have not joined");
}

/// Groups as an engine with these weights reports them.
fn sampled_groups(learner: &Learner) -> Vec<ResponseGroup> {
    let mut groups = groups(1, 6);
    for group in &mut groups {
        let pairs: Vec<_> = group.responses.iter().map(|response| (&group.prompt[..], &response.tokens[..])).collect();
        let scores = learner.score(&pairs, learner.settings().temperature).unwrap();
        for (response, scores) in group.responses.iter_mut().zip(scores) {
            response.comparisons = vec![Comparison::Exact; response.tokens.len()];
            response.rollout_logp = scores.logp;
        }
    }
    groups
}

#[test]
fn one_bit_in_any_group_ends_the_step_on_all_ranks_whichever_has_scored_it() {
    for mini_batch_groups in [0, 2] {
        let settings = TrainingSettings { mini_batch_groups, old_logp: OldLogp::Proximal, ..settings() };
        for ranks in [1, 2, 3] {
            let equal = on(ranks, &settings, |_, learner| learner.train(sampled_groups(learner)).unwrap().compared);
            assert!(equal.iter().all(|compared| compared.equal > 0 && compared.uncompared == 0), "{equal:?}");
            for changed in 0..6 {
                let found = on(ranks, &settings, |_, learner| {
                    let mut groups = sampled_groups(learner);
                    // The first token of each response is trained on.
                    for logp in groups[changed].responses.iter_mut().map(|response| &mut response.rollout_logp[0]) {
                        *logp = f32::from_bits(logp.to_bits() + 1);
                    }
                    let before = bits(learner);
                    let error = learner.train(groups).unwrap_err();
                    assert!(bits(learner) == before);
                    error
                });
                for error in found {
                    let is_named = matches!(error, LearnerError::SampledOtherwise { group, .. } if group == changed);
                    assert!(is_named, "{error} on {ranks} ranks");
                }
            }
        }
    }
}
