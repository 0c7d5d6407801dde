//! Settings: names and aliases, ranges, and the formula for the log.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use evenkeel_objective::{Advantage, Aggregation, Correction, Error, KlEstimator, PolicyTerm, Settings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

fn read(value: serde_json::Value) -> Result<Settings, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn refusal<T: FromStr<Err = Error> + Debug>(name: &str) -> String {
    name.parse::<T>().unwrap_err().to_string()
}

fn assert_round_trip<T>(all: &[T])
where
    T: Copy + Debug + PartialEq + Display + FromStr<Err = Error> + Serialize + DeserializeOwned,
{
    for &choice in all {
        assert_eq!(choice.to_string().parse::<T>().unwrap(), choice);
        assert_eq!(serde_json::from_value::<T>(json!(choice.to_string())).unwrap(), choice);
        assert_eq!(serde_json::to_value(choice).unwrap(), json!(choice.to_string()));
    }
}

#[test]
fn every_choice_is_written_and_read_by_its_name() {
    assert_round_trip(Advantage::ALL);
    assert_round_trip(Aggregation::ALL);
    assert_round_trip(PolicyTerm::ALL);
    assert_round_trip(Correction::ALL);
    assert_round_trip(KlEstimator::ALL);
}

#[test]
fn every_alias_is_read_as_its_choice() {
    for &choice in Aggregation::ALL {
        for alias in choice.aliases() {
            assert_eq!(alias.parse::<Aggregation>().unwrap(), choice);
        }
    }
}

#[test]
fn case_hyphens_and_underscores_do_not_matter() {
    for name in ["seq-mean-token-mean", "seq_mean_token_mean", " Seq-Mean_Token-MEAN "] {
        assert_eq!(name.parse::<Aggregation>().unwrap(), Aggregation::Sequence);
    }
    assert_eq!("Dual_Clip".parse::<PolicyTerm>().unwrap(), PolicyTerm::DualClip);
}

#[test]
fn names_of_verl_mean_what_verl_computes() {
    let aggregation = |name: &str| read(json!({"aggregation": name, "max_tokens": 9})).unwrap().aggregation;
    assert_eq!(aggregation("token-mean"), Aggregation::BatchToken);
    assert_eq!(aggregation("seq-mean-token-mean"), Aggregation::Sequence);
    assert_eq!(aggregation("seq-mean-token-sum-norm"), Aggregation::SequenceSum);
    assert_eq!("vanilla".parse::<PolicyTerm>().unwrap(), PolicyTerm::DualClip);
    assert_eq!("geo_mean".parse::<PolicyTerm>().unwrap(), PolicyTerm::Gmpo);
    assert_eq!("low_var_kl".parse::<KlEstimator>().unwrap(), KlEstimator::K3);
}

#[test]
fn names_of_trl_mean_what_trl_computes() {
    let aggregation = |name: &str| name.parse::<Aggregation>().unwrap();
    assert_eq!(aggregation("grpo"), Aggregation::Sequence);
    assert_eq!(aggregation("dapo"), Aggregation::BatchToken);
    assert_eq!(aggregation("dr_grpo"), Aggregation::SequenceSum);
    assert_eq!("sequence_mask".parse::<Correction>().unwrap(), Correction::SequenceMask);
}

#[test]
fn an_alias_of_another_formula_is_refused_with_what_to_use() {
    let bnpo = refusal::<Aggregation>("bnpo");
    assert!(bnpo.contains("aggregation is 'bnpo'") && bnpo.contains("micro-batch") && bnpo.contains("use batch-token"));
    assert!(refusal::<PolicyTerm>("luspo").contains("use gspo, with aggregation = luspo"));
    assert!(refusal::<PolicyTerm>("dppo").contains("use dppo-tv (total variation) or dppo-kl"));
    assert!(
        refusal::<Aggregation>("seq-mean-token-sum").contains("use aggregation = sequence-sum with max_tokens = 1")
    );
    assert!(refusal::<KlEstimator>("full").contains("vocabulary"));
    assert!(refusal::<Advantage>("gae").contains("value model"));
}

#[test]
fn an_unknown_name_is_refused_with_every_name_and_alias() {
    let error = refusal::<Aggregation>("mean of means");
    assert!(error.starts_with("aggregation is 'mean of means', allowed: "), "{error}");
    for &choice in Aggregation::ALL {
        assert!(error.contains(choice.name()), "{error}");
        assert!(choice.aliases().iter().all(|alias| error.contains(alias)), "{error}");
    }
    assert!(read(json!({"policy": "trpo"})).unwrap_err().contains("policy is 'trpo', allowed: ppo (ppo-clip"));
}

#[test]
fn the_defaults_are_the_paper_s() {
    let settings = read(json!({})).unwrap();
    assert_eq!(settings, Settings::default());
    assert_eq!((settings.advantage, settings.aggregation), (Advantage::Grpo, Aggregation::Balanced));
    assert_eq!((settings.clip_low, settings.clip_high, settings.kl_coefficient), (0.2, 0.28, 0.0));
    assert!(settings.validate().is_ok());
}

#[test]
fn settings_are_read_as_they_were_written() {
    let settings = Settings { max_tokens: 7, clip_high: 0.3, kl_estimator: KlEstimator::K1Plus, ..Settings::default() };
    assert_eq!(read(serde_json::to_value(&settings).unwrap()).unwrap(), settings);
}

#[test]
fn an_unknown_field_is_refused() {
    let error = read(json!({"clip": 0.2})).unwrap_err();
    assert!(error.contains("clip") && error.contains("clip_low"), "{error}");
}

#[test]
fn a_setting_out_of_range_is_refused_with_its_range() {
    let cases = [
        (json!({"clip_low": -0.1}), "clip_low is -0.1, allowed: 0 to 1"),
        (json!({"clip_low": 1.1}), "clip_low is 1.1, allowed: 0 to 1"),
        (json!({"clip_high": -1e-9}), "clip_high is -0.000000001, allowed: a finite number, at least 0"),
        (json!({"dual_clip": 0.5}), "dual_clip is 0.5, allowed: a finite number, at least 1"),
        (json!({"gmpo_clip": -0.4}), "gmpo_clip is -0.4"),
        (json!({"sapo_tau_pos": 0.0}), "sapo_tau_pos is 0, allowed: above 0 and up to 100"),
        (json!({"sapo_tau_neg": 101.0}), "sapo_tau_neg is 101, allowed: above 0 and up to 100"),
        (json!({"aggregation": "luspo"}), "policy is 'ppo', allowed: gspo with aggregation = luspo"),
        (json!({"correction_low": 3.0}), "correction_low is 3, allowed: 0 to correction_high, which is 2"),
        (json!({"correction_low": -1.0}), "correction_low is -1"),
        (json!({"correction_high": 0.0}), "correction_high is 0, allowed: above 0"),
        (
            json!({"aggregation": "sequence-sum"}),
            "max_tokens is 0, allowed: at least 1 with aggregation = sequence-sum",
        ),
        (json!({"aggregation": "vl-norm"}), "max_tokens is 0, allowed: at least 1 with aggregation = vl-norm"),
        (json!({"vl_norm_alpha": 1.1}), "vl_norm_alpha is 1.1, allowed: 0 to 1"),
        (json!({"kl_coefficient": -0.1}), "kl_coefficient is -0.1"),
        (json!({"entropy_coefficient": -0.1}), "entropy_coefficient is -0.1"),
    ];
    for (written, expected) in cases {
        let error = read(written).unwrap().validate().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let nan = Settings { clip_high: f64::NAN, ..Settings::default() };
    assert!(nan.validate().unwrap_err().to_string().contains("clip_high is NaN"));
}

#[test]
fn gmpo_takes_no_notice_of_a_low_clip_above_one() {
    assert!(Settings { policy: PolicyTerm::Gmpo, clip_low: 2.0, ..Settings::default() }.validate().is_ok());
}

#[test]
fn a_group_of_one_is_refused_where_the_group_normalises() {
    let error = Settings::default().validate_group_size(1).unwrap_err();
    assert_eq!(error.to_string(), "group_size is 1, allowed: at least 2 with advantage = grpo");
    for advantage in [Advantage::GrpoSample, Advantage::Mean, Advantage::Rloo] {
        let settings = Settings { advantage, ..Settings::default() };
        assert!(settings.validate_group_size(1).is_ok());
        assert!(settings.validate_group_size(0).is_err());
    }
}

#[test]
fn the_formula_says_in_one_line_what_is_computed() {
    let paper = Settings::default().formula();
    assert_eq!(
        paper,
        "loss = - sum of w phi over trainable tokens; A = (r - mean) / sqrt(population variance + 1e-6) [grpo]; \
         w = M_s / (P G Z_s), M_s = sum of abs(A), Z_s = sum of abs(A) T over the side of A's sign [balanced]; \
         phi = min(rho A, clip(rho, 0.8, 1.28) A) [ppo]"
    );
    assert_eq!(Settings::default().to_string(), paper);
}

#[test]
fn the_formula_tells_the_token_means_of_two_systems_apart() {
    let formula = |name: &str| read(json!({"aggregation": name})).unwrap().formula();
    assert!(formula("token-mean").contains("w = 1 / N [batch-token]"));
    assert!(formula("prompt_mean").contains("w = 1 / (P N_g) [token]"));
    assert!(formula("delta-l-norm").contains("with max_tokens = 0, alpha = 0.75 [vl-norm]"));
}

#[test]
fn the_formula_names_every_term_that_is_on() {
    let settings = Settings {
        correction: Correction::SequenceMask,
        kl_coefficient: 0.01,
        entropy_coefficient: 0.002,
        policy: PolicyTerm::DualClip,
        aggregation: Aggregation::SequenceSum,
        max_tokens: 1,
        ..Settings::default()
    };
    let line = settings.formula();
    for part in [
        "sum of w c phi",
        "with max_tokens = 1 [sequence-sum]",
        "at least 3 A for A < 0 [dual-clip]",
        "c = the product of exp(old_logp - rollout_logp), 0 outside 0.5 to 2 [sequence-mask]",
        "+ 0.01 sum of (exp(-d) - 1 + d) / (P N_g)",
        "- 0.002 sum of entropy / (P N_g)",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!line.contains('\n'));
}
