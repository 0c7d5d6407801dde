//! Invalid input is refused with field, location, value and what is allowed, and leaves the weights unchanged.

use crate::support::{bits, group, groups, learner, settings};
use evenkeel_config::Settings;
use evenkeel_learner::{Example, ResponseGroup, TrainingSettings};

fn refused(change: impl Fn(&mut ResponseGroup), words: &[&str]) {
    let mut learner = learner(settings());
    let before = bits(&learner);
    let mut step = learner.step();
    step.add(group(1, 4)).unwrap();
    let mut bad = group(2, 4);
    change(&mut bad);
    let error = step.add(bad).unwrap_err().to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
    drop(step);
    assert_eq!(bits(&learner), before);
}

#[test]
fn a_group_of_one_with_group_normalisation_is_refused() {
    refused(|group| group.responses.truncate(1), &["groups[1].responses is a list of 1", "at least 2"]);
}

#[test]
fn an_empty_prompt_or_response_is_refused() {
    refused(|group| group.prompt.clear(), &["groups[1].prompt is empty", "1 or more"]);
    refused(|group| group.responses[2].tokens.clear(), &["groups[1].responses[2].tokens is empty", "1 or more"]);
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    refused(|group| group.prompt[0] = 29, &["groups[1].prompt[0] is 29", "28"]);
    refused(|group| group.responses[3].tokens[0] = 500, &["groups[1].responses[3].tokens[0] is 500", "28"]);
}

#[test]
fn log_probabilities_above_zero_or_nan_are_refused() {
    for value in [0.1, f32::NAN, f32::NEG_INFINITY] {
        refused(
            |group| group.responses[1].rollout_logp[0] = value,
            &["groups[1].responses[1].rollout_logp[0] is", "at most 0"],
        );
    }
}

#[test]
fn lengths_that_disagree_are_refused() {
    refused(
        |group| group.responses[0].mask.push(true),
        &["groups[1].responses[0].mask is a list of ", "one for each token"],
    );
    refused(
        |group| group.responses[0].rollout_logp.truncate(0),
        &["groups[1].responses[0].rollout_logp is a list of 0", "one for each token"],
    );
}

#[test]
fn rewards_that_are_not_finite_are_refused() {
    refused(|group| group.responses[1].reward = f64::NAN, &["groups[1].responses[1].reward is NaN", "finite"]);
    refused(|group| group.responses[1].raw_reward = f64::INFINITY, &["groups[1].responses[1].raw_reward is inf"]);
}

#[test]
fn a_sequence_longer_than_the_context_is_refused() {
    let lengthen = |group: &mut ResponseGroup| {
        let response = &mut group.responses[0];
        (response.tokens, response.mask) = (vec![3; 64], vec![true; 64]);
        response.rollout_logp = vec![-1.0; 64];
    };
    refused(
        lengthen,
        &["groups[1].responses[0].tokens is 6", "tokens with the prompt", "max_position_embeddings = 64"],
    );
}

#[test]
fn a_refused_group_leaves_the_step_usable() {
    let mut first = learner(settings());
    let mut step = first.step();
    let mut bad = group(2, 4);
    bad.prompt.clear();
    let mut all = groups(3, 3).into_iter();
    step.add(all.next().unwrap()).unwrap();
    step.add(bad).unwrap_err();
    all.for_each(|group| step.add(group).unwrap());
    step.finish().unwrap();
    let mut second = learner(settings());
    second.train(groups(3, 3)).unwrap();
    assert_eq!(bits(&first), bits(&second));
}

#[test]
fn a_step_without_groups_is_refused() {
    let error = learner(settings()).train([]).unwrap_err().to_string();
    assert!(error.contains("groups is empty"), "{error}");
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    type Change = fn(&mut TrainingSettings);
    let cases: [(Change, &str); 7] = [
        (|s| s.objective.clip_low = -0.1, "objective.clip_low is -0.1"),
        (|s| s.objective.clip_high = -1.0, "objective.clip_high is -1"),
        (|s| s.objective.dual_clip = 0.5, "objective.dual_clip is 0.5"),
        (|s| s.temperature = 0.0, "temperature is 0"),
        (|s| s.epochs = 0, "epochs is 0"),
        (|s| s.optimizer.learning_rate = f64::NAN, "optimizer.learning_rate is NaN"),
        (|s| s.compute.device = "tpu".into(), "compute.device is tpu"),
    ];
    for (change, words) in cases {
        let mut settings = settings();
        change(&mut settings);
        let error = settings.validate().unwrap_err().to_string();
        assert!(error.starts_with(words) && error.contains("allowed"), "{error}");
    }
}

#[test]
fn settings_read_from_text_refuse_unknown_keys() {
    let error = serde_json::from_str::<TrainingSettings>(r#"{"temprature": 1.0}"#).unwrap_err().to_string();
    assert!(error.contains("temprature") && error.contains("temperature"), "{error}");
}

#[test]
fn supervised_examples_are_refused_by_index() {
    let mut learner = learner(settings());
    let before = bits(&learner);
    let good = Example { prompt: vec![2, 3], response: vec![4, 1] };
    for (bad, words) in [
        (Example { prompt: vec![], response: vec![1] }, ["examples[1].prompt", "empty"]),
        (Example { prompt: vec![2], response: vec![] }, ["examples[1].response", "empty"]),
        (Example { prompt: vec![2], response: vec![99] }, ["examples[1].response[0]", "99"]),
        (Example { prompt: vec![2], response: vec![2; 64] }, ["examples[1] is", "65"]),
    ] {
        let error = learner.supervised_step(&[good.clone(), bad]).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert!(learner.supervised_step(&[]).unwrap_err().to_string().contains("examples is empty"));
    assert_eq!(bits(&learner), before);
}
