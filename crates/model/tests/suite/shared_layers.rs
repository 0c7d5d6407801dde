//! Passes that begin at the first layer that differs have the bits of whole passes.

use crate::support::{config, cpu, parameters, variants};
use candle_core::{Device, Tensor};
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::{
    Architecture, Config, HiddenStates, LinearModule, LoraShape, Network, NetworkOptions, Packed, ParameterKind,
    Parameters, Scores, TrainableModel, tensor_groups,
};

const TEMPERATURE: f32 = 0.9;

/// Models of five layers: all that a config allows, tied or not, and adapters of the layers and of the head.
fn models() -> Vec<(Config, Parameters)> {
    let deep = |config: Config| Config { num_layers: 5, ..config };
    let mut models: Vec<_> =
        variants().into_iter().map(deep).map(|config| (config.clone(), parameters(&config, 3))).collect();
    let targets = [
        vec![LinearModule::Key, LinearModule::Down],
        vec![LinearModule::Query, LinearModule::Head],
        vec![LinearModule::Head],
    ];
    for targets in targets {
        let config = Config { tie_word_embeddings: false, ..deep(config(Architecture::QWEN3)) };
        let lora = LoraShape { rank: 2, alpha: 3.0, targets };
        let base = parameters(&config, 4);
        let specs = base.adapter_specs(&lora).unwrap();
        let values = specs.iter().map(|spec| Tensor::randn(0f32, 0.3, spec.shape.as_slice(), &Device::Cpu).unwrap());
        let values = values.collect();
        models.push((config, base.with_adapters(&lora, values).unwrap()));
    }
    models
}

fn network(config: &Config, parameters: &Parameters) -> Network<Cpu> {
    cpu(config, parameters, NetworkOptions { threads: 2, ..NetworkOptions::default() })
}

/// With some trained tensors moved.
fn moved(parameters: &Parameters, numbers: &[usize]) -> Parameters {
    changed(parameters, numbers, |tensor| tensor.affine(1.5, 0.01).unwrap())
}

fn changed(parameters: &Parameters, numbers: &[usize], change: impl Fn(&Tensor) -> Tensor) -> Parameters {
    let mut other = parameters.deep_copy().unwrap();
    for &number in numbers {
        let value = &mut other.trained_values_mut()[number];
        *value = change(value);
    }
    other
}

/// Texts of which two begin alike, each in a micro-batch of its own.
fn apart(config: &Config) -> Vec<Packed> {
    let texts: [&[u32]; 3] = [&[1, 2, 3, 4, 5, 6], &[1, 2, 3, 9, 9, 9, 7], &[7, 8, 9, 1]];
    let batch = |ids: &&[u32]| {
        let mut batch = Packed::default();
        batch.push(config, ids, 1..ids.len()).unwrap();
        batch
    };
    texts.iter().map(batch).collect()
}

/// These texts in one micro-batch, in another order and with a shared prefix.
fn together(config: &Config) -> Vec<Packed> {
    let mut batch = Packed::default();
    batch.push(config, &[7, 8, 9, 1], 1..4).unwrap();
    let rest: [(&[u32], _); 2] = [(&[9, 9, 9, 7], 3..7), (&[4, 5, 6], 3..6)];
    batch.push_shared(config, &[1, 2, 3], rest).unwrap();
    vec![batch]
}

fn bits(scores: &[Scores]) -> Vec<u32> {
    let values = scores.iter().flat_map(|scores| scores.logp.iter().chain(&scores.entropy));
    values.map(|value| value.to_bits()).collect()
}

#[test]
fn a_pass_that_shares_layers_has_the_bits_of_a_whole_one_and_sees_a_change_of_any_tensor() {
    for (config, right) in models() {
        let mut states = HiddenStates::new(&config, &right);
        let network_of_right = network(&config, &right);
        let scores = network_of_right.score_keeping(&apart(&config), TEMPERATURE, &mut states).unwrap();
        assert_eq!(bits(&scores), bits(&network_of_right.score(&apart(&config), TEMPERATURE).unwrap()));
        let count = right.trained().len();
        for number in 0..count {
            for numbers in [vec![number], vec![number, (7 * number + 3) % count]] {
                let other = network(&config, &moved(&right, &numbers));
                let layer = states.first_layer(numbers.iter().copied());
                for batches in [apart(&config), together(&config)] {
                    let whole = bits(&other.score(&batches, TEMPERATURE).unwrap());
                    let shared = bits(&other.score_from(&batches, TEMPERATURE, &states, layer).unwrap());
                    let spec = &right.trained_specs()[number];
                    assert_eq!(shared, whole, "{} from layer {layer}", spec.name);
                    // Softmax is blind to some biases.
                    let unmoved = bits(&network_of_right.score(&batches, TEMPERATURE).unwrap());
                    assert!(spec.kind == ParameterKind::Bias || shared != unmoved, "{} makes no difference", spec.name);
                }
            }
        }
    }
}

#[test]
fn layers_before_the_first_of_a_group_are_not_computed() {
    for (config, right) in models() {
        let mut states = HiddenStates::new(&config, &right);
        network(&config, &right).score_keeping(&apart(&config), TEMPERATURE, &mut states).unwrap();
        let mut saved = Vec::new();
        for group in tensor_groups(&right) {
            let stale = moved(&right, &group.parameters);
            let layer = states.first_layer(group.parameters);
            // The head reads an embedding that it is tied to.
            let is_before = |&number: &usize| {
                states.first_layer([number]) < layer
                    && !(config.tie_word_embeddings && right.trained_specs()[number].name.contains("embed"))
            };
            let before: Vec<_> = (0..right.trained().len()).filter(is_before).collect();
            let broken = changed(&stale, &before, |tensor| tensor.affine(f64::NAN, 0.0).unwrap());
            let batches = together(&config);
            let found = network(&config, &broken).score_from(&batches, TEMPERATURE, &states, layer).unwrap();
            assert_eq!(
                bits(&found),
                bits(&network(&config, &stale).score(&batches, TEMPERATURE).unwrap()),
                "{}",
                group.name
            );
            saved.push(layer);
        }
        let has_head = right.lora().is_none_or(|lora| lora.targets.contains(&LinearModule::Head));
        saved.sort_unstable();
        saved.dedup();
        let blocks = right.lora().is_none_or(|lora| lora.targets != [LinearModule::Head]);
        let wanted =
            [&[0, 1, 2, 3][usize::from(!blocks) * 4..], &[5][usize::from(!has_head || config.tie_word_embeddings)..]];
        assert_eq!(saved, wanted.concat(), "{:?}", right.lora());
    }
}

#[test]
fn a_text_that_was_not_seen_takes_a_whole_pass() {
    let (config, right) = models().swap_remove(2);
    let mut states = HiddenStates::new(&config, &right);
    let network = network(&config, &right);
    network.score_keeping(&apart(&config), TEMPERATURE, &mut states).unwrap();
    let mut batch = Packed::default();
    batch.push(&config, &[1, 2, 8, 4, 5], 1..5).unwrap();
    let batches = [batch];
    let found = network.score_from(&batches, TEMPERATURE, &states, config.num_layers).unwrap();
    assert_eq!(bits(&found), bits(&network.score(&batches, TEMPERATURE).unwrap()));
}
