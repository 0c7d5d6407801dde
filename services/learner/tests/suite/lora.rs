//! Adapters are trained beside frozen weights: what changes, what is written, and what is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use evenkeel_config::Settings;
use evenkeel_learner::{
    BaseType, ComputeType, Export, Learner, LoraSettings, PublishOptions, TrainingSettings, export, verify_published,
};
use evenkeel_model::decode::DecodeStep;
use evenkeel_model::folder::{SaveOptions, StoredAdapter, load_parameters, save_config, save_parameters};
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::{BaseWeights, Decoder, LinearModule, Parameters};
use tempfile::TempDir;

use crate::support::{bits, config, groups, host, settings};

fn with(lora: LoraSettings) -> TrainingSettings {
    TrainingSettings { lora: Some(lora), ..settings() }
}

fn lora() -> LoraSettings {
    LoraSettings { rank: 4, alpha: 8.0, ..LoraSettings::default() }
}

/// A folder with a model of random weights.
fn base(seed: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let parameters = Parameters::random(&config(), seed, 0.2, &Device::Cpu).unwrap();
    save_parameters(folder.path(), &parameters, SaveOptions::default()).unwrap();
    save_config(folder.path(), &config().to_json().unwrap(), DType::F32).unwrap();
    folder
}

fn open(base: &TempDir, settings: TrainingSettings) -> Learner {
    Learner::open(base.path(), settings).unwrap()
}

/// One that has learned: no B is zero any more.
fn trained(base: &TempDir) -> Learner {
    let mut learner = open(base, with(lora()));
    (0..3).for_each(|step| drop(learner.train(groups(step, 4)).unwrap()));
    learner
}

const PROMPT: [u32; 3] = [5, 9, 2];
const RESPONSE: [u32; 5] = [3, 17, 4, 28, 1];

fn scores(learner: &Learner) -> Vec<u32> {
    let scores = learner.score(&[(&PROMPT, &RESPONSE)], 1.0).unwrap().remove(0);
    scores.logp.iter().chain(&scores.entropy).map(|value| value.to_bits()).collect()
}

fn values(tensors: &[Tensor]) -> Vec<Vec<f32>> {
    tensors.iter().map(host).collect()
}

#[test]
fn fresh_adapters_compute_what_their_base_computes_to_the_bit() {
    let base = base(1);
    let full = scores(&open(&base, settings()));
    for seed in 0..3 {
        assert_eq!(scores(&open(&base, with(LoraSettings { seed, ..lora() }))), full);
    }
    // Also where nothing is shared with a decoder.
    let parameters = load_parameters(base.path(), &config(), &Device::Cpu).unwrap();
    assert_eq!(scores(&Learner::new(config(), parameters, with(lora())).unwrap()), full);
    assert!(scores(&trained(&base)) != full);
}

#[test]
fn training_changes_the_adapters_and_nothing_else() {
    let base = base(1);
    let fresh = open(&base, with(lora()));
    let learner = trained(&base);
    let first = learner.parameters().trained().start;
    assert_eq!(learner.parameters().trained().len(), 2 * 7 * config().num_layers);
    assert_eq!(values(&learner.parameters().values()[..first]), values(&fresh.parameters().values()[..first]));
    for (spec, (now, before)) in learner
        .parameters()
        .trained_specs()
        .iter()
        .zip(learner.parameters().trained_values().iter().zip(fresh.parameters().trained_values()))
    {
        assert!(host(now) != host(before), "{}", spec.name);
    }
}

#[test]
fn a_seed_decides_a_and_b_begins_at_zero() {
    let base = base(1);
    let seeded = |seed| open(&base, with(LoraSettings { seed, ..lora() }));
    let one = seeded(1);
    let other = seeded(2);
    assert_eq!(bits(&one), bits(&seeded(1)));
    for (at, spec) in one.parameters().trained_specs().iter().enumerate() {
        let one = &one.parameters().trained_values()[at];
        let other = &other.parameters().trained_values()[at];
        let bound = 1.0 / (spec.shape[1] as f32).sqrt();
        if spec.name.ends_with("lora_A.weight") {
            assert!(host(one) != host(other) && host(one).iter().all(|value| value.abs() <= bound))
        } else {
            assert!(host(one).iter().all(|value| *value == 0.0))
        }
    }
}

#[test]
fn the_bits_of_adapters_do_not_depend_on_threads_or_recomputed_layers() {
    let base = base(1);
    let trained_with = |threads, recompute| {
        let mut settings = with(lora());
        (settings.compute.threads, settings.compute.recompute) = (threads, recompute);
        let mut learner = open(&base, settings);
        (0..2).for_each(|step| drop(learner.train(groups(step, 4)).unwrap()));
        bits(&learner)
    };
    let one = trained_with(1, evenkeel_model::Recompute::None);
    assert_eq!(trained_with(3, evenkeel_model::Recompute::None), one);
    assert_eq!(trained_with(2, evenkeel_model::Recompute::Full), one);
}

#[test]
fn the_divergence_of_fresh_adapters_from_the_reference_is_exactly_zero_and_needs_no_second_base() {
    let base = base(1);
    let mut settings = with(lora());
    settings.objective.kl_coefficient = 0.1;
    let mut learner = open(&base, settings);
    let report = learner.train(groups(0, 4)).unwrap();
    assert_eq!(report.updates[0].term_losses[0], 0.0, "{:?}", report.updates[0]);
    let report = learner.train(groups(1, 4)).unwrap();
    assert!(report.updates[0].term_losses[0] > 0.0, "{:?}", report.updates[0]);
}

#[test]
fn a_checkpoint_has_adapters_and_moments_alone_and_training_goes_on_bit_by_bit() {
    let base = base(1);
    let folder = tempfile::tempdir().unwrap();
    let mut shuffled = with(lora());
    (shuffled.shuffle, shuffled.mini_batch_groups, shuffled.epochs) = (true, 2, 2);
    let mut whole = open(&base, shuffled.clone());
    (0..4).for_each(|step| drop(whole.train(groups(step, 4)).unwrap()));
    for stop in 0..4 {
        let path = folder.path().join("checkpoint");
        let mut first = open(&base, shuffled.clone());
        (0..stop).for_each(|step| drop(first.train(groups(step, 4)).unwrap()));
        first.save_checkpoint(&path, b"place in the data").unwrap();
        assert!(!path.join("model.safetensors").exists());
        let scalars = first.parameters().trained_count() as u64;
        let size: u64 = ["adapter_model.safetensors", "moments.safetensors"]
            .map(|name| std::fs::metadata(path.join(name)).unwrap().len())
            .iter()
            .sum();
        assert!((12 * scalars..12 * scalars + 20_000).contains(&size), "{size} bytes for {scalars} scalars");
        let mut second = open(&base, shuffled.clone());
        second.train(groups(99, 2)).unwrap();
        assert_eq!(second.restore_checkpoint(&path).unwrap(), b"place in the data");
        (stop..4).for_each(|step| drop(second.train(groups(step, 4)).unwrap()));
        assert_eq!(bits(&second), bits(&whole), "stopped after {stop}");
    }
}

#[test]
fn a_checkpoint_for_another_base_of_another_shape_or_of_all_weights_is_refused_and_changes_nothing() {
    let one = base(1);
    let other = base(2);
    let folder = tempfile::tempdir().unwrap();
    let [adapters, full] = ["adapters", "full"].map(|name| folder.path().join(name));
    trained(&one).save_checkpoint(&adapters, b"").unwrap();
    open(&one, settings()).save_checkpoint(&full, b"").unwrap();
    let refused = |mut learner: Learner, from: &Path| {
        let before = bits(&learner);
        let error = learner.restore_checkpoint(from).unwrap_err().to_string();
        assert_eq!((bits(&learner), learner.version()), (before, 0));
        error
    };
    let error = refused(open(&other, with(lora())), &adapters);
    assert!(error.contains("is an adapter for another base: sha256:"), "{error}");
    let error = refused(open(&one, with(LoraSettings { rank: 2, ..lora() })), &adapters);
    assert!(error.contains("is an adapter of rank 4, alpha 8") && error.contains("allowed: rank 2"), "{error}");
    let error = refused(open(&one, settings()), &adapters);
    assert!(error.contains("is a checkpoint of adapters, allowed: all weights"), "{error}");
    let error = refused(open(&one, with(lora())), &full);
    assert!(error.contains("is a checkpoint of all weights, allowed: adapters"), "{error}");
}

#[test]
fn a_reset_returns_to_the_adapters_of_the_beginning() {
    let base = base(1);
    let mut learner = trained(&base);
    learner.reset().unwrap();
    assert_eq!((bits(&learner), learner.version()), (bits(&open(&base, with(lora()))), 0));
}

/// The folder of a published version, and the learner that published it.
fn published(base: &TempDir, folder: &Path, options: PublishOptions) -> (PathBuf, Learner) {
    let learner = trained(base);
    let published = learner.publish(folder, options).unwrap();
    assert_eq!(verify_published(&published.path).unwrap(), published);
    (published.path, learner)
}

#[test]
fn a_published_version_is_an_adapter_that_a_decoder_computes_as_the_learner_does() {
    let base = base(1);
    let folder = tempfile::tempdir().unwrap();
    let (path, learner) = published(&base, folder.path(), PublishOptions::default());
    let names: std::collections::BTreeSet<_> =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(
        names.iter().map(String::as_str).collect::<Vec<_>>(),
        ["adapter_config.json", "adapter_model.safetensors", "evenkeel-version.json"]
    );
    let adapter = StoredAdapter::open(&path, &config()).unwrap();
    let weights = BaseWeights::shared(base.path(), config()).unwrap();
    let values = adapter.read_all(&Device::Cpu).unwrap();
    let logits = |decoder: &Decoder| {
        let mut cache = decoder.sequence().unwrap();
        decoder.step(&mut [DecodeStep::new(&mut cache, &PROMPT)]).unwrap()
    };
    let beside = Decoder::with_adapters(Arc::clone(&weights), adapter.shape(), values, Cpu::new().unwrap(), 1).unwrap();
    let own = Decoder::new(config(), learner.parameters(), Cpu::new().unwrap(), 1).unwrap();
    let alone = Decoder::of(weights, Cpu::new().unwrap(), 1).unwrap();
    assert_eq!(logits(&beside), logits(&own));
    assert!(logits(&beside) != logits(&alone), "it answers as the base");
}

#[test]
fn a_base_in_bf16_trains_publishes_and_decodes_to_the_bits_of_the_same_values_in_fp32() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = Parameters::random(&config(), 1, 0.2, &Device::Cpu).unwrap();
    let options = SaveOptions { dtype: DType::BF16, ..SaveOptions::default() };
    save_parameters(folder.path(), &parameters, options).unwrap();
    save_config(folder.path(), &config().to_json().unwrap(), DType::BF16).unwrap();
    let run = |dtype: ComputeType, base_type: BaseType| {
        let mut settings = with(LoraSettings { base_type, ..lora() });
        settings.compute.dtype = dtype;
        settings.objective.kl_coefficient = 0.1;
        let mut learner = open(&folder, settings);
        let reports: Vec<String> =
            (0..3).map(|step| format!("{:?}", learner.train(groups(step, 4)).unwrap())).collect();
        let trained = values(learner.parameters().trained_values());
        let published = tempfile::tempdir().unwrap();
        let digest = learner.publish(published.path(), PublishOptions::default()).unwrap().digest;
        let decoder = Decoder::new(config(), learner.parameters(), Cpu::new().unwrap(), 1).unwrap();
        let mut cache = decoder.sequence().unwrap();
        let logits = decoder.step(&mut [DecodeStep::new(&mut cache, &PROMPT)]).unwrap();
        let held = learner.parameters().values()[0].dtype();
        (held, (reports, trained, digest, logits, scores(&learner)))
    };
    for dtype in [ComputeType::F32, ComputeType::Bf16] {
        let wide = run(dtype, BaseType::F32);
        let narrow = run(dtype, BaseType::Bf16);
        assert_eq!((wide.0, narrow.0), (DType::F32, DType::BF16));
        assert!(wide.1 == narrow.1, "{dtype:?}\n{:?}\n{:?}", wide.1.0, narrow.1.0);
    }
}

#[test]
fn a_base_is_held_in_bf16_only_where_that_rounds_nothing() {
    let mut narrow = with(LoraSettings { base_type: BaseType::Bf16, ..lora() });
    for dtype in [ComputeType::F32, ComputeType::Bf16] {
        narrow.compute.dtype = dtype;
        let error = Learner::open(base(1).path(), narrow.clone()).err().unwrap().to_string();
        assert!(error.contains("has type F32, allowed: BF16"), "{dtype:?}: {error}");
    }
    narrow.compute.device = "cuda".into();
    narrow.validate().unwrap();
}

#[test]
fn the_same_adapter_has_the_same_digest_wherever_its_base_lies() {
    let folder = tempfile::tempdir().unwrap();
    let digest = |base: TempDir, name: &str| {
        let (path, _) = published(&base, &folder.path().join(name), PublishOptions::default());
        verify_published(&path).unwrap().digest
    };
    assert_eq!(digest(base(1), "one"), digest(base(1), "other"));
    assert!(digest(base(1), "again") != digest(base(2), "of another base"));
}

#[test]
fn another_training_begins_with_an_adapter_of_the_same_shape_and_base() {
    let one = base(1);
    let other = base(2);
    let folder = tempfile::tempdir().unwrap();
    let (path, learner) = published(&one, folder.path(), PublishOptions::default());
    let start = |change: fn(&mut LoraSettings)| {
        let mut lora = LoraSettings { start: Some(path.clone()), ..lora() };
        change(&mut lora);
        with(lora)
    };
    let mut begun = open(&one, start(|_| ()));
    assert_eq!((bits(&begun), begun.version()), (bits(&learner), 0));
    begun.train(groups(7, 4)).unwrap();
    assert!(bits(&begun) != bits(&learner));
    begun.reset().unwrap();
    assert_eq!(bits(&begun), bits(&learner));
    let refused = |base: &TempDir, settings| Learner::open(base.path(), settings).err().unwrap().to_string();
    assert!(refused(&other, start(|_| ())).contains("is an adapter for another base"));
    assert!(refused(&one, start(|lora| lora.alpha = 4.0)).contains("alpha 8"));
    assert!(refused(&one, start(|lora| lora.targets.truncate(lora.targets.len() - 1))).contains("down_proj"));
    assert!(refused(&one, start(|lora| lora.start = Some("/nowhere".into()))).contains("/nowhere"));
}

#[test]
fn adapters_that_no_linear_layer_has_are_refused_by_their_setting() {
    let base = base(1);
    for (change, words) in [
        (
            (|lora| lora.rank = 9) as fn(&mut LoraSettings),
            "lora.rank is 9, allowed: 1 to 8, the smaller side of k_proj",
        ),
        (|lora| lora.rank = 0, "lora.rank is 0, allowed: 1 or more"),
        (|lora| lora.alpha = f64::NAN, "lora.alpha is NaN, allowed: a finite number above 0"),
        (|lora| lora.targets.clear(), "lora.targets is empty, allowed: at least one linear layer"),
        (|lora| lora.targets.push(LinearModule::Up), "lora.targets is up_proj, allowed: each linear layer once"),
        (
            |lora| lora.targets.push(LinearModule::Head),
            "lora.targets is lm_head, allowed: linear layers of the decoder: the head of this model is tied to its \
            embedding",
        ),
    ] {
        let mut lora = lora();
        change(&mut lora);
        let error = Learner::open(base.path(), with(lora)).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = serde_json::from_str::<LoraSettings>(r#"{"targets": ["embed_tokens"]}"#).unwrap_err().to_string();
    assert!(error.contains("embed_tokens") && error.contains("q_proj") && error.contains("lm_head"), "{error}");
}

#[test]
fn a_start_with_another_scale_or_an_unknown_base_is_named() {
    let base = base(1);
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = published(&base, folder.path(), PublishOptions::default());
    let start = with(LoraSettings { start: Some(path.clone()), ..lora() });
    let about_base = |settings: &TrainingSettings| {
        let notes = settings.notes();
        notes.into_iter().find(|note| note.starts_with("lora.start: "))
    };
    assert_eq!(about_base(&start), None);
    // As PEFT writes one.
    let file = path.join("adapter_model.safetensors");
    let tensors = candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
    candle_core::safetensors::save(&tensors, &file).unwrap();
    let described = std::fs::read_to_string(path.join("adapter_config.json")).unwrap();
    let named = described.replace("\"base_model_name_or_path\": null", "\"base_model_name_or_path\": \"someone/else\"");
    std::fs::write(path.join("adapter_config.json"), &named).unwrap();
    let note = about_base(&start).unwrap();
    assert!(note.contains("names someone/else and does not hold its digest"), "{note}");
    assert!(Learner::open(base.path(), start.clone()).is_ok());

    std::fs::write(path.join("adapter_config.json"), named.replace("\"use_rslora\": false", "\"use_rslora\": true"))
        .unwrap();
    let error = Learner::open(base.path(), start).err().unwrap().to_string();
    assert!(error.contains("alpha 16") && error.contains("use_rslora") && error.contains("alpha 8"), "{error}");
}

/// An adapter's files with one thing wrong.
#[test]
fn a_damaged_adapter_is_refused_by_the_tensor_or_field_at_fault() {
    let base = base(1);
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = published(&base, folder.path(), PublishOptions::default());
    let file = path.join("adapter_model.safetensors");
    let tensors = || candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
    let name = "base_model.model.model.layers.1.mlp.up_proj.lora_B.weight";
    let kept = std::fs::read(&file).unwrap();
    let refused = |change: &dyn Fn(&mut std::collections::HashMap<String, Tensor>)| {
        let mut all = tensors();
        change(&mut all);
        candle_core::safetensors::save(&all, &file).unwrap();
        let error = StoredAdapter::open(&path, &config()).err().unwrap().to_string();
        std::fs::write(&file, &kept).unwrap();
        error
    };
    let missing = refused(&|all| drop(all.remove(name)));
    assert!(missing.contains(name) && missing.contains("is missing"), "{missing}");
    let wrong = refused(&|all| {
        let value = all.remove(name).unwrap();
        all.insert(name.replace("base_model.model.model", "base_model.model.language_model.model"), value);
    });
    assert!(wrong.contains("is missing") || wrong.contains("is no adapter"), "{wrong}");
    let other = refused(&|all| {
        all.insert("base_model.model.model.embed_tokens.lora_A.weight".into(), all[name].clone());
    });
    assert!(other.contains("embed_tokens") && other.contains("is no A or B of a linear layer"), "{other}");
    let tied = refused(&|all| {
        all.insert("base_model.model.lm_head.lora_A.weight".into(), all[name].clone());
    });
    assert!(tied.contains("targets is lm_head") && tied.contains("is tied to its embedding"), "{tied}");
    let broken = refused(&|all| {
        let value = (all[name].clone() * f64::NAN).unwrap();
        all.insert(name.into(), value);
    });
    assert!(broken.contains(name) && broken.contains("not finite"), "{broken}");
    std::fs::write(&file, &kept[..kept.len() - 5]).unwrap();
    let cut = StoredAdapter::open(&path, &config()).err().unwrap().to_string();
    assert!(cut.contains("adapter_model.safetensors"), "{cut}");
}

#[test]
fn an_export_is_an_adapter_or_merged_into_a_copy_of_its_base() {
    let base = base(1);
    let folder = tempfile::tempdir().unwrap();
    let learner = trained(&base);
    let before = std::fs::read(base.path().join("model.safetensors")).unwrap();
    let checkpoint = folder.path().join("checkpoint");
    learner.save_checkpoint(&checkpoint, b"").unwrap();
    let to = |name: &str, merged| {
        let to = folder.path().join(name);
        let options = PublishOptions::default();
        let base_name = ("a/b", "0123");
        let model = base.path();
        export(&Export { weights: &checkpoint, model, base: base_name, options, merged, files: &[] }, &to).unwrap();
        to
    };
    let adapter = to("adapter", false);
    assert!(!adapter.join("config.json").exists() && !adapter.join("model.safetensors").exists());
    let described = std::fs::read_to_string(adapter.join("adapter_config.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&described).unwrap();
    assert_eq!((&json["base_model_name_or_path"], &json["revision"]), (&"a/b".into(), &"0123".into()));
    let start = LoraSettings { start: Some(adapter.clone()), ..lora() };
    assert_eq!(scores(&open(&base, with(start))), scores(&learner));
    let merged = to("merged", true);
    assert!(!merged.join("adapter_config.json").exists());
    let found = scores(&Learner::open(&merged, settings()).unwrap());
    let wanted = scores(&learner);
    let near = |(a, b): (&u32, &u32)| (f32::from_bits(*a) - f32::from_bits(*b)).abs() < 1e-4;
    assert!(found != scores(&open(&base, settings())) && found.iter().zip(&wanted).all(near));
    assert_eq!(std::fs::read(base.path().join("model.safetensors")).unwrap(), before, "the base was changed");
    if let Some(kept) = std::env::var_os("EVENKEEL_KEEP_LORA") {
        // For `make_lora.py check` and `same`.
        for (name, from) in [("base", base.path()), ("adapter", &adapter), ("merged", &merged)] {
            let to = Path::new(&kept).join(name);
            std::fs::create_dir_all(&to).unwrap();
            for entry in std::fs::read_dir(from).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}
