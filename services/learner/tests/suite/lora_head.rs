//! An adapter of the head, which only a model has whose head is not its embedding.

use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use evenkeel_learner::{Learner, LoraSettings, PublishOptions, TrainingSettings};
use evenkeel_model::decode::DecodeStep;
use evenkeel_model::folder::{SaveOptions, StoredAdapter, save_config, save_parameters};
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::{BaseWeights, Config, Decoder, LinearModule, Parameters, Recompute};
use tempfile::TempDir;

use crate::support::{bits, config, groups, host, settings};

fn untied() -> Config {
    Config { tie_word_embeddings: false, ..config() }
}

/// A folder with such a model of random weights.
fn base() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let parameters = Parameters::random(&untied(), 1, 0.2, &Device::Cpu).unwrap();
    save_parameters(folder.path(), &parameters, SaveOptions::default()).unwrap();
    save_config(folder.path(), &untied().to_json().unwrap(), DType::F32).unwrap();
    folder
}

fn with_head() -> TrainingSettings {
    let targets = vec![LinearModule::Head, LinearModule::Query, LinearModule::Down];
    TrainingSettings {
        lora: Some(LoraSettings { rank: 4, alpha: 8.0, targets, ..LoraSettings::default() }),
        ..settings()
    }
}

fn trained(base: &Path, settings: TrainingSettings) -> Learner {
    let mut learner = Learner::open(base, settings).unwrap();
    (0..3).for_each(|step| drop(learner.train(groups(step, 4)).unwrap()));
    learner
}

fn scores(learner: &Learner) -> Vec<f32> {
    learner.score(&[(&[5, 9, 2], &[3, 17, 4, 28, 1])], 1.0).unwrap().remove(0).logp
}

#[test]
fn it_begins_as_the_base_to_the_bit_and_is_trained_with_the_others() {
    let base = base();
    let fresh = Learner::open(base.path(), with_head()).unwrap();
    assert_eq!(scores(&fresh), scores(&Learner::open(base.path(), settings()).unwrap()));
    let learner = trained(base.path(), with_head());
    let specs = learner.parameters().trained_specs().iter();
    let names: Vec<_> = specs.rev().take(2).map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["base_model.model.lm_head.lora_B.weight", "base_model.model.lm_head.lora_A.weight"]);
    for (at, spec) in learner.parameters().trained_specs().iter().enumerate() {
        let values = |learner: &Learner| host(&learner.parameters().trained_values()[at]);
        assert!(values(&learner) != values(&fresh), "{}", spec.name);
    }
    let head = learner.parameters().ids().head.weight;
    assert_eq!(host(learner.parameters().get(head)), host(fresh.parameters().get(head)));
}

#[test]
fn its_bits_do_not_depend_on_threads_or_recomputed_layers() {
    let base = base();
    let trained_with = |threads, recompute| {
        let mut settings = with_head();
        (settings.compute.threads, settings.compute.recompute) = (threads, recompute);
        bits(&trained(base.path(), settings))
    };
    let one = trained_with(1, Recompute::None);
    assert_eq!(trained_with(3, Recompute::None), one);
    assert_eq!(trained_with(2, Recompute::Full), one);
}

#[test]
fn a_decoder_computes_it_as_the_learner_does() {
    let base = base();
    let folder = tempfile::tempdir().unwrap();
    let learner = trained(base.path(), with_head());
    let published = learner.publish(folder.path(), PublishOptions::default()).unwrap().path;
    let adapter = StoredAdapter::open(&published, &untied()).unwrap();
    assert_eq!(adapter.shape().targets, [LinearModule::Query, LinearModule::Down, LinearModule::Head]);
    let weights = BaseWeights::shared(base.path(), untied()).unwrap();
    let logits = |decoder: &Decoder| {
        let mut cache = decoder.sequence().unwrap();
        decoder.step(&mut [DecodeStep::new(&mut cache, &[5, 9, 2])]).unwrap()
    };
    let beside = Decoder::beside(Arc::clone(&weights), &adapter, Cpu::new().unwrap(), 1).unwrap();
    let own = Decoder::new(untied(), learner.parameters(), Cpu::new().unwrap(), 1).unwrap();
    assert_eq!(logits(&beside), logits(&own));
    assert!(logits(&beside) != logits(&Decoder::of(weights, Cpu::new().unwrap(), 1).unwrap()));
}

#[test]
fn peft_writes_the_bases_head_beside_it_and_another_one_is_refused() {
    let base = base();
    let folder = tempfile::tempdir().unwrap();
    let learner = trained(base.path(), with_head());
    let published = learner.publish(folder.path(), PublishOptions::default()).unwrap().path;
    let head = learner.parameters().get(learner.parameters().ids().head.weight).contiguous().unwrap();
    let file = published.join("adapter_model.safetensors");
    let own = candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
    let begin = |head: Tensor| {
        let mut tensors = own.clone();
        tensors.insert("base_model.model.lm_head.base_layer.weight".into(), head);
        candle_core::safetensors::save(&tensors, &file).unwrap();
        let mut settings = with_head();
        settings.lora.as_mut().unwrap().start = Some(published.clone());
        Learner::open(base.path(), settings).map(|begun| bits(&begun)).map_err(|error| error.to_string())
    };
    assert_eq!(begin(head.clone()).unwrap(), bits(&learner));
    let error = begin((&head + 1e-3).unwrap()).unwrap_err();
    assert!(error.contains("lm_head.base_layer.weight`: is not the head of the base"), "{error}");
    let error = begin(head.narrow(0, 0, 7).unwrap().contiguous().unwrap()).unwrap_err();
    assert!(error.contains("lm_head.base_layer.weight") && error.contains("[7, 24]"), "{error}");
}
