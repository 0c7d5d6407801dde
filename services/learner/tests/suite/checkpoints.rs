//! Checkpoints and published weights.

use std::path::Path;

use crate::support::{bits, config, groups, learner, settings};
use evenkeel_learner::{Example, Learner, PublishOptions, verify_published};
use evenkeel_model_folder::VersionMarker;

fn example(seed: u32) -> Example {
    Example { prompt: vec![2 + seed % 5, 3], response: vec![4, 5 + seed % 7, 1] }
}

/// Supervised steps, then policy steps with shuffled mini-batches: everything that has state.
fn train(learner: &mut Learner, steps: std::ops::Range<u64>) {
    for step in steps {
        if step < 2 {
            learner.supervised_step(&[example(step as u32), example(7)]).unwrap();
        } else {
            learner.train(groups(step, 4)).unwrap();
        }
    }
}

fn shuffled() -> evenkeel_learner::TrainingSettings {
    let mut settings = settings();
    (settings.shuffle, settings.mini_batch_groups, settings.epochs) = (true, 2, 2);
    settings
}

#[test]
fn training_goes_on_bit_by_bit_from_a_checkpoint_at_any_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = learner(shuffled());
    train(&mut whole, 0..5);
    for stop in 0..5 {
        let path = folder.path().join("checkpoint");
        let mut first = learner(shuffled());
        train(&mut first, 0..stop);
        first.save_checkpoint(&path, b"place in the data").unwrap();
        drop(first);
        let mut second = learner(shuffled());
        // It has trained on other data before.
        second.train(groups(99, 2)).unwrap();
        assert_eq!(second.restore_checkpoint(&path).unwrap(), b"place in the data");
        assert_eq!(second.version(), stop);
        train(&mut second, stop..5);
        assert_eq!(bits(&second), bits(&whole), "stopped after {stop}");
    }
}

#[test]
fn a_checkpoint_in_bf16_takes_half_the_room_and_rounds_weights_once() {
    let folder = tempfile::tempdir().unwrap();
    let [full, half, again] = ["full", "half", "again"].map(|name| folder.path().join(name));
    let mut first = learner(shuffled());
    train(&mut first, 0..3);
    first.save_checkpoint(&full, b"").unwrap();
    first.save_checkpoint_as(&half, b"place in the data", candle_core::DType::BF16).unwrap();
    for name in ["model.safetensors", "moments.safetensors"] {
        let size = |folder: &Path| std::fs::metadata(folder.join(name)).unwrap().len();
        assert!(size(&half) < size(&full) * 3 / 4, "{name}: {} of {}", size(&half), size(&full));
    }
    let mut second = learner(shuffled());
    assert_eq!(second.restore_checkpoint(&half).unwrap(), b"place in the data");
    assert_eq!(second.version(), 3);
    let near = |(a, b): (u32, u32)| {
        let a = f32::from_bits(a);
        let b = f32::from_bits(b);
        b.to_bits() & 0xffff == 0 && (a - b).abs() <= a.abs() / 128.0
    };
    assert!(bits(&first).into_iter().zip(bits(&second)).all(near));
    // What was rounded stays as it is.
    second.save_checkpoint_as(&again, b"place in the data", candle_core::DType::BF16).unwrap();
    let read = |folder: &Path| std::fs::read(folder.join("moments.safetensors")).unwrap();
    assert_eq!(read(&half), read(&again));
    train(&mut second, 3..5);
    let error = first.save_checkpoint_as(&again, b"", candle_core::DType::F16).unwrap_err().to_string();
    assert!(error.contains("dtype is F16, allowed: F32 or BF16"), "{error}");
}

fn saved(folder: &Path) -> Learner {
    let mut learner = learner(settings());
    train(&mut learner, 0..3);
    learner.save_checkpoint(folder, b"place in the data").unwrap();
    learner
}

#[test]
fn a_broken_checkpoint_is_named_and_refused_and_changes_nothing() {
    for name in ["model.safetensors", "moments.safetensors", "config.json", "state.json", "client_state.bin"] {
        for damage in ["missing", "truncated", "altered"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("checkpoint");
            saved(&path);
            let file = path.join(name);
            let mut bytes = std::fs::read(&file).unwrap();
            match damage {
                "missing" => std::fs::remove_file(&file).unwrap(),
                "truncated" => std::fs::write(&file, &bytes[..bytes.len() - 3]).unwrap(),
                _ => {
                    let last = bytes.len() - 2;
                    bytes[last] ^= 0xff;
                    std::fs::write(&file, &bytes).unwrap();
                }
            }
            let mut learner = learner(settings());
            let before = bits(&learner);
            let error = learner.restore_checkpoint(&path).unwrap_err().to_string();
            assert!(error.contains(name), "{damage} {name}: {error}");
            assert_eq!((bits(&learner), learner.version()), (before, 0), "{damage} {name}");
        }
    }
}

#[test]
fn the_seed_belongs_to_a_checkpoint_and_comes_back_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let with_seed = |seed| learner(evenkeel_learner::TrainingSettings { seed, ..shuffled() });
    with_seed(7).save_checkpoint(folder.path(), b"").unwrap();
    let next = |mut learner: Learner| {
        learner.train(groups(60, 4)).unwrap();
        bits(&learner)
    };
    let mut restored = with_seed(0);
    restored.restore_checkpoint(folder.path()).unwrap();
    assert_eq!(next(restored), next(with_seed(7)));
}

/// Changes `state.json` of a checkpoint.
fn edit_state(folder: &Path, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
    let path = folder.join("state.json");
    let mut state: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(state.as_object_mut().unwrap());
    std::fs::write(path, state.to_string()).unwrap();
}

/// Two updates a step, and a rate that rises over four steps.
fn by_steps() -> evenkeel_learner::TrainingSettings {
    let mut settings = settings();
    (settings.mini_batch_groups, settings.optimizer.warmup_steps) = (2, 4);
    settings
}

#[test]
fn a_warm_up_in_steps_counts_steps_and_goes_on_from_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = learner(by_steps());
    let peak = by_steps().optimizer.learning_rate;
    let rates = |learner: &mut Learner, seed| {
        let report = learner.train(groups(seed, 4)).unwrap();
        report.updates.iter().map(|update| update.learning_rate / peak).collect::<Vec<_>>()
    };
    assert_eq!([70, 71].map(|seed| rates(&mut first, seed)), [[0.25, 0.25], [0.5, 0.5]]);
    first.save_checkpoint(folder.path(), b"").unwrap();
    let mut second = learner(by_steps());
    second.restore_checkpoint(folder.path()).unwrap();
    assert_eq!([72, 73, 74].map(|seed| rates(&mut second, seed)), [[0.75, 0.75], [1.0, 1.0], [1.0, 1.0]]);
}

#[test]
fn steps_of_each_phase_are_counted_on_their_own_and_those_without_an_update_count() {
    let mut settings = by_steps();
    (settings.supervised.warmup_updates, settings.supervised.warmup_steps) = (0, 2);
    let peak = settings.supervised.learning_rate;
    let mut learner = learner(settings);
    let rates: Vec<f64> =
        (0..3).map(|_| learner.supervised_step(&[example(1)]).unwrap().learning_rate / peak).collect();
    assert_eq!(rates, [0.5, 1.0, 1.0]);
    let mut nothing = groups(75, 2);
    nothing.iter_mut().flat_map(|group| &mut group.responses).for_each(|response| response.mask.fill(false));
    assert!(learner.train(nothing).unwrap().updates.is_empty());
    let report = learner.train(groups(76, 2)).unwrap();
    assert_eq!(report.updates[0].learning_rate, 0.5 * by_steps().optimizer.learning_rate);
}

#[test]
fn a_checkpoint_of_another_layout_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    saved(folder.path());
    for format in [2, 4] {
        edit_state(folder.path(), |state| drop(state.insert("format".into(), format.into())));
        let error = learner(settings()).restore_checkpoint(folder.path()).unwrap_err().to_string();
        let words = format!("`format` is {format}, allowed: 3");
        assert!(error.contains("state.json") && error.contains(&words), "{error}");
    }
}

#[test]
fn every_change_of_the_state_itself_is_noticed() {
    type Change = fn(&mut serde_json::Map<String, serde_json::Value>);
    let changes: [(&str, Change); 6] = [
        ("a step more", |state| drop(state.insert("steps".into(), 4.into()))),
        ("fewer updates", |state| drop(state.insert("updates".into(), 0.into()))),
        ("steps of the phase", |state| drop(state.insert("phase_steps".into(), 9.into()))),
        ("another seed", |state| drop(state.insert("seed".into(), 5.into()))),
        ("another length", |state| state["files"]["client_state.bin"]["bytes"] = 3.into()),
        ("no digest", |state| drop(state.remove("digest"))),
    ];
    for (what, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        saved(folder.path());
        edit_state(folder.path(), |_| {});
        learner(settings()).restore_checkpoint(folder.path()).expect("written in another way, it says the same");
        edit_state(folder.path(), change);
        let error = learner(settings()).restore_checkpoint(folder.path()).unwrap_err().to_string();
        let words = if what == "no digest" { "missing field `digest`" } else { "was changed after it was written" };
        assert!(error.contains("state.json") && error.contains(words), "{what}: {error}");
    }
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
    for name in ["model.safetensors", "moments.safetensors", "config.json", "state.json", "client_state.bin"] {
        let folder = tempfile::tempdir().unwrap();
        saved(folder.path());
        let path = folder.path().join(name);
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = learner(settings()).restore_checkpoint(folder.path()).unwrap_err();
        let causes: Vec<String> = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source())
            .map(ToString::to_string)
            .collect();
        assert!(causes.join(": ").contains("allowed: a regular file"), "{name}: {causes:?}");
    }
}

#[test]
fn a_checkpoint_of_another_architecture_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    saved(folder.path());
    let config = evenkeel_model::Config { rope: evenkeel_model::Rope::plain(5e5), ..config() };
    let parameters = evenkeel_model::Parameters::random(&config, 1, 0.1, &candle_core::Device::Cpu).unwrap();
    let mut other = Learner::new(config, parameters, settings()).unwrap();
    let error = other.restore_checkpoint(folder.path()).unwrap_err().to_string();
    assert!(error.contains("config.json") && error.contains("architecture"), "{error}");
}

#[test]
fn a_checkpoint_replaces_an_older_one_and_leaves_no_staging_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latest");
    // Leftovers of a killed writer.
    std::fs::create_dir(folder.path().join(".latest.partial")).unwrap();
    let mut learner = saved(&path);
    learner.train(groups(50, 2)).unwrap();
    learner.save_checkpoint(&path, b"place in the data").unwrap();
    let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["latest"]);
    let mut other = crate::support::learner(settings());
    other.restore_checkpoint(&path).unwrap();
    assert_eq!(bits(&other), bits(&learner));
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latest");
    let learner = saved(&path);
    // A file with the name of the temporary folder.
    std::fs::write(folder.path().join(".latest.partial"), "in the way").unwrap();
    let error = learner.save_checkpoint(&path, b"place in the data").unwrap_err().to_string();
    assert!(error.contains(".latest.partial"), "{error}");
    crate::support::learner(settings()).restore_checkpoint(&path).unwrap();
}

#[test]
fn published_weights_open_as_a_model_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(settings());
    train(&mut learner, 0..3);
    let published = learner.publish(folder.path(), PublishOptions::default()).unwrap();
    assert_eq!((published.version, published.path.clone()), (3, folder.path().join("step-3")));
    assert_eq!(verify_published(&published.path).unwrap(), published);
    let other = Learner::open(&published.path, settings()).unwrap();
    assert_eq!(bits(&other), bits(&learner));
}

#[test]
fn published_weights_carry_the_tokenizer_and_the_type_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let first = learner(settings()).publish(folder.path(), PublishOptions::default()).unwrap();
    std::fs::write(first.path.join("tokenizer.json"), "{}").unwrap();
    let mut opened = Learner::open(&first.path, settings()).unwrap();
    opened.train(groups(1, 2)).unwrap();
    let options = PublishOptions::new(candle_core::DType::BF16, Some(10_000));
    let second = opened.publish(folder.path(), options).unwrap();
    assert_eq!(std::fs::read_to_string(second.path.join("tokenizer.json")).unwrap(), "{}");
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(second.path.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["dtype"], "bfloat16");
    assert!(second.path.join("model.safetensors.index.json").exists());
    let rounded = Learner::open(&second.path, settings()).unwrap();
    let errors =
        crate::support::weights(&rounded).into_iter().zip(crate::support::weights(&opened)).map(|(a, b)| (a - b).abs());
    assert!(errors.fold(0.0, f32::max) < 0.005);
}

#[test]
fn a_published_folder_without_its_marker_or_with_other_weights_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let published = learner(settings()).publish(folder.path(), PublishOptions::default()).unwrap();
    let weights = published.path.join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    assert!(verify_published(&published.path).unwrap_err().to_string().contains("damaged"));
    std::fs::remove_file(published.path.join(VersionMarker::NAME)).unwrap();
    assert!(verify_published(&published.path).unwrap_err().to_string().contains(VersionMarker::NAME));
}
