//! Same seed, same run: data order, whatever ends first; names of metrics; what is held out.

use std::collections::BTreeSet;

use crate::support::generation::text_of;
use crate::support::{Cluster, bounded, metrics, recipe, temp, uninterrupted};
use evenkeel_chat::Prompt;
use evenkeel_data::Rules;
use evenkeel_orchestrator::{Event, RunOutcome};
use evenkeel_proto::v1::StepKind;
use evenkeel_proto::{GroupId, Purpose, SampleId};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_reach_the_learner_in_data_order_and_samples_have_their_own_seeds() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let (events, result) = cluster.run(&path, &recipe()).await;
        assert_eq!(result.unwrap().0, RunOutcome::Completed);
        let groups = cluster.learner.state.groups.lock().unwrap().clone();
        let mut place = 0;
        for (step, groups) in &groups {
            for group in groups {
                assert_eq!(group.group_id, format!("train/{step}/{place}"));
                for (number, sample) in group.samples.iter().enumerate() {
                    assert_eq!(sample.sample_id, format!("{}/{number}", group.group_id));
                }
                place += 1;
            }
        }
        assert_eq!(place, 24);
        for item in cluster.generation.state.seen.lock().unwrap().iter() {
            let id: SampleId = item.sample_id.parse().unwrap();
            assert_eq!(item.sampling.as_ref().unwrap().seed, Some(id.seed(11)));
            assert_eq!(item.group_id.parse::<GroupId>().unwrap(), id.group);
        }
        let traces = cluster.reward.state.traces.lock().unwrap();
        assert_eq!(traces["train/1/0/0"][..35], traces["train/1/0/1"][..35], "a prompt is one trace");
        let kinds = events.iter().filter_map(|event| match &**event {
            Event::Line(line) => Some(line.kind),
            _ => None,
        });
        use StepKind::{Evaluation, Train, WarmStart};
        let wanted = [WarmStart, WarmStart, Evaluation, Train, Train, Train, Train, Train, Train, Evaluation];
        assert_eq!(kinds.collect::<Vec<_>>(), wanted);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_of_one_seed_are_the_same_and_of_two_seeds_are_not() {
    bounded(async {
        let first = uninterrupted(&recipe()).await;
        assert_eq!(first, uninterrupted(&recipe()).await);
        let mut other = recipe();
        other.run.seed = 12;
        assert_ne!(first, uninterrupted(&other).await);
    })
    .await;
}

fn text(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Messages(_) | Prompt::Either { .. } => panic!("the problems of the built-in task are texts"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_out_is_never_trained_on_and_improves() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let mut recipe = recipe();
        recipe.run.steps = 8;
        recipe.evaluation.problems = 40;
        let (_, summary) = cluster.run(&path, &recipe).await.1.unwrap();
        let data = evenkeel_data::arithmetic::dataset(recipe.run.seed, 40, &Rules::default());
        let held_out: BTreeSet<String> = data.held_out.iter().map(|problem| text(&problem.prompt)).collect();
        let mut asked = BTreeSet::new();
        let mut trained = BTreeSet::new();
        for item in cluster.generation.state.seen.lock().unwrap().iter() {
            let id: SampleId = item.sample_id.parse().unwrap();
            let prompts = if id.group.purpose == Purpose::Eval { &mut asked } else { &mut trained };
            prompts.insert(text_of(&item.prompt_token_ids));
        }
        assert_eq!(asked, held_out);
        assert!(trained.is_disjoint(&held_out));
        assert!(summary.accuracy_after > summary.accuracy_before, "{summary:?}");
        assert_eq!((summary.evaluated_problems, summary.steps), (Some(40), 8));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_has_verls_names_and_the_papers() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        cluster.run(&path, &recipe()).await.1.unwrap();
        let lines = metrics(&path);
        assert_eq!(lines.iter().map(|line| line.step).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        let names = "critic/rewards/mean critic/rewards/max critic/rewards/min critic/score/mean actor/pg_loss \
            actor/pg_clipfrac actor/ppo_kl actor/grad_norm actor/entropy actor/lr response_length/mean \
            response_length/min response_length/max response_length/clip_ratio prompt_length/mean timing_s/gen \
            timing_s/reward timing_s/update_actor timing_s/update_weights timing_s/step perf/throughput \
            perf/total_num_tokens training/global_step training/epoch aggregation/length_cv aggregation/length_gap \
            aggregation/pull_positive aggregation/pull_negative rollout/invalid_samples";
        for line in &lines {
            for name in names.split_whitespace() {
                assert!(line.get(name).is_some(), "step {} has no {name}", line.step);
            }
        }
        assert_eq!(lines[2].get("training/global_step"), Some(3.0));
        let parts = ["gen", "reward", "update_actor", "update_weights"]
            .map(|part| lines[2].get(&format!("timing_s/{part}")).unwrap());
        assert!(parts.iter().sum::<f64>() <= lines[2].get("timing_s/step").unwrap() + 1e-3, "{parts:?}");
        let evaluation = std::fs::read_to_string(path.join("evaluation.jsonl")).unwrap();
        assert!(evaluation.contains("\"val-core/arithmetic/acc/mean@1\":"), "{evaluation}");
        for file in ["config.toml", "summary.json", "report.html", "run.json", "model/tokenizer.json"] {
            assert!(path.join(file).exists(), "{file}");
        }
    })
    .await;
}
