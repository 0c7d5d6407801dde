//! The hand-written backward pass, compared with candle's autograd and with itself.

use crate::support::reference::Reference;
use crate::support::{
    Wavy, bits, cpu, gradients, host, largest_difference, packed, parameters, portable, relative, variants,
};
use candle_core::{Device, Tensor};
use evenkeel_model::{Config, LinearModule, LoraShape, NetworkOptions, Packed, Recompute, TrainableModel};

const LENGTHS: [usize; 5] = [9, 2, 70, 23, 130];

fn options() -> NetworkOptions {
    NetworkOptions { head_chunk_rows: 50, ..NetworkOptions::default() }
}

fn agrees_with_autograd(network: impl Fn(&Config) -> Box<dyn TrainableModel>) {
    for (seed, config) in variants().into_iter().enumerate() {
        let parameters = parameters(&config, seed as u64);
        let batch = packed(&config, seed as u64, &LENGTHS);
        for (temperature, entropy) in [(1.0, 0.0), (0.6, 0.3)] {
            let loss = Wavy { entropy };
            let (scores, wanted) = Reference::new(&config, &parameters).gradients(&batch, temperature, &loss);
            let mut network = network(&config);
            let found = network.score(std::slice::from_ref(&batch), temperature).unwrap().remove(0);
            assert!(largest_difference(&found.logp, &scores.logp) < 1e-5);
            assert!(largest_difference(&found.entropy, &scores.entropy) < 1e-5);
            let found = gradients(network.as_mut(), std::slice::from_ref(&batch), temperature, &loss);
            for ((spec, found), wanted) in parameters.specs().iter().zip(&found).zip(&wanted) {
                let error = relative(&host(found), &host(wanted));
                assert!(error < 1e-5, "{config:?} {} at {temperature}: {error:e}", spec.name);
            }
        }
    }
}

fn seed_of(config: &Config) -> u64 {
    variants().iter().position(|variant| variant == config).expect("a variant") as u64
}

#[test]
fn fused_gradients_are_those_of_autograd() {
    agrees_with_autograd(|config| Box::new(cpu(config, &parameters(config, seed_of(config)), options())));
}

#[test]
fn portable_gradients_are_those_of_autograd() {
    agrees_with_autograd(|config| Box::new(portable(config, &parameters(config, seed_of(config)), options())));
}

#[test]
fn recomputed_activations_give_the_same_gradients_to_the_bit() {
    for config in variants() {
        let parameters = parameters(&config, 5);
        let batch = [packed(&config, 6, &LENGTHS)];
        let kept = gradients(&mut cpu(&config, &parameters, options()), &batch, 0.8, &Wavy { entropy: 0.1 });
        for recompute in [Recompute::Selective, Recompute::Full] {
            let again = NetworkOptions { recompute, ..options() };
            let again = gradients(&mut cpu(&config, &parameters, again), &batch, 0.8, &Wavy { entropy: 0.1 });
            assert_eq!(bits(&kept), bits(&again), "{recompute:?}");
        }
    }
}

/// With G the gradient of the merged head W + s B A, those of A and B are s Bᵀ G and s G Aᵀ.
#[test]
fn an_adapter_of_the_head_has_the_gradients_that_follow_from_that_of_the_merged_head() {
    for config in [&variants()[2], &variants()[3]] {
        let shape = LoraShape { rank: 3, alpha: 6.0, targets: vec![LinearModule::Up, LinearModule::Head] };
        let base = parameters(config, 9);
        let values = base.adapter_specs(&shape).unwrap().into_iter();
        let values = values.map(|spec| Tensor::randn(0f32, 0.15, spec.shape.as_slice(), &Device::Cpu).unwrap());
        let beside = base.with_adapters(&shape, values.collect()).unwrap();
        let merged = beside.merged().unwrap();
        let [.., a, b] = beside.trained_values() else { panic!("A and B of the head are the last") };
        let batch = [packed(config, 10, &LENGTHS)];
        for (temperature, entropy) in [(1.0, 0.0), (0.6, 0.3)] {
            let loss = Wavy { entropy };
            let whole = gradients(&mut cpu(config, &merged, options()), &batch, temperature, &loss);
            let of_head = (&whole[merged.ids().head.weight.index()] * shape.scale()).unwrap();
            let wanted = [b.t().unwrap().matmul(&of_head).unwrap(), of_head.matmul(&a.t().unwrap()).unwrap()];
            let networks: [Box<dyn TrainableModel>; 2] =
                [Box::new(cpu(config, &beside, options())), Box::new(portable(config, &beside, options()))];
            for mut network in networks {
                let scores = network.score(&batch, temperature).unwrap().remove(0);
                let of_merged = cpu(config, &merged, options()).score(&batch, temperature).unwrap().remove(0);
                assert!(largest_difference(&scores.logp, &of_merged.logp) < 1e-5);
                let found = gradients(network.as_mut(), &batch, temperature, &loss);
                for (found, wanted) in found[found.len() - 2..].iter().zip(&wanted) {
                    let error = relative(&host(found), &host(wanted));
                    assert!(error < 1e-5, "{config:?} at {temperature}: {error:e}");
                }
            }
        }
    }
}

/// Each sequence's coefficients depend on its own scores alone, so that any packing must agree.
fn one_by_one(config: &Config) -> (Packed, Vec<Packed>) {
    let singles: Vec<Packed> = LENGTHS.iter().enumerate().map(|(i, &n)| packed(config, i as u64, &[n])).collect();
    let mut all = Packed::default();
    for single in &singles {
        let mut ids = single.ids().to_vec();
        ids.push(*single.targets().last().unwrap());
        all.push(config, &ids, single.rows().iter().map(|&row| row as usize + 1)).unwrap();
    }
    (all, singles)
}

#[test]
fn attention_never_crosses_a_sequence() {
    for config in variants() {
        let network = cpu(&config, &parameters(&config, 7), options());
        let (all, singles) = one_by_one(&config);
        let together = network.score(&[all], 1.0).unwrap().remove(0);
        let alone: Vec<f32> = network.score(&singles, 1.0).unwrap().into_iter().flat_map(|s| s.logp).collect();
        assert!(largest_difference(&together.logp, &alone) < 1e-5);
    }
}

/// Twenty micro-batches in the blocks of eight groups, of which two have none.
fn in_blocks(config: &Config) -> Vec<Packed> {
    let block = |number: usize| [0, 0, 1, 3, 4, 7][number * 6 / 20];
    let one = |number: usize| packed(config, number as u64, &[5 + number, 11]).in_block(block(number));
    (0..20).map(one).collect()
}

#[test]
fn any_number_of_threads_and_any_calls_give_the_same_bits() {
    // With a tied head and without.
    for config in [&variants()[3], &variants()[4]] {
        let parameters = parameters(config, 8);
        let batches = in_blocks(config);
        let run = |threads, at_a_time, gradients_at_once| {
            let options = NetworkOptions { threads, gradients_at_once, ..options() };
            let mut network = cpu(config, &parameters, options);
            for batches in batches.chunks(at_a_time) {
                network.accumulate(batches, 1.0, &Wavy { entropy: 0.1 }).unwrap();
            }
            bits(&network.take_gradients().unwrap())
        };
        let alone = run(1, batches.len(), usize::MAX);
        for threads in [1, 2, 3, 4, 8] {
            for (at_a_time, gradients_at_once) in [(20, usize::MAX), (20, 4), (7, 5), (1, 4)] {
                let found = run(threads, at_a_time, gradients_at_once);
                assert!(found == alone, "{threads} threads, {at_a_time} at a time, {gradients_at_once} gradients");
            }
        }
    }
}

#[test]
fn the_number_of_blocks_decides_the_order_of_sums_and_no_more_than_rounding() {
    let config = &variants()[4];
    let parameters = parameters(config, 8);
    let batches = in_blocks(config);
    let run = |blocks: usize| {
        let batches: Vec<_> = batches.iter().map(|batch| batch.clone().in_block(batch.block() * blocks / 8)).collect();
        let options = NetworkOptions { gradient_blocks: blocks, ..options() };
        gradients(&mut cpu(config, &parameters, options), &batches, 1.0, &Wavy { entropy: 0.0 })
    };
    let eight = run(8);
    for blocks in [1, 2, 4] {
        let fewer = run(blocks);
        assert_ne!(bits(&fewer), bits(&eight), "{blocks}");
        for (fewer, eight) in fewer.iter().zip(&eight) {
            assert!(relative(&host(fewer), &host(eight)) < 1e-5, "{blocks}");
        }
    }
}

#[test]
fn accumulating_in_parts_adds_up() {
    let config = &variants()[3];
    let parameters = parameters(config, 9);
    let batches: Vec<Packed> = (0..6).map(|seed| packed(config, seed, &[12, 7])).collect();
    let loss = Wavy { entropy: 0.0 };
    let whole = gradients(&mut cpu(config, &parameters, options()), &batches, 1.0, &loss);
    let mut network = cpu(config, &parameters, options());
    for batch in &batches {
        network.accumulate(std::slice::from_ref(batch), 1.0, &loss).unwrap();
    }
    assert_eq!(bits(&network.take_gradients().unwrap()), bits(&whole));
}

#[test]
fn gradients_that_nothing_was_added_to_are_refused() {
    let config = &variants()[4];
    let mut network = cpu(config, &parameters(config, 1), options());
    let error = network.take_gradients().unwrap_err().to_string();
    assert!(error.contains("model.embed_tokens.weight") && error.contains("no gradient"), "{error}");
}

#[test]
fn a_loss_that_fails_ends_the_pass_with_its_error() {
    struct Failing;
    impl evenkeel_model::TokenLoss for Failing {
        fn coefficients(
            &self,
            index: usize,
            _: &Packed,
            _: &evenkeel_model::Scores,
        ) -> Result<evenkeel_model::Coefficients, evenkeel_model::BoxError> {
            Err(format!("micro-batch {index} is out of luck").into())
        }
    }
    let config = &variants()[4];
    let mut network = cpu(config, &parameters(config, 1), options());
    let error = network.accumulate(&[packed(config, 0, &[4])], 1.0, &Failing).unwrap_err().to_string();
    assert_eq!(error, "micro-batch 0 is out of luck");
}

#[test]
fn bad_input_is_refused_with_field_value_and_what_is_allowed() {
    let config = &variants()[4];
    let mut batch = Packed::default();
    let cases: [(Vec<u32>, Vec<usize>, [&str; 3]); 6] = [
        (vec![1, 37], vec![1], ["token id at index 1", "37", "36"]),
        (vec![0; 161], vec![1], ["sequence length", "161", "160"]),
        (vec![1, 2], vec![], ["scored tokens", "0", "1 or more"]),
        (vec![1, 2], vec![2], ["scored token", "2", "from 1 to 1"]),
        (vec![1, 2, 3], vec![0], ["scored token", "0", "from 1"]),
        (vec![1, 2, 3, 4], vec![2, 1], ["scored token", "1", "from 3"]),
    ];
    for (ids, scored, words) in cases {
        let error = batch.push(config, &ids, scored).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert!(batch.is_empty() && batch.rows().is_empty());
    }
    let network = cpu(config, &parameters(config, 1), options());
    for temperature in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let error = network.score(&[packed(config, 0, &[4])], temperature).unwrap_err().to_string();
        assert!(error.contains("temperature") && error.contains("above 0"), "{error}");
    }
}
