//! Decoding: the same bits alone and in a batch, and the same numbers as training.

use crate::support::{config, cpu, ids, largest_difference, parameters, portable, variants};
use evenkeel_model::decode::DecodeStep;
use evenkeel_model::folder::{SaveOptions, save_parameters};
use evenkeel_model::kernels::DecoderKernels;
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::{Architecture, Config, Decoder, KvCache, NetworkOptions, Packed, TrainableModel};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Widths on both sides of every block of the matrix product: the inner dimension is cut at 512.
fn wide() -> Config {
    Config { hidden_size: 40, intermediate_size: 1100, head_dim: 72, num_layers: 1, ..config(Architecture::QWEN3) }
}

fn decoder(config: &Config, threads: usize) -> Decoder {
    Decoder::new(config.clone(), &parameters(config, 3), Cpu::new().unwrap(), threads).unwrap()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Logits after every token of one sequence, one token at a time.
fn alone(decoder: &Decoder, ids: &[u32]) -> Vec<u32> {
    let mut cache = decoder.sequence().unwrap();
    ids.iter().flat_map(|&id| bits(&decoder.step(&mut [DecodeStep::new(&mut cache, &[id])]).unwrap())).collect()
}

/// Feeds all sequences, where `take` says how many tokens each sequence feeds in each call (0: it waits), and compares
/// the logits after each call with those of the same tokens alone.
fn assert_as_alone(
    decoder: &Decoder,
    sequences: &[Vec<u32>],
    expected: &[Vec<u32>],
    mut take: impl FnMut(usize) -> usize,
) {
    let vocabulary = decoder.config().vocab_size;
    let mut caches: Vec<KvCache> = sequences.iter().map(|_| decoder.sequence().unwrap()).collect();
    while caches.iter().zip(sequences).any(|(cache, ids)| cache.len() < ids.len()) {
        let mut steps = Vec::new();
        let mut lasts = Vec::new();
        for (number, (cache, ids)) in caches.iter_mut().zip(sequences).enumerate() {
            let count = take(number).min(ids.len() - cache.len());
            if count > 0 {
                let end = cache.len() + count;
                let ids = &ids[cache.len()..end];
                lasts.push((number, end - 1));
                steps.push(DecodeStep::new(cache, ids));
            }
        }
        let logits = decoder.step(&mut steps).unwrap();
        for ((number, last), row) in lasts.into_iter().zip(logits.chunks(vocabulary)) {
            let expected = &expected[number][last * vocabulary..][..vocabulary];
            assert_eq!(bits(row), expected, "sequence {number} of {}, token {last}", sequences.len());
        }
    }
}

/// Logits after every token of one sequence, each from a prefill of everything up to it.
fn by_prefill<K: DecoderKernels>(decoder: &Decoder<K>, ids: &[u32]) -> Vec<f32> {
    let prefill = |end: usize| {
        let mut cache = decoder.sequence().unwrap();
        decoder.step(&mut [DecodeStep::new(&mut cache, &ids[..end])]).unwrap()
    };
    (1..=ids.len()).flat_map(prefill).collect()
}

#[test]
fn logits_are_bit_equal_alone_and_in_every_batch_of_1_to_64_rows() {
    for config in [config(Architecture::QWEN3), config(Architecture::QWEN2), wide()] {
        let mut random = ChaCha8Rng::seed_from_u64(4);
        let sequences: Vec<_> = (0..64).map(|i| ids(&config, &mut random, 3 + i % 5)).collect();
        let one = decoder(&config, 1);
        let two = decoder(&config, 2);
        let wanted: Vec<_> = sequences.iter().map(|ids| alone(&one, ids)).collect();
        for rows in 1..=64 {
            assert_as_alone(&one, &sequences[..rows], &wanted, |_| 1);
            assert_as_alone(&two, &sequences[..rows], &wanted, |_| 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn logits_are_bit_equal_in_any_order_with_any_split_of_the_prefill(
        lengths in prop::collection::vec(1usize..40, 1..12),
        takes in prop::collection::vec(0usize..9, 1..50),
        threads in 1usize..4,
        seed in 0u64..1000,
    ) {
        let config = wide();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let sequences: Vec<_> = lengths.iter().map(|&n| ids(&config, &mut random, n)).collect();
        let decoder = decoder(&config, threads);
        let mut draws = takes.iter().cycle();
        let mut silent = 0;
        // A draw of nothing but zeros would never end.
        let take = |_| match draws.next().copied().unwrap_or(1) {
            0 if silent < 20 => { silent += 1; 0 }
            0 => 1,
            n => n,
        };
        let expected: Vec<_> = sequences.iter().map(|ids| alone(&decoder, ids)).collect();
        assert_as_alone(&decoder, &sequences, &expected, take);
    }
}

#[test]
fn a_sequence_goes_on_from_the_prefix_of_another_with_the_same_bits() {
    for config in [config(Architecture::QWEN3), config(Architecture::QWEN2), wide()] {
        let ids = ids(&config, &mut ChaCha8Rng::seed_from_u64(5), 70);
        let decoder = decoder(&config, 1);
        let mut whole = decoder.sequence().unwrap();
        let wanted = decoder.step(&mut [DecodeStep::new(&mut whole, &ids)]).unwrap();
        for length in [0, 1, 31, 32, 33, 69] {
            let mut cache = decoder.prefix(&whole, length).unwrap();
            assert_eq!(cache.len(), length);
            let found = decoder.step(&mut [DecodeStep::new(&mut cache, &ids[length..])]).unwrap();
            assert_eq!(found, wanted, "{length} tokens");
        }
        let Err(error) = decoder.prefix(&whole, 71) else { panic!("a longer prefix than the sequence") };
        assert!(error.to_string().contains("at most 70"), "{error}");
    }
}

#[test]
fn a_decoder_of_a_folder_is_that_of_the_parameters_in_it() {
    // With a tied head and without.
    for config in [&variants()[3], &variants()[4]] {
        let folder = tempfile::tempdir().unwrap();
        let options = SaveOptions { max_shard_bytes: 4000, ..SaveOptions::default() };
        save_parameters(folder.path(), &parameters(config, 3), options).unwrap();
        let loaded = Decoder::load(folder.path(), config.clone(), Cpu::new().unwrap(), 1).unwrap();
        let ids = ids(config, &mut ChaCha8Rng::seed_from_u64(4), 30);
        assert_eq!(alone(&loaded, &ids), alone(&decoder(config, 1), &ids));
    }
}

#[test]
fn decoding_and_training_agree_on_log_probabilities() {
    for config in variants() {
        let parameters = parameters(&config, 3);
        let ids = ids(&config, &mut ChaCha8Rng::seed_from_u64(1), 150);
        let mut batch = Packed::default();
        batch.push(&config, &ids, 1..150).unwrap();
        let decoder = Decoder::new(config.clone(), &parameters, Cpu::new().unwrap(), 1).unwrap();
        let logits = by_prefill(&decoder, &ids);
        let logp = |(row, target): (&[f32], &u32)| {
            let sum: f64 = row.iter().map(|&z| f64::from(z).exp()).sum();
            (f64::from(row[*target as usize]) - sum.ln()) as f32
        };
        let decoded: Vec<f32> = logits.chunks(config.vocab_size).zip(&ids[1..]).map(logp).collect();
        let options = NetworkOptions::default();
        for scores in [
            cpu(&config, &parameters, options).score(std::slice::from_ref(&batch), 1.0),
            portable(&config, &parameters, options).score(std::slice::from_ref(&batch), 1.0),
        ] {
            assert!(largest_difference(&scores.unwrap().remove(0).logp, &decoded) < 1e-5);
        }
    }
}

#[test]
fn tensor_operations_decode_the_same_logits() {
    use evenkeel_model::kernels::portable::Portable;
    for config in variants() {
        let parameters = parameters(&config, 3);
        let kernels = Portable::new(candle_core::Device::Cpu, candle_core::DType::F32).unwrap();
        let other = Decoder::new(config.clone(), &parameters, kernels, 1).unwrap();
        let ids = ids(&config, &mut ChaCha8Rng::seed_from_u64(1), 20);
        let decoder = Decoder::new(config.clone(), &parameters, Cpu::new().unwrap(), 1).unwrap();
        let expected = by_prefill(&decoder, &ids);
        assert!(largest_difference(&by_prefill(&other, &ids), &expected) < 1e-5);
        let mut cache = other.sequence().unwrap();
        for (part, last) in [(&ids[..7], 6), (&ids[7..8], 7), (&ids[8..], 19)] {
            let found = other.step(&mut [DecodeStep::new(&mut cache, part)]).unwrap();
            let expected = &expected[last * config.vocab_size..][..config.vocab_size];
            assert!(largest_difference(&found, expected) < 1e-5);
        }
    }
}

#[test]
fn bad_steps_are_refused_and_append_nothing() {
    let config = config(Architecture::QWEN3);
    let decoder = decoder(&config, 1);
    let mut good = decoder.sequence().unwrap();
    let mut bad = decoder.sequence().unwrap();
    let long = vec![1; 161];
    for (ids, words) in [
        (&[][..], ["new tokens of step 1", "1 or more"]),
        (&[37], ["token id at index 0 is 37", "36"]),
        (&long, ["161", "at most max_position_embeddings = 160"]),
    ] {
        let mut steps = [DecodeStep::new(&mut good, &[1]), DecodeStep::new(&mut bad, ids)];
        let error = decoder.step(&mut steps).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert_eq!((good.len(), bad.len()), (0, 0));
    }
    for temperature in [0.0, -1.0, f32::NAN] {
        let bad = DecodeStep { temperature, ..DecodeStep::new(&mut bad, &[1]) };
        let error = decoder.step(&mut [DecodeStep::new(&mut good, &[1]), bad]).unwrap_err().to_string();
        assert!(error.contains("temperature of step 1 is") && error.contains("a finite number above 0"), "{error}");
        assert_eq!(good.len(), 0);
    }
}
