//! Data sets from files: what reaches the engines, and what the run says of the rest.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::generation::text_of;
use crate::support::{Cluster, bounded, recipe, temp};
use evenkeel_orchestrator::{Event, InvalidRows, LoopSettings, Overlong, ProgramWording, RunOutcome, SourceSettings};
use evenkeel_proto::{Purpose, SampleId};
use evenkeel_run::read_rollouts;

/// A recipe without warm start and evaluation, and with prompts in the order of the files.
fn on_files(change: impl FnOnce(&mut LoopSettings)) -> LoopSettings {
    let mut recipe = recipe();
    recipe.warm_start.steps = 0;
    recipe.evaluation.problems = 0;
    recipe.data.shuffle = false;
    change(&mut recipe);
    recipe
}

fn write(folder: &Path, name: &str, rows: &[Value]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    path
}

fn report(run: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(run.join("data.json")).unwrap()).unwrap()
}

/// The prompts of each step, by their place in it.
fn asked(cluster: &Cluster, steps: u64) -> Vec<Vec<String>> {
    let mut asked = vec![std::collections::BTreeMap::new(); steps as usize];
    for item in cluster.generation.state.seen.lock().unwrap().iter() {
        let id: SampleId = item.sample_id.parse().unwrap();
        assert_eq!(id.group.purpose, Purpose::Train);
        asked[id.group.step as usize - 1].insert(id.group.prompt, text_of(&item.prompt_token_ids));
    }
    asked.into_iter().map(|step| step.into_values().collect()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_json_says_how_many_prompts_of_a_file_were_held_out_and_not_trained_on() {
    bounded(async {
        let (dir, path) = temp();
        let rows: Vec<_> = (0..10).map(|n| json!({"prompt": format!("1+{n}=\n"), "answer": "1"})).collect();
        let file = write(dir.path(), "rows.jsonl", &rows);
        let recipe = on_files(|recipe| {
            recipe.data.files = vec![file.clone()];
            recipe.evaluation.problems = 3;
        });
        let cluster = Cluster::start().await;
        cluster.run(&path, &recipe).await.1.unwrap();
        let found = &report(&path)["files"][0];
        assert_eq!((&found["prompts"], &found["held_out"]), (&json!(10), &json!(3)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_json_says_what_became_of_every_row() {
    bounded(async {
        let (dir, path) = temp();
        let rows = [
            json!({"prompt": "1+1=\n", "answer": "2"}),
            json!({"prompt": "1+1=\n", "answer": "2"}),
            json!({"prompt": "1+2=\n", "answer": ""}),
            json!({"prompt": "1+3=\n", "answer": "4"}),
            json!({"prompt": "1+3=\n", "answer": "5"}),
            json!({"prompt": [{"role": "user", "content": "1+4=\n"}], "answer": "5"}),
            json!({"id": "long", "prompt": "1+".repeat(100), "answer": "5"}),
            json!({"prompt": "1+5=\n", "answer": "6"}),
        ];
        let file = write(dir.path(), "rows.jsonl", &rows);
        let recipe = on_files(|recipe| {
            recipe.data.files = vec![file.clone()];
            recipe.data.overlong = Overlong::Skip;
        });
        let cluster = Cluster::start().await;
        let (events, result) = cluster.run(&path, &recipe).await;
        assert_eq!(result.unwrap().0, RunOutcome::Completed);
        let report = report(&path);
        let found = &report["files"][0];
        assert_eq!((&found["file"], &found["source"]), (&json!(file), &json!("rows")));
        assert_eq!((&found["rows"], &found["prompts"], &found["duplicates"]), (&json!(8), &json!(2), &json!(1)));
        let dropped = json!({"empty-gold": 1, "conflict": 2, "unrenderable": 1, "too-long": 1});
        assert_eq!(found["dropped"], dropped);
        assert_eq!(report["examples"]["too-long"][0]["row"], "long");
        assert_eq!(report["examples"]["empty-gold"][0]["row"], "line 3");
        assert!(asked(&cluster, 6).concat().iter().all(|text| ["1+1=\n", "1+5=\n"].contains(&text.as_str())));
        let warned = events.iter().any(|event| match &**event {
            Event::Warning { message } => message.contains("2 conflict (`") && message.contains("1 more kinds"),
            _ => false,
        });
        assert!(warned, "{events:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_has_prompts_of_each_source_by_its_weight() {
    bounded(async {
        let (dir, path) = temp();
        let row = |a: usize, b: usize| json!({"prompt": format!("{a}+{b}=\n"), "answer": a + b});
        let small: Vec<_> = (0..3).map(|n| row(1, n)).collect();
        let large: Vec<_> = (0..90).map(|n| row(2, n)).collect();
        let source = |name: &str, weight: f64, rows: &[Value]| SourceSettings {
            files: vec![write(dir.path(), name, rows)],
            weight,
            ..SourceSettings::default()
        };
        let sources = vec![source("small.jsonl", 3.0, &small), source("large.jsonl", 1.0, &large)];
        let recipe = on_files(|recipe| recipe.data.sources = sources);
        let cluster = Cluster::start().await;
        assert_eq!(cluster.run(&path, &recipe).await.1.unwrap().0, RunOutcome::Completed);
        for step in asked(&cluster, 6) {
            let of_small = step.iter().filter(|text| text.starts_with("1+")).count();
            assert_eq!((step.len(), of_small), (4, 3), "{step:?}");
        }
        let report = report(&path);
        assert_eq!((&report["files"][0]["source"], &report["files"][1]["source"]), (&json!("small"), &json!("large")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_that_leave_no_room_are_cut_at_their_beginning_where_that_is_set() {
    bounded(async {
        let (dir, path) = temp();
        // The model has 128 tokens, one a character.
        let file = write(dir.path(), "rows.jsonl", &[json!({"prompt": "9".repeat(100) + "1+1=\n", "answer": "2"})]);
        let recipe = on_files(|recipe| {
            recipe.data.files = vec![file];
            recipe.data.overlong = Overlong::Cut;
            recipe.sampling.max_tokens = 118;
        });
        let cluster = Cluster::start().await;
        assert_eq!(cluster.run(&path, &recipe).await.1.unwrap().0, RunOutcome::Completed);
        assert!(asked(&cluster, 6).concat().iter().all(|text| text == "999991+1=\n"));
        assert_eq!(report(&path)["files"][0]["cut"], 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_learner_gets_each_prompt_with_the_hint_of_its_row_and_rollouts_keep_it() {
    bounded(async {
        let (dir, path) = temp();
        let rows = [
            json!({"prompt": "1+1=\n", "answer": "2", "hint": "one more"}),
            json!({"prompt": "1+2=\n", "answer": "3"}),
            json!({"prompt": "1+3=\n", "answer": "4", "hint": "9".repeat(90)}),
        ];
        let file = write(dir.path(), "rows.jsonl", &rows);
        let hinted = |rows: PathBuf, overlong: Overlong| {
            on_files(|recipe| {
                recipe.data.files = vec![rows];
                recipe.data.hint = Some(" ({hint})".to_owned());
                recipe.data.overlong = overlong;
            })
        };
        let cluster = Cluster::start().await;
        let error = cluster.refused(&path, &hinted(file.clone(), Overlong::Refuse));
        assert!(error.contains("with its hint"), "{error}");
        let without = write(dir.path(), "without.jsonl", &rows[1..2]);
        let error = cluster.refused(&path, &hinted(without, Overlong::Refuse));
        assert!(error.contains("data.hint is \" ({hint})\", allowed: absent where no row"), "{error}");

        let (_, result) = cluster.run(&path, &hinted(file, Overlong::Skip)).await;
        assert_eq!(result.unwrap().0, RunOutcome::Completed);
        assert_eq!(report(&path)["files"][0]["dropped"], json!({"too-long": 1}));
        let groups = cluster.learner.state.groups.lock().unwrap().clone();
        for group in groups.values().flatten() {
            let [prompt, hinted] = [&group.prompt_token_ids, &group.hinted_prompt_token_ids].map(|ids| text_of(ids));
            let wanted = if prompt == "1+1=\n" { "1+1=\n (one more)" } else { "" };
            assert_eq!(hinted, wanted, "{prompt}");
        }
        let kept = read_rollouts(&path, 1).unwrap();
        let mut hints: Vec<_> =
            kept.iter().map(|one| one.hinted_prompt_token_ids.as_deref().map(text_of).unwrap_or_default()).collect();
        hints.sort_unstable();
        hints.dedup();
        assert_eq!(hints, ["", "1+1=\n (one more)"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_at_fault_refuse_the_run_where_that_is_set_and_where_nothing_is_left() {
    bounded(async {
        let (dir, path) = temp();
        let cluster = Cluster::start().await;
        let good = json!({"prompt": "1+1=\n", "answer": "2"});
        let chat = json!({"id": "chat", "prompt": [{"role": "user", "content": "1+3=\n"}], "answer": "4"});
        let refuse = |recipe: &mut LoopSettings| recipe.data.invalid_rows = InvalidRows::Refuse;
        let drop = |_: &mut LoopSettings| {};
        type Change<'a> = &'a dyn Fn(&mut LoopSettings);
        let cases: [(&[Value], Change, &str); 5] = [
            (
                &[good.clone(), json!({"prompt": "1+2=\n"})],
                &refuse,
                "rows.jsonl: line 2: no gold answer, allowed: one of",
            ),
            (
                &[good.clone(), chat.clone()],
                &refuse,
                "prompt `chat`: the prompt is a list of messages, allowed: a text, because the tokenizer has no",
            ),
            (&[chat], &drop, "data source `rows` is no prompt that is left (1 rows, 0 prompts, 1 unrenderable)"),
            (
                &[json!({"text": "a"})],
                &drop,
                "rows.jsonl: yields no prompts: 1 rows, 0 prompts, 1 missing-prompt; line 1:",
            ),
            (&[good], &|recipe| recipe.evaluation.problems = 1, "evaluation.problems is 1, of 1 problems"),
        ];
        for (rows, change, words) in cases {
            let file = write(dir.path(), "rows.jsonl", rows);
            let recipe = on_files(|recipe| {
                recipe.data.files = vec![file];
                change(recipe);
            });
            let error = cluster.refused(&path, &recipe);
            assert!(error.contains(words), "{error}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_tests_are_sent_to_a_worker_once_and_named_afterwards() {
    bounded(async {
        let (dir, path) = temp();
        let long = "1".repeat(10_000);
        let row = |prompt: &str, input: &str| {
            json!({"prompt": prompt, "public_test_cases": [{"input": input, "output": "1"}]})
        };
        let file = write(dir.path(), "rows.jsonl", &[row("1+1=\n", &long), row("1+2=\n", "1")]);
        let recipe = on_files(|recipe| {
            recipe.data.files = vec![file];
            recipe.sampling.prompts_per_step = 2;
            recipe.data.program_prompt = ProgramWording::Plain;
        });
        let cluster = Cluster::start().await;
        cluster.reward.state.runs_programs.store(true, std::sync::atomic::Ordering::Relaxed);
        let (_, result) = cluster.run(&path, &recipe).await;
        let (outcome, summary) = result.unwrap();
        assert_eq!((outcome, summary.invalid_samples), (RunOutcome::Completed, 0));
        let received = cluster.reward.state.tests.lock().unwrap();
        let whole: Vec<u32> = received.values().copied().collect();
        // Six steps of four samples each. Those of the first group may all ask before the first of them has sent the
        // tests.
        let long_tests = *whole.iter().min().unwrap();
        assert!((1..=4).contains(&long_tests), "{received:?}");
        assert_eq!(*whole.iter().max().unwrap(), 24, "short tests come with every sample");
    })
    .await;
}
