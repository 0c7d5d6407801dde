//! The derivation: the same numbers everywhere, and distinct streams.

use std::collections::BTreeSet;

use evenkeel_seeds::{Stream, Uniforms, rng, seed};
use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{Rng, RngCore};

/// A stream, its seed, the seed derived from it and its words 0, 1 and 1000, from `vectors.py`.
const KNOWN: [(u64, Stream, u64, [u64; 3]); 21] = [
    (
        0,
        Stream::TrainingSample { step: 0, prompt: 0, sample: 0 },
        8_091_250_195_140_201_170,
        [0x3b3d_933a_9690_f9aa, 0xaabb_c8e9_9033_6263, 0x1a5b_e69f_e848_ac1e],
    ),
    (
        42,
        Stream::TrainingSample { step: 12, prompt: 345, sample: 7 },
        355_503_575_661_280_197,
        [0xc2a5_3175_1f30_0bbe, 0xac61_c7c4_134d_386f, 0x3aa2_5e11_ad38_6bb6],
    ),
    (
        42,
        Stream::EvaluationSample { step: 12, prompt: 345, sample: 7 },
        8_773_132_007_956_152_175,
        [0xc08f_0033_5a5c_04fd, 0x3fd3_b71d_0ce0_4d2f, 0x06c7_83e7_b4d3_b314],
    ),
    (
        7,
        Stream::Continuation { tokens: 100 },
        8_481_547_236_223_559_888,
        [0xd4dc_db93_6951_1c11, 0xbf33_f3e8_7df5_61f9, 0xfd28_ccdc_05f1_73a2],
    ),
    (
        7,
        Stream::RequestedSample { sample: 2 },
        3_928_915_088_493_449_741,
        [0x9c56_6c64_9a34_e770, 0x9e6d_b6c5_40f3_3d32, 0x6b78_bd99_6ea7_84ac],
    ),
    (
        i64::MAX as u64,
        Stream::HeldOut,
        8_353_484_232_495_220_093,
        [0x2cdf_783d_4ed3_8aa3, 0x821e_9aad_21f0_9e40, 0x299a_57f6_21bf_b5db],
    ),
    (
        3,
        Stream::PromptOrder { epoch: 1 },
        3_966_325_203_567_470_998,
        [0x3c72_7537_4e55_eb5f, 0xcfc1_1523_d2c9_e1f2, 0xaa19_ee2d_c38c_0646],
    ),
    (
        3,
        Stream::SourceOrder { source: 2, epoch: 1 },
        2_716_771_153_013_113_141,
        [0x869e_1282_2eab_e87b, 0x6f63_0c3c_4710_fbcf, 0xb917_c00b_2cee_d41a],
    ),
    (
        3,
        Stream::Demonstration { step: 5, row: 6 },
        5_294_681_321_388_259_432,
        [0xd91f_5f8c_05e9_1604, 0x5b62_7873_be29_d34b, 0x182a_73c5_6234_3e5d],
    ),
    (
        3,
        Stream::InitialWeights { tensor: 2 },
        8_240_008_650_229_766_228,
        [0x5a16_c7c1_17f0_0f3c, 0x1bac_13e0_e816_26bb, 0x9abe_0cd4_8880_db62],
    ),
    (
        3,
        Stream::InitialAdapters { tensor: 2 },
        599_580_135_216_514_538,
        [0xeac1_6914_8a4c_5211, 0x61f4_3695_e7b3_2e5c, 0x8e5a_aa20_c460_9466],
    ),
    (
        3,
        Stream::GroupOrder { step: 5, epoch: 6 },
        4_667_168_001_176_580_277,
        [0x940c_0936_d699_b711, 0x57d0_b908_c9fa_3719, 0x0408_78e3_75bb_74ce],
    ),
    (
        u64::MAX,
        Stream::Tokens,
        5_845_830_782_516_743_515,
        [0x0823_0157_f555_0bc0, 0x8f53_7e8e_85d0_ed0e, 0xdcf3_2ea8_8f74_d4cd],
    ),
    (
        0,
        Stream::UnseededSample { arrival: 1 },
        4_912_028_615_409_930_481,
        [0xfc41_ee68_4cd7_98d9, 0xb4ec_25f1_83a3_9518, 0x2281_08d7_0307_0da4],
    ),
    (
        0,
        Stream::SandboxEntropy,
        5_758_013_763_533_271_585,
        [0x8620_a694_6428_9d21, 0xd508_b300_550a_5aed, 0xed91_4dfb_d70a_95f9],
    ),
    (
        8,
        Stream::WeightsProof { version: 3 },
        8_199_989_070_157_017_932,
        [0x4d5b_2ed6_0d83_8921, 0x4ad3_c121_2375_231a, 0xacc1_eeb0_a4e3_1741],
    ),
    (
        8,
        Stream::SamplerAudit { step: 9 },
        4_295_312_911_181_723_420,
        [0x6557_73e4_7a0f_5be1, 0x10da_e229_f19b_704c, 0xfa87_30c7_0786_ff6d],
    ),
    (
        8,
        Stream::Bootstrap,
        5_645_638_611_395_046_409,
        [0x3b48_bd5c_0bdd_f27d, 0xfcc1_9346_d297_b46f, 0x8158_160b_ca0e_b9b9],
    ),
    (
        8,
        Stream::SignFlips,
        3_911_419_227_945_431_794,
        [0x58a1_bd15_9961_d6ff, 0x089e_0d9f_303b_4eb6, 0x05c3_655c_b53c_1047],
    ),
    (
        5,
        Stream::WordProblem { kind: 3, number: 17 },
        7_878_188_535_765_992_544,
        [0x7784_e686_3d67_39c8, 0xbd1f_c42c_2292_3591, 0x24b4_ccf7_4d56_fd69],
    ),
    (
        5,
        Stream::Product { number: 17 },
        1_515_774_866_966_851_333,
        [0x0740_7d86_0ec4_22bf, 0x7eed_8d0d_5899_7645, 0xde30_137a_443c_6432],
    ),
];

fn word_at(seed: u64, stream: Stream, position: usize) -> u64 {
    let mut rng = rng(seed, stream);
    let mut words = std::iter::repeat_with(|| rng.next_u64());
    words.nth(position).expect("a stream has no end in sight")
}

#[test]
fn every_stream_is_what_its_documentation_says_on_every_machine() {
    for (root, stream, derived, words) in KNOWN {
        assert_eq!(seed(root, stream), derived, "{stream:?}");
        assert_eq!([0, 1, 1000].map(|at| word_at(root, stream, at)), words, "{stream:?}");
        let mut uniforms = Uniforms::new(root, stream);
        let unit = |word: u64| (word >> 11) as f64 / (1_u64 << 53) as f64;
        assert_eq!([0, 1, 1000].map(|at| uniforms.at(at)), words.map(unit), "{stream:?}");
    }
    let known: BTreeSet<_> = KNOWN.iter().map(|(_, stream, ..)| stream.name()).collect();
    let all: BTreeSet<_> = Stream::ALL.iter().map(Stream::name).collect();
    assert_eq!(all.len(), Stream::ALL.len(), "two streams have one name");
    assert_eq!(known, all, "one row or more for each stream");
}

/// The `rand` crate keeps its algorithms within a version, not forever: an update that changes them changes runs.
#[test]
fn shuffles_and_ranges_of_the_rand_crate_stay_what_they_are() {
    let mut rng = rng(3, Stream::PromptOrder { epoch: 1 });
    let mut order: Vec<u32> = (0..10).collect();
    order.shuffle(&mut rng);
    let range: Vec<usize> = (0..8).map(|_| rng.random_range(0..100)).collect();
    let real: f64 = rng.random();
    assert_eq!(
        (order.as_slice(), range.as_slice(), real),
        (&[6, 1, 7, 9, 5, 0, 4, 2, 8, 3][..], &[23, 82, 81, 32, 79, 8, 82, 75][..], 0.796_805_678_577_482_2)
    );
}

fn stream() -> impl Strategy<Value = Stream> {
    // Small indices collide often, in every field; large ones cover the whole range.
    let index = || prop_oneof![0..3_u64, any::<u64>()];
    (prop::sample::select(Stream::ALL), index(), index(), index()).prop_map(|(stream, a, b, c)| match stream {
        Stream::TrainingSample { .. } => Stream::TrainingSample { step: a, prompt: b, sample: c },
        Stream::EvaluationSample { .. } => Stream::EvaluationSample { step: a, prompt: b, sample: c },
        Stream::Continuation { .. } => Stream::Continuation { tokens: a },
        Stream::RequestedSample { .. } => Stream::RequestedSample { sample: a },
        Stream::PromptOrder { .. } => Stream::PromptOrder { epoch: a },
        Stream::SourceOrder { .. } => Stream::SourceOrder { source: a, epoch: b },
        Stream::Demonstration { .. } => Stream::Demonstration { step: a, row: b },
        Stream::InitialWeights { .. } => Stream::InitialWeights { tensor: a },
        Stream::InitialAdapters { .. } => Stream::InitialAdapters { tensor: a },
        Stream::GroupOrder { .. } => Stream::GroupOrder { step: a, epoch: b },
        Stream::UnseededSample { .. } => Stream::UnseededSample { arrival: a },
        Stream::WeightsProof { .. } => Stream::WeightsProof { version: a },
        Stream::SamplerAudit { .. } => Stream::SamplerAudit { step: a },
        Stream::WordProblem { .. } => Stream::WordProblem { kind: a, number: b },
        Stream::Product { .. } => Stream::Product { number: a },
        Stream::HeldOut | Stream::Tokens | Stream::SandboxEntropy | Stream::Bootstrap | Stream::SignFlips => stream,
    })
}

proptest! {
    #[test]
    fn two_draws_share_a_stream_only_where_seed_and_stream_are_equal(
        (one, two) in (prop_oneof![0..3_u64, any::<u64>()], prop_oneof![0..3_u64, any::<u64>()]),
        (this, other) in (stream(), stream()),
    ) {
        let words = |seed, stream| {
            let mut rng = rng(seed, stream);
            [rng.next_u64(), rng.next_u64()]
        };
        prop_assert_eq!(words(one, this) == words(two, other), (one, this) == (two, other));
        prop_assert_eq!(seed(one, this) == seed(two, other), (one, this) == (two, other));
        prop_assert!(i64::try_from(seed(one, this)).is_ok());
    }

    #[test]
    fn a_number_depends_on_its_position_alone(seed: u64, positions in prop::collection::vec(0..5_000_u64, 1..20)) {
        let mut one = Uniforms::new(seed, Stream::Tokens);
        let mut other = Uniforms::new(seed, Stream::Tokens);
        let forwards: Vec<f64> = positions.iter().map(|&at| one.at(at)).collect();
        let mut backwards: Vec<f64> = positions.iter().rev().map(|&at| other.at(at)).collect();
        backwards.reverse();
        prop_assert_eq!(forwards, backwards);
    }
}

#[test]
fn streams_of_neighbouring_seeds_are_uniform_and_unrelated() {
    // 64 seeds of 1000 positions: means within 5 deviations of a half, correlations between seeds, positions and lags
    // of zero.
    let numbers = |seed| {
        let mut uniforms = Uniforms::new(seed, Stream::Tokens);
        (0..1000).map(|position| uniforms.at(position)).collect::<Vec<f64>>()
    };
    let numbers: Vec<Vec<f64>> = (0..64).map(numbers).collect();
    let covariance = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
        let mut sum = 0.0;
        let mut count = 0.0;
        for (a, b) in pairs {
            sum += (a - 0.5) * (b - 0.5);
            count += 1.0f64;
        }
        // In units of its deviation, 1/12 / sqrt(count).
        sum / count * 12.0 * count.sqrt()
    };
    for seed in 0..63 {
        let mean = numbers[seed].iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 5.0 * (1.0f64 / 12.0 / 1000.0).sqrt(), "seed {seed}: {mean}");
        for lag in 0..3 {
            let a = &numbers[seed];
            let b = &numbers[seed + 1];
            let across = covariance(&mut a[lag..].iter().copied().zip(b.iter().copied()));
            let along = covariance(&mut a[lag + 1..].iter().copied().zip(a.iter().copied()));
            assert!(across.abs() < 5.0 && along.abs() < 5.0, "seed {seed}, lag {lag}: {across} {along}");
        }
    }
}

#[test]
fn every_sixteenth_is_hit_as_often_as_the_others() {
    let mut counts = [0f64; 16];
    for seed in 0..640 {
        let mut uniforms = Uniforms::new(u64::MAX - seed, Stream::Tokens);
        for position in 0..100 {
            counts[(uniforms.at(position) * 16.0) as usize] += 1.0;
        }
    }
    // Chi-squared with 15 degrees of freedom: above 45 once in 10,000 streams, and this one is fixed.
    let chi: f64 = counts.iter().map(|count| (count - 4000.0) * (count - 4000.0) / 4000.0).sum();
    assert!(chi < 45.0, "{chi}");
}
