//! Episodes with several turns: what is sampled, what is added, what is trained on, and what becomes of an
//! environment's failures.

use std::time::Duration;

use evenkeel_orchestrator::{EarlierTurns, LoopSettings, ResolvedRecipe, RunOptions, start_run};
use evenkeel_proto::v1::{EpisodeFailure, GenerateItem, SegmentSource};
use evenkeel_run::{RunDirectory, read_rollouts};

use crate::support::calculator::{TEMPLATE, Table, settings};
use crate::support::environment::Fault;
use crate::support::generation::text_of;
use crate::support::{self, LEARNER, bounded, finish, lines, metrics, mix, until};

/// The lines of an undisturbed run.
async fn undisturbed(settings: &LoopSettings) -> Vec<String> {
    let table = Table::start(64).await;
    lines(&table.run("run", settings).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_episode_is_one_sequence_of_which_the_sampled_tokens_are_trained_on() {
    bounded(async {
        let table = Table::start(64).await;
        let path = table.run("run", &settings()).await.unwrap();
        for group in table.groups() {
            for sample in &group.samples {
                let sources: Vec<_> = sample.segments.iter().map(|segment| segment.source()).collect();
                use SegmentSource::{Injected, Sampled};
                assert_eq!(sources, [Sampled, Injected, Sampled]);
                let texts: Vec<_> = sample.segments.iter().map(|segment| text_of(&segment.token_ids)).collect();
                assert!(texts[0].starts_with("<tool_call>{\"name\":\"calculator\""), "{texts:?}");
                let sum = texts[1].strip_prefix("\ntool\n").unwrap().strip_suffix("\nassistant\n").unwrap();
                let right = texts[2] == format!("\\boxed{{{sum}}}");
                assert_eq!(sample.raw_reward, Some(f64::from(u8::from(right))), "{texts:?}");
                let end = sample.segments[0].token_ids.last();
                assert_eq!(end, Some(&1), "the model ended its turn, and nothing ends it again");
            }
        }
        // What each turn was asked with is what came before it, token by token.
        let seen = table.cluster.generation.state.seen.lock().unwrap().clone();
        let groups = table.groups();
        let second = seen.iter().filter(|item| !item.prefix_segments.is_empty() && item.sample_id.starts_with("train"));
        let mut compared = 0;
        for item in second {
            let samples = groups.iter().flat_map(|group| &group.samples);
            let sample = samples.into_iter().find(|sample| sample.sample_id == item.sample_id).unwrap();
            assert_eq!(item.prefix_segments, sample.segments[..2]);
            assert_eq!(item.preferred_engine, "fake", "it goes back to the engine of the turn before");
            compared += 1;
        }
        assert_eq!(compared, 3 * 16);
        for line in metrics(&path) {
            assert_eq!((line.get("episodes/turns/mean"), line.get("episodes/tool_errors")), (Some(2.0), Some(0.0)));
            assert_eq!((line.get("episodes/same_engine"), line.get("episodes/sequences/mean")), (Some(1.0), None));
            assert!(line.get("timing_s/environment_idle").is_some_and(|idle| idle >= 0.0));
            let length = line.get("response_length/mean").unwrap();
            let added = line.get("episodes/added_tokens/mean").unwrap();
            let samples: Vec<_> = groups.iter().flat_map(|group| &group.samples).collect();
            let longest = samples
                .iter()
                .map(|sample| sample.segments[0].token_ids.len() + sample.segments[2].token_ids.len())
                .max();
            assert!(
                line.get("response_length/max").unwrap() <= longest.unwrap() as f64 && length > 60.0 && added > 15.0
            );
        }
        let kept = read_rollouts(&path, 1).unwrap();
        let turns = &kept[0].turns;
        let said: Vec<_> = turns.iter().map(|turn| (turn.role.as_str(), turn.trained)).collect();
        assert_eq!(said, [("assistant", true), ("tool", false), ("assistant", true)]);
        assert_eq!(kept[0].text, turns[2].text, "the last turn is what was judged");
        let parts = kept[0].segments.iter().flat_map(|part| vec![part.version.is_some(); part.tokens as usize]);
        let logged = kept[0].token_log_probabilities.iter().flatten().map(Option::is_some);
        assert!(parts.eq(logged), "a token that nobody sampled has no log-probability");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_drew_the_first_turns_alone_and_answered_no_proof_leaves_the_run_undecided() {
    bounded(async {
        let table = Table::start(64).await;
        let of_turn = |item: &GenerateItem| if item.prefix_segments.is_empty() { "unproven" } else { "fake" };
        *table.cluster.generation.state.engine.lock().unwrap() = Some(Box::new(of_turn));
        let path = table.run("run", &settings()).await.unwrap();
        for sample in table.groups().iter().flat_map(|group| &group.samples) {
            let engines: Vec<_> = sample.segments.iter().map(|segment| segment.engine.as_str()).collect();
            assert_eq!(engines, ["unproven", "", "fake"]);
        }
        let unverified: Vec<_> = metrics(&path).iter().map(|line| line.get("proof/unverified_engines")).collect();
        assert_eq!(unverified, [Some(1.0); 3]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_lost_in_any_state_costs_attempts_and_changes_no_result() {
    bounded(async {
        let undisturbed = undisturbed(&settings()).await;
        for (what, fault) in [
            ("open", Fault::Lost),
            ("act", Fault::Lost),
            ("act", Fault::Nonsense),
            ("act", Fault::Silence),
            ("act", Fault::Twice),
            ("open", Fault::Failed(EpisodeFailure::Overloaded, true)),
            ("act", Fault::Failed(EpisodeFailure::Crashed, true)),
        ] {
            let table = Table::start(64).await;
            // Each loss takes all open episodes with it, so that they are few.
            table.script(move |id, asked, attempt| {
                let chosen = id.starts_with("train/2/") && id.ends_with("/1");
                (asked == what && attempt == 1 && chosen).then_some(fault)
            });
            let mut settings = settings();
            settings.turns.attempts = 20;
            let path = table.run("run", &settings).await.unwrap();
            assert_eq!(lines(&path), undisturbed, "{what} {fault:?}");
            let seen = table.environment.state.seen.lock().unwrap();
            let again = seen.iter().any(|(_, asked, attempt)| *asked == "open" && *attempt > 1);
            assert_eq!(again, fault != Fault::Twice, "{what} {fault:?}");
            let ids: Vec<_> =
                table.groups().iter().flat_map(|group| &group.samples).map(|sample| sample.sample_id.clone()).collect();
            let mut unique = ids.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), ids.len(), "no second sample");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_episode_that_its_environment_cannot_finish_is_invalid_and_in_no_statistic() {
    bounded(async {
        let table = Table::start(64).await;
        table.script(|id, asked, _| {
            let chosen = id.starts_with("train/2/") && id.ends_with("/1");
            (asked == "open" && chosen).then_some(Fault::Failed(EpisodeFailure::TaskInvalid, false))
        });
        let mut settings = settings();
        settings.services.max_invalid_share = 0.3;
        let path = table.run("run", &settings).await.unwrap();
        let line = &metrics(&path)[1];
        assert_eq!((line.get("rollout/failed_samples"), line.get("rollout/invalid_samples")), (Some(4.0), Some(4.0)));
        let groups = table.groups();
        let of_step: Vec<_> = groups.iter().filter(|group| group.group_id.starts_with("train/2/")).collect();
        let mut rewards = Vec::new();
        for group in &of_step {
            assert_eq!(group.samples.iter().map(|sample| sample.valid).collect::<Vec<_>>(), [true, false, true, true]);
            rewards.extend(group.samples.iter().filter_map(|sample| sample.raw_reward));
        }
        assert_eq!(line.get("critic/score/mean"), Some(rewards.iter().sum::<f64>() / rewards.len() as f64));
        let seen = table.environment.state.seen.lock().unwrap();
        let tries =
            seen.iter().filter(|(id, asked, _)| id.starts_with("train/2/") && id.ends_with("/1") && *asked == "open");
        assert_eq!(tries.count(), 4, "a task that cannot be done is not tried again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_place_at_the_table_is_enough() {
    bounded(async {
        let table = Table::start(1).await;
        let path = table.run("run", &settings()).await.unwrap();
        assert_eq!(lines(&path), undisturbed(&settings()).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_with_episodes_that_is_killed_and_resumed_has_the_same_lines() {
    bounded(async {
        let mut table = Table::start(64).await;
        let settings = settings();
        let handle = table.begin("run", &settings).unwrap();
        let progress = handle.progress();
        until(|| progress.borrow().step >= 2).await;
        handle.kill().await;
        table.cluster.down(LEARNER).await;
        table.cluster.up(LEARNER).await;
        let recipe = ResolvedRecipe::new(settings.clone(), table.model.clone()).unwrap();
        let directory = RunDirectory::resume(&table.path("run"), recipe.record()).unwrap();
        let handle = start_run(recipe, directory, table.endpoints(), RunOptions::default()).unwrap();
        finish(handle).await.1.unwrap();
        assert_eq!(lines(&table.path("run")), undisturbed(&settings).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_that_is_used_up_cuts_the_episode_off_and_says_which() {
    bounded(async {
        type Change = fn(&mut LoopSettings);
        let cases: [(&str, Change); 4] = [
            ("turns", |settings| settings.turns.max_turns = 1),
            ("turn_tokens", |settings| settings.turns.max_turn_tokens = 5),
            ("tokens", |settings| settings.sampling.max_tokens = 30),
            ("context", |settings| settings.sampling.max_tokens = 90),
        ];
        for (name, change) in cases {
            let table = Table::start(64).await;
            let mut settings = settings();
            settings.run.steps = 1;
            change(&mut settings);
            let path = table.run("run", &settings).await.unwrap();
            let line = &metrics(&path)[0];
            assert_eq!(line.get(&format!("episodes/used_up/{name}")), Some(16.0), "{name}: {:?}", line.values);
            assert_eq!(line.get("response_length/clip_ratio"), Some(1.0), "{name}");
            assert_eq!(line.get("rollout/invalid_samples"), Some(0.0), "{name}: it is no failure");
            for sample in table.groups().iter().flat_map(|group| &group.samples) {
                let tokens: usize = sample.segments.iter().map(|segment| segment.token_ids.len()).sum();
                assert!(tokens <= settings.sampling.max_tokens as usize, "{name}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_time_is_over_for_every_episode_ends_with_late_samples() {
    bounded(async {
        let table = Table::start(64).await;
        table.script(|_, asked, _| (asked == "act").then_some(Fault::Silence));
        let mut settings = settings();
        settings.turns.episode_deadline = Duration::from_millis(300);
        settings.evaluation.problems = 0;
        let error = table.run("run", &settings).await.unwrap_err().to_string();
        assert!(error.contains("late") || error.contains("too long"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_environment_needs_is_refused_before_the_first_sample() {
    bounded(async {
        let table = Table::start(64).await;
        let plain = "{% for m in messages %}{{ m.role }}\n{{ m.content }}<eos>\n\
            {% endfor %}{% if add_generation_prompt %}assistant\n{% endif %}";
        std::fs::write(table.model.join("chat_template.jinja"), plain).unwrap();
        let error = table.begin("a", &settings()).err().unwrap().to_string();
        assert!(error.contains("turns.tools is \"template\", allowed: \"system-prompt\""), "{error}");
        std::fs::write(table.model.join("chat_template.jinja"), TEMPLATE.replace("<tool_call>", "")).unwrap();
        let error = table.begin("b", &settings()).err().unwrap().to_string();
        assert!(error.contains("turns.tool_calls is absent, required: hermes or llama3"), "{error}");
        std::fs::write(table.model.join("chat_template.jinja"), TEMPLATE).unwrap();
        let recipe = ResolvedRecipe::new(settings(), table.model.clone()).unwrap();
        let directory = RunDirectory::create(&table.path("c"), recipe.record()).unwrap();
        let refused = start_run(recipe, directory, table.cluster.endpoints(), RunOptions::default()).err().unwrap();
        assert!(refused.to_string().contains("endpoints.environment is absent"), "{refused}");
    })
    .await;
}

/// A [`turn`] with reasoning, from the prompt of each, which no prefix follows.
fn thoughtful_turn(item: &GenerateItem) -> Option<String> {
    assert!(item.prefix_segments.is_empty(), "each turn has a prompt of its own");
    let prompt = text_of(&item.prompt_token_ids);
    let (_, asked) = prompt.rsplit_once("user\n")?;
    let (a, b) = asked.split_once('=')?.0.split_once('+')?;
    let a: u64 = a.parse().ok()?;
    let b: u64 = b.parse().ok()?;
    let seed = item.sampling.as_ref().and_then(|sampling| sampling.seed).unwrap();
    let said = if asked.contains("tool\n") {
        format!("\\boxed{{{}}}", a + b + mix(seed) % 2)
    } else {
        format!("<tool_call>{{\"name\":\"calculator\",\"arguments\":{{\"expression\":\"{a}+{b}\"}}}}</tool_call>")
    };
    Some(format!("<think>Hm {a}</think>{said}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_template_rewrites_turns_each_may_have_a_prompt_of_its_own_and_the_episode_is_one_sample() {
    bounded(async {
        let mut settings = settings();
        settings.turns.earlier_turns = EarlierTurns::Rewrite;
        let run = async |name: &str| {
            let table = Table::start(64).await;
            *table.cluster.generation.state.answers.lock().unwrap() = Some(Box::new(thoughtful_turn));
            let path = table.run(name, &settings).await.unwrap();
            (table, path)
        };
        let (table, path) = run("run").await;
        let seen = table.cluster.generation.state.seen.lock().unwrap().clone();
        let groups = table.groups();
        for group in &groups {
            assert_eq!(group.samples.len(), 4, "an episode is one sample of its group");
            for sample in &group.samples {
                let texts: Vec<_> = sample.segments.iter().map(|segment| text_of(&segment.token_ids)).collect();
                assert!(texts.len() == 2 && texts.iter().all(|text| text.starts_with("<think>Hm ")), "{texts:?}");
                let [context] = &sample.contexts[..] else { panic!("{:?}", sample.contexts) };
                let prompt = text_of(&context.token_ids);
                assert_eq!(context.segment, 1);
                assert!(!prompt.contains("<think>"), "the template leaves reasoning out: {prompt}");
                assert!(prompt.contains("tool\n") && prompt.ends_with("assistant\n"), "{prompt}");
                let asked: Vec<_> = seen.iter().filter(|item| item.sample_id == sample.sample_id).collect();
                assert_eq!(asked.len(), 2);
                assert_eq!(
                    (&asked[0].prompt_token_ids, &asked[1].prompt_token_ids),
                    (&group.prompt_token_ids, &context.token_ids)
                );
                let seeds: Vec<_> = asked.iter().map(|item| item.sampling.as_ref().unwrap().seed).collect();
                assert_ne!(seeds[0], seeds[1]);
            }
        }
        for line in metrics(&path) {
            assert_eq!((line.get("episodes/sequences/mean"), line.get("episodes/turns/mean")), (Some(2.0), Some(2.0)));
            assert_eq!(line.get("episodes/added_tokens/mean"), Some(0.0));
        }
        let kept = read_rollouts(&path, 1).unwrap();
        let sample = &groups.iter().find(|group| group.group_id == "train/1/0").unwrap().samples[0];
        let tokens = sample.segments[0].token_ids.len() as u32;
        let prompts: Vec<_> = kept[0].turn_prompts.iter().map(|prompt| (prompt.first, &prompt.token_ids)).collect();
        assert_eq!(prompts, [(tokens, &sample.contexts[0].token_ids)]);
        assert_eq!(lines(&run("again").await.1), lines(&path));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_start_imitates_turns_after_what_the_environment_said() {
    a_warm_start_with("calculator".to_owned()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_start_imitates_turns_in_an_environment_of_a_worker() {
    a_warm_start_with(support::environment::file().name).await;
}

async fn a_warm_start_with(environment: String) {
    bounded(async {
        let table = Table::start(64).await;
        let call = |sum: &str| {
            format!("<tool_call>{{\"name\": \"calculator\", \"arguments\": {{\"expression\": \"{sum}\"}}}}</tool_call>")
        };
        let rows: String = (10..30)
            .map(|a| {
                let turns = [call(&format!("{a}+7")), format!("\\boxed{{{}}}", a + 7)];
                let row = serde_json::json!({"prompt": format!("{a}+7=\n"), "answer": (a + 7).to_string(), "demonstration": turns});
                format!("{row}\n")
            })
            .collect();
        let file = table.folder.path().join("rows.jsonl");
        std::fs::write(&file, &rows).unwrap();
        let mut settings = settings();
        settings.run.steps = 1;
        settings.data.environment = Some(environment);
        settings.data.files = vec![file.clone()];
        settings.evaluation.problems = 2;
        (settings.warm_start.steps, settings.warm_start.examples_per_step) = (2, 16);
        table.run("run", &settings).await.unwrap();
        let examples = table.cluster.learner.state.examples.lock().unwrap().clone();
        assert_eq!(examples.len(), 32);
        let mut first = 0;
        let mut second = 0;
        for example in examples {
            let prompt = text_of(&example.prompt_token_ids);
            let said = text_of(&example.response_token_ids);
            assert_eq!(example.response_token_ids.last(), Some(&1), "the end of the turn is learnt");
            assert!(prompt.ends_with("assistant\n"), "{prompt}");
            match said.strip_prefix("\\boxed{") {
                None => {
                    assert!(said.starts_with("<tool_call>") && !prompt.contains("tool\n"), "{prompt}{said}");
                    first += 1;
                }
                Some(result) => {
                    let result = result.trim_end_matches('}');
                    assert!(prompt.contains(&format!("</tool_call>\ntool\n{result}\nassistant\n")), "{prompt}{said}");
                    second += 1;
                }
            }
        }
        assert!(first > 4 && second > 4, "turns are drawn alike: {first} and {second}");

        // One that goes on after the end of its episode is no demonstration.
        std::fs::write(&file, rows.replace("<tool_call>", "").replace("</tool_call>", "")).unwrap();
        let other = Table::start(64).await;
        let error = match other.begin("refused", &settings) {
            Ok(run) => finish(run).await.1.err().unwrap().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("demonstration of `") && error.contains("the environment ends the episode"), "{error}");
    })
    .await;
}
