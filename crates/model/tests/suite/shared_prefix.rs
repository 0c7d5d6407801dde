//! Sequences that begin with the same tokens: computed with these once, they give what they give alone.

use crate::support::faulty::{Fault, Faulty};
use crate::support::{Wavy, bits, cpu, distance, gradients, host, norm, parameters, portable, variants};
use candle_core::{DType, Device};
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::kernels::portable::Portable;
use evenkeel_model::{
    BoxError, Coefficients, Config, Network, NetworkOptions, Packed, Parameters, Recompute, Scores, TokenLoss,
    TrainableModel,
};
use proptest::prelude::*;

/// A prompt, and its responses with the indices of their scored tokens in the whole sequence.
#[derive(Clone, Debug)]
struct Group {
    prompt: Vec<u32>,
    responses: Vec<(Vec<u32>, Vec<usize>)>,
}

impl Group {
    fn share(&self, config: &Config, batch: &mut Packed) {
        let own = self.responses.iter().map(|(ids, scored)| (&ids[..], scored.iter().copied()));
        batch.push_shared(config, &self.prompt, own).unwrap();
    }

    fn push(&self, config: &Config, batch: &mut Packed) {
        for (ids, scored) in &self.responses {
            batch.push(config, &[&self.prompt[..], ids].concat(), scored.iter().copied()).unwrap();
        }
    }
}

fn shared(config: &Config, groups: &[Group]) -> Packed {
    groups.iter().fold(Packed::default(), |mut batch, group| {
        group.share(config, &mut batch);
        batch
    })
}

fn alone(config: &Config, groups: &[Group]) -> Packed {
    groups.iter().fold(Packed::default(), |mut batch, group| {
        group.push(config, &mut batch);
        batch
    })
}

/// Prompts of one token and of more than a block of attention; responses of one token, which has no row of its own, and
/// of many.
fn group() -> impl Strategy<Value = Group> {
    let prompt = prop::sample::select(vec![1usize, 2, 9, 36, 63, 64, 65, 80])
        .prop_flat_map(|length| prop::collection::vec(0u32..37, length));
    let response = prop::sample::select(vec![1usize, 1, 2, 5, 13, 33, 64, 70]).prop_flat_map(|length| {
        (
            prop::collection::vec(0u32..37, length),
            prop::collection::vec(prop::bool::weighted(0.75), length),
            any::<bool>(),
        )
    });
    (prompt, prop::collection::vec(response, 1..5)).prop_map(|(prompt, drawn)| {
        let mut responses: Vec<(Vec<u32>, Vec<usize>)> = Vec::new();
        for (ids, mask, is_equal) in drawn {
            let last = ids.len() - 1;
            let masked = mask.iter().enumerate().filter(|&(at, &scored)| scored || at == last);
            let scored = masked.map(|(at, _)| prompt.len() + at).collect();
            match responses.last().filter(|_| is_equal) {
                Some(same) => responses.push(same.clone()),
                None => responses.push((ids, scored)),
            }
        }
        Group { prompt, responses }
    })
}

fn options() -> NetworkOptions {
    NetworkOptions { head_chunk_rows: 50, ..NetworkOptions::default() }
}

/// What the arithmetic of a type of numbers may change in gradients.
struct Rounding {
    /// Share of what a parameter's gradient is a sum of.
    share: f64,
    /// Unit roundoff of the type.
    unit: f64,
}

const F32: Rounding = Rounding { share: 1e-5, unit: 1.0 / (1 << 24) as f64 };
const BF16: Rounding = Rounding { share: 0.03, unit: 1.0 / (1 << 8) as f64 };

/// How far a batch with shared prompts is from the same sequences alone.
struct Difference {
    /// Whether every score has the same bits.
    same_scores: bool,
    /// Distance of the gradients of the parameter that differs most, in proportion to what rounding may cause. A
    /// gradient is the sum of every sequence's, which may cancel each other and leave their rounding: a share of the
    /// sum of their norms is allowed. Where a sequence has nothing to attend to, the gradients of queries and keys are
    /// rounding alone: some units of the largest sum are allowed as well.
    gradient: f64,
}

/// A loss, of one sequence of a batch alone.
struct Part<'a> {
    loss: &'a Wavy,
    sequence: usize,
}

impl TokenLoss for Part<'_> {
    fn coefficients(&self, index: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let mut coefficients = self.loss.coefficients(index, batch, scores)?;
        let own = batch.scored(self.sequence);
        for values in [&mut coefficients.logp, &mut coefficients.entropy] {
            values[..own.start].fill(0.0);
            values[own.end..].fill(0.0);
        }
        Ok(coefficients)
    }
}

/// For each parameter the sum of the norms of every sequence's gradient.
fn summed_norms(network: &mut dyn TrainableModel, batch: &Packed, loss: &Wavy) -> Vec<f64> {
    let mut sums = Vec::new();
    for sequence in 0..batch.sequences() {
        let part = gradients(network, std::slice::from_ref(batch), 0.8, &Part { loss, sequence });
        sums.resize(part.len(), 0.0);
        for (sum, gradient) in sums.iter_mut().zip(&part) {
            *sum += norm(host(gradient).into_iter().map(f64::from));
        }
    }
    sums
}

fn difference(
    of_shared: &mut dyn TrainableModel,
    of_alone: &mut dyn TrainableModel,
    config: &Config,
    groups: &[Group],
    rounding: &Rounding,
) -> Difference {
    let shared = shared(config, groups);
    let alone = alone(config, groups);
    let again = alone.clone();
    let loss = Wavy { entropy: 0.1 };
    let found = of_shared.score(std::slice::from_ref(&shared), 0.8).unwrap().remove(0);
    let wanted = of_alone.score(std::slice::from_ref(&alone), 0.8).unwrap().remove(0);
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let same_scores = bits(&found.logp) == bits(&wanted.logp) && bits(&found.entropy) == bits(&wanted.entropy);
    let found = gradients(of_shared, &[shared], 0.8, &loss);
    let wanted = gradients(of_alone, &[alone], 0.8, &loss);
    let summed = summed_norms(of_alone, &again, &loss);
    let least = 16.0 * rounding.unit * summed.iter().copied().fold(0.0, f64::max);
    let relative = found.iter().zip(&wanted).zip(summed);
    let relative = relative
        .map(|((found, wanted), summed)| distance(&host(found), &host(wanted)) / (rounding.share * summed + least));
    Difference { same_scores, gradient: relative.fold(0.0, f64::max) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn scores_have_the_bits_and_gradients_the_values_of_sequences_alone(
        groups in prop::collection::vec(group(), 1..4),
        variant in 0usize..7,
        recompute in prop::sample::select(Recompute::ALL.to_vec()),
    ) {
        let config = &variants()[variant];
        let parameters = parameters(config, 7);
        let options = NetworkOptions { recompute, ..options() };
        let mut of_shared = cpu(config, &parameters, options);
        let mut of_alone = cpu(config, &parameters, options);
        let found = difference(&mut of_shared, &mut of_alone, config, &groups, &F32);
        prop_assert!(found.same_scores);
        prop_assert!(found.gradient < 1.0, "{}", found.gradient);
    }

    #[test]
    fn any_number_of_threads_and_any_calls_give_gradients_the_same_bits(
        groups in prop::collection::vec(group(), 2..12),
        threads in 2usize..9,
        at_a_time in 1usize..5,
        variant in 3usize..5,
    ) {
        let config = &variants()[variant];
        let parameters = parameters(config, 8);
        let block = |number: usize| number * 8 / groups.len();
        let one = |(number, group): (usize, &Group)| {
            shared(config, std::slice::from_ref(group)).in_block(block(number))
        };
        let batches: Vec<Packed> = groups.iter().enumerate().map(one).collect();
        let run = |threads: usize, at_a_time: usize| {
            let mut network = cpu(config, &parameters, NetworkOptions { threads, ..options() });
            for batches in batches.chunks(at_a_time) {
                network.accumulate(batches, 1.0, &Wavy { entropy: 0.1 }).unwrap();
            }
            bits(&network.take_gradients().unwrap())
        };
        prop_assert!(run(threads, at_a_time) == run(1, batches.len()));
    }

    #[test]
    fn what_is_packed_beside_a_group_changes_no_bit_of_its_scores(groups in prop::collection::vec(group(), 2..5)) {
        let config = &variants()[4];
        let network = cpu(config, &parameters(config, 9), options());
        let together = network.score(&[shared(config, &groups)], 1.0).unwrap().remove(0);
        let apart: Vec<Packed> = groups.iter().map(|group| shared(config, std::slice::from_ref(group))).collect();
        let apart: Vec<f32> = network.score(&apart, 1.0).unwrap().into_iter().flat_map(|scores| scores.logp).collect();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&together.logp), bits(&apart));
    }
}

fn narrow(config: &Config, parameters: &Parameters) -> Network<Portable> {
    let kernels = Portable::new(Device::Cpu, DType::BF16).unwrap();
    Network::new(config.clone(), parameters.deep_copy().unwrap(), kernels, options()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn tensor_operations_agree_with_sequences_alone_in_f32_and_within_rounding_in_bf16(
        groups in prop::collection::vec(group(), 1..3),
        variant in 0usize..7,
    ) {
        let config = &variants()[variant];
        let parameters = parameters(config, 7);
        let mut of_shared = portable(config, &parameters, options());
        let mut of_alone = portable(config, &parameters, options());
        let found = difference(&mut of_shared, &mut of_alone, config, &groups, &F32);
        prop_assert!(found.gradient < 1.0, "{}", found.gradient);
        let mut of_shared = narrow(config, &parameters);
        let mut of_alone = narrow(config, &parameters);
        let found = difference(&mut of_shared, &mut of_alone, config, &groups, &BF16);
        prop_assert!(found.gradient < 1.0, "{}", found.gradient);
    }
}

#[test]
fn gradients_that_are_rounding_alone_are_no_difference() {
    let config = &variants()[0];
    let parameters = parameters(config, 7);
    let response = (vec![0], vec![1]);
    let groups = [Group { prompt: vec![0], responses: vec![response.clone(), response] }];
    let mut of_shared = cpu(config, &parameters, options());
    let mut of_alone = cpu(config, &parameters, options());
    let found = difference(&mut of_shared, &mut of_alone, config, &groups, &F32);
    assert!(found.same_scores && found.gradient < 1.0, "{}", found.gradient);
}

/// Two groups of several responses.
fn two_groups() -> Vec<Group> {
    let response = |first: u32, prompt: usize| {
        let ids: Vec<u32> = (0..6).map(|at| (first + 5 * at) % 37).collect();
        (ids, (prompt..prompt + 6).collect())
    };
    let group = |first: u32, length: usize| Group {
        prompt: (0..length as u32).map(|at| (first + 3 * at) % 37).collect(),
        responses: (0..3).map(|number| response(first + 7 * number, length)).collect(),
    };
    vec![group(1, 12), group(20, 12)]
}

#[test]
fn a_fault_in_how_a_prompt_is_continued_is_seen() {
    let config = &variants()[3];
    let parameters = parameters(config, 7);
    let difference_with = |fault| {
        let kernels = Faulty(Cpu::new().unwrap(), fault);
        let mut faulty = Network::new(config.clone(), parameters.deep_copy().unwrap(), kernels, options()).unwrap();
        difference(&mut faulty, &mut cpu(config, &parameters, options()), config, &two_groups(), &F32)
    };
    let honest = difference_with(Fault::None);
    assert!(honest.same_scores && honest.gradient < 1.0, "{}", honest.gradient);
    for fault in [Fault::OtherPrefix, Fault::PositionsOffByOne, Fault::SeesItsNeighbour] {
        let found = difference_with(fault);
        assert!(!found.same_scores && found.gradient > 100.0, "{fault:?}: {}", found.gradient);
    }
    let found = difference_with(Fault::GradientLost);
    assert!(found.same_scores && found.gradient > 100.0, "{}", found.gradient);
}

#[test]
fn the_rows_of_a_prompt_come_once_and_continuations_go_on_where_it_ends() {
    let config = &variants()[3];
    let mut batch = Packed::default();
    batch.push(config, &[9, 9], [1]).unwrap();
    let own: [(&[u32], &[usize]); 3] = [(&[3, 4], &[2, 3]), (&[5], &[2]), (&[6, 7, 8], &[3])];
    batch.push_shared(config, &[1, 2], own.map(|(ids, scored)| (ids, scored.iter().copied()))).unwrap();
    assert_eq!(batch.ids(), [9, 1, 2, 3, 6]);
    assert_eq!(batch.positions(), [0, 0, 1, 2, 2]);
    // The prompt's last row predicts the first token of two responses.
    assert_eq!((batch.rows(), batch.targets()), (&[0, 2, 3, 2, 4][..], &[9, 3, 4, 5, 7][..]));
    assert_eq!((batch.sequences(), batch.scored(1), batch.scored(3)), (4, 1..3, 4..5));
    let lengths = |number: usize| (batch.segments()[number].rows.length, batch.segments()[number].prefix.length);
    assert_eq!((0..5).map(lengths).collect::<Vec<_>>(), [(1, 0), (2, 0), (1, 2), (0, 2), (1, 2)]);
}

/// Tokens after a prefix, and which of the whole sequence are scored.
type Continuation<'a> = (&'a [u32], &'a [usize]);

#[test]
fn what_cannot_be_shared_is_refused_and_leaves_nothing_behind() {
    let config = &variants()[3];
    let mut batch = Packed::default();
    let long = [1; 159];
    let cases: [(&[u32], &[Continuation], [&str; 2]); 6] = [
        (&[], &[(&[1], &[1])], ["shared prefix is 0", "1 or more"]),
        (&[1], &[], ["continuations of a prefix is 0", "1 or more"]),
        (&[1, 37], &[(&[1], &[2])], ["token id at index 1 is 37", "36"]),
        (&[1, 2], &[(&[1], &[2]), (&[2, 3], &[1])], ["scored token is 1", "from 2 to 3"]),
        (&[1, 2], &[(&[1], &[2]), (&[2, 3], &[])], ["scored tokens is 0", "1 or more"]),
        (&[1, 2], &[(&[1], &[2]), (&long, &[2])], ["sequence length is 161", "160"]),
    ];
    for (prefix, own, words) in cases {
        let own = own.iter().map(|(ids, scored)| (*ids, scored.iter().copied()));
        let error = batch.push_shared(config, prefix, own).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert!(batch.is_empty() && batch.rows().is_empty() && batch.ids().is_empty() && batch.segments().is_empty());
    }
}
