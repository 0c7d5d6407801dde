//! Benchmarks within a run: their accuracies, the answers that are kept, and evaluations that were interrupted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde_json::json;

use crate::support::generation::text_of;
use crate::support::{Cluster, bounded, lines, metrics, mix, recipe, temp, until};
use evenkeel_orchestrator::{AuditMode, BenchmarkSettings, EvaluationRequest, LoopSettings, RunOutcome};
use evenkeel_proto::v1::{GenerateItem, StepKind};
use evenkeel_proto::{Purpose, SampleId};
use evenkeel_run::{AnswerReader, EvaluationAnswer, MetricsLine, Summary};

/// A benchmark of sums `a + 0`, `a + 1`, ...
fn sums(folder: &Path, name: &str, a: usize, count: usize) -> BenchmarkSettings {
    let row = |b: usize| json!({"id": format!("{a}+{b}"), "prompt": format!("{a}+{b}=\n"), "answer": a + b});
    let path: PathBuf = folder.join(format!("{name}.jsonl"));
    std::fs::write(&path, (0..count).map(|b| format!("{}\n", row(b))).collect::<String>()).unwrap();
    BenchmarkSettings { files: vec![path], ..BenchmarkSettings::default() }
}

/// One step, two benchmarks, four samples for each problem.
fn on_benchmarks(benchmarks: Vec<BenchmarkSettings>) -> LoopSettings {
    let mut recipe = recipe();
    recipe.run.steps = 1;
    recipe.warm_start.steps = 0;
    recipe.evaluation.problems = 0;
    recipe.evaluation.samples = 4;
    recipe.evaluation.temperature = 1.0;
    recipe.evaluation.benchmarks = benchmarks;
    recipe
}

/// Right or wrong by prompt and sample: of `1+0` one of four is right, of `1+1` none, of `2+0` all.
fn scripted(item: &GenerateItem) -> Option<String> {
    let id: SampleId = item.sample_id.parse().unwrap();
    let right = match text_of(&item.prompt_token_ids).as_str() {
        "1+0=\n" => (id.sample == 2).then_some("1"),
        "2+0=\n" => Some("2"),
        _ => None,
    };
    (id.group.purpose == Purpose::Eval).then(|| format!("\\boxed{{{}}}", right.unwrap_or("77")))
}

fn evaluations(run: &Path) -> Vec<MetricsLine> {
    let text = std::fs::read_to_string(run.join("evaluation.jsonl")).unwrap();
    text.lines().map(|line| MetricsLine::from_json(StepKind::Evaluation, line).unwrap()).collect()
}

fn answers(run: &Path, step: u64, benchmark: &str) -> Vec<EvaluationAnswer> {
    let path = run.join(format!("evaluation/step-{step}/{benchmark}.jsonl.zst"));
    AnswerReader::open(&path).unwrap().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accuracies_are_those_of_the_answers_and_every_answer_is_kept() {
    bounded(async {
        let (dir, path) = temp();
        let cluster = Cluster::start().await;
        *cluster.generation.state.answers.lock().unwrap() = Some(Box::new(scripted));
        let recipe = on_benchmarks(vec![sums(dir.path(), "ones", 1, 2), sums(dir.path(), "twos", 2, 1)]);
        let (_, result) = cluster.run(&path, &recipe).await;
        let (outcome, summary) = result.unwrap();
        assert_eq!(outcome, RunOutcome::Completed);

        let all = evaluations(&path);
        assert_eq!(all.iter().map(|line| line.step).collect::<Vec<_>>(), [0, 1], "step 0 is evaluated too");
        let known = [
            ("val-core/ones/acc/mean@4", 0.125),
            ("val-core/ones/acc/best@4", 0.5),
            ("val-core/ones/acc/best@4/mean", (1.0 - 0.75_f64.powi(4)) / 2.0),
            ("val-core/ones/acc/maj@4", 0.0),
            ("val-core/ones/acc/pass@2", 0.25),
            ("val-core/ones/acc/pass@4", 0.5),
            ("val-aux/ones/acc/mean@4/standard_error", 0.125),
            ("val-aux/ones/problems", 2.0),
            ("val-core/twos/acc/mean@4", 1.0),
            ("val-core/twos/acc/maj@4", 1.0),
            ("val-core/average/acc/mean@4", 0.5625),
            ("val-core/average/acc/best@4", 0.75),
        ];
        for (name, value) in known {
            let found = all[1].get(name).unwrap_or_else(|| panic!("{name} is missing: {:?}", all[1]));
            assert!((found - value).abs() < 1e-12, "{name}: {found} instead of {value}");
        }

        let ones = answers(&path, 1, "ones");
        let places: Vec<_> = ones.iter().map(|answer| (answer.index, answer.sample)).collect();
        let expected: Vec<(u64, u32)> = (0..2).flat_map(|index| (0..4).map(move |sample| (index, sample))).collect();
        assert_eq!(places, expected);
        let right = &ones[2];
        assert_eq!(
            (right.problem.as_str(), right.prompt.as_str(), right.gold.join(" ").as_str()),
            ("1+0", "1+0=\n", "1")
        );
        assert_eq!((right.text.as_str(), right.answer.as_deref()), ("\\boxed{1}", Some("1")));
        assert_eq!((right.verdict.label(), right.reason.as_str(), right.score), ("correct", "equal", Some(1.0)));
        assert_eq!((ones[3].verdict.label(), ones[3].reason.as_str()), ("incorrect", "unequal"));
        assert_eq!(text_of(&right.token_ids), right.text);
        assert_eq!(answers(&path, 1, "twos").len(), 4);

        assert_table(&summary);
    })
    .await;
}

/// The columns of the paper's Table 1, for each benchmark and their average.
fn assert_table(summary: &Summary) {
    let table: Vec<_> = summary.benchmarks.iter().map(|row| (row.name.as_str(), row.samples)).collect();
    assert_eq!(table, [("average", 4), ("ones", 4), ("twos", 4)]);
    let average = &summary.benchmarks[0];
    let value = |found: Option<evenkeel_run::BenchmarkValue>| found.map(|found| (found.step, found.value));
    assert_eq!((value(average.peak_mean), value(average.peak_best)), (Some((0, 0.5625)), Some((0, 0.75))));
    assert_eq!((value(average.last_mean), value(average.last_best)), (Some((1, 0.5625)), Some((1, 0.75))));
    assert_eq!(average.last_mean.unwrap().standard_error, None, "one problem has none");
    assert_eq!(summary.benchmarks[1].last_mean.unwrap().standard_error, Some(0.125));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_benchmark_is_asked_and_sampled_as_its_settings_say() {
    bounded(async {
        let (dir, path) = temp();
        let cluster = Cluster::start().await;
        let greedy = BenchmarkSettings {
            name: "greedy".into(),
            samples: Some(1),
            temperature: Some(0.0),
            max_tokens: Some(9),
            suffix: Some(String::new()),
            ..sums(dir.path(), "ones", 1, 3)
        };
        let mut recipe = on_benchmarks(vec![greedy, sums(dir.path(), "twos", 2, 1)]);
        recipe.data.suffix = "=".into();
        assert_eq!(cluster.run(&path, &recipe).await.1.unwrap().0, RunOutcome::Completed);
        for item in cluster.generation.state.seen.lock().unwrap().iter() {
            let id: SampleId = item.sample_id.parse().unwrap();
            let sampling = item.sampling.as_ref().unwrap();
            let prompt = text_of(&item.prompt_token_ids);
            let asked = (sampling.temperature, sampling.max_tokens, prompt.ends_with("=\n="));
            match (id.group.purpose, prompt.chars().next()) {
                (Purpose::Eval, Some('1')) => assert_eq!(asked, (Some(0.0), Some(9), false)),
                (Purpose::Eval, _) => assert_eq!(asked, (Some(1.0), Some(60), true)),
                _ => assert!(prompt.ends_with("=\n="), "{prompt}"),
            }
        }
        let line = &evaluations(&path)[0];
        assert!(line.get("val-core/greedy/acc/mean@1").is_some() && line.get("val-core/twos/acc/best@4").is_some());
        assert!(line.get("val-core/average/acc/mean@4").is_none(), "they have no accuracy in common");
        assert!(answers(&path, 0, "greedy").iter().all(|answer| answer.token_ids.len() <= 9));
    })
    .await;
}

/// Ids of samples that were requested in the evaluation at step 0.
fn asked(cluster: &Cluster) -> Vec<String> {
    let seen = cluster.generation.state.seen.lock().unwrap();
    let ids = seen.iter().map(|item| item.sample_id.clone());
    ids.filter(|id| id.starts_with("eval/0/")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evaluation_that_was_killed_goes_on_where_it_was() {
    bounded(async {
        let dir = tempfile::tempdir().unwrap();
        let recipe = on_benchmarks(vec![sums(dir.path(), "ones", 1, 30), sums(dir.path(), "twos", 2, 30)]);
        let undisturbed = dir.path().join("undisturbed").join("run");
        let cluster = Cluster::start().await;
        assert_eq!(cluster.run(&undisturbed, &recipe).await.1.unwrap().0, RunOutcome::Completed);

        let path = dir.path().join("killed").join("run");
        let mut slow = recipe.clone();
        slow.services.max_rollouts = 8;
        let cluster = Cluster::start().await;
        let mut handle = cluster.begin(&path, &slow);
        let mut kept = BTreeSet::new();
        for groups in [5, 20, 40] {
            let done = |run: &Path| {
                let files = ["ones", "twos"].map(|name| run.join(format!("evaluation/step-0/{name}.jsonl.zst")));
                let readers = files.into_iter().filter_map(|file| AnswerReader::open(&file).ok());
                readers.flat_map(|reader| reader.filter_map(Result::ok)).count() / 4
            };
            until(|| done(&path) >= groups).await;
            handle.kill().await;
            let before = asked(&cluster).len();
            for name in ["ones", "twos"] {
                let key = |answer: EvaluationAnswer| (name, answer.index, answer.sample);
                kept.extend(answers(&path, 0, name).into_iter().map(key));
            }
            assert!(kept.len() >= 4 * groups && kept.len() < 240, "{}", kept.len());
            assert!(before < 240 + 3 * 8, "{before}: only what was in flight is sampled again");
            handle = cluster.resume(&path, &slow);
        }
        assert_eq!(crate::support::finish(handle).await.1.unwrap().0, RunOutcome::Completed);
        // Eight samples and the rest of their groups were in flight at each kill.
        let again = asked(&cluster).len() - asked(&cluster).iter().collect::<BTreeSet<_>>().len();
        assert!(again <= 3 * (8 + 8 * 3), "{again} samples were drawn twice");
        assert_eq!(lines(&path), lines(&undisturbed));
        for name in ["ones", "twos"] {
            for step in [0, 1] {
                assert_eq!(answers(&path, step, name), answers(&undisturbed, step, name));
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn benchmarks_that_cannot_be_asked_are_refused_by_name() {
    bounded(async {
        let (dir, path) = temp();
        let cluster = Cluster::start().await;
        type Change = fn(&mut BenchmarkSettings);
        let cases: [(Change, &str); 5] = [
            (|b| b.files = vec!["/nowhere/x.jsonl".into()], "/nowhere/x.jsonl"),
            (
                |b| b.answer_field = "solution.text".into(),
                "ones.jsonl: yields no prompts: 2 rows, 0 prompts, 2 missing-gold",
            ),
            (
                |b| b.max_tokens = Some(128),
                "evaluation.benchmarks[0].max_tokens is 128, allowed: below the model's context",
            ),
            (|b| b.max_tokens = Some(125), "benchmark `ones`: prompt `1+0` has 5 tokens, allowed: at most 3"),
            (
                |b| b.name = "arithmetic".into(),
                "evaluation.benchmarks[0].name is \"arithmetic\", allowed: a name that does not collide",
            ),
        ];
        for (change, words) in cases {
            let mut benchmark = sums(dir.path(), "ones", 1, 2);
            change(&mut benchmark);
            let mut recipe = on_benchmarks(vec![benchmark]);
            recipe.evaluation.problems = 5;
            let error = cluster.refused(&path, &recipe);
            assert!(error.contains(words), "{error}");
        }
    })
    .await;
}

/// As [`scripted`] in evaluations. Answers of steps are letters by their seeds, so that no two are alike.
fn scripted_or_drawn(item: &GenerateItem) -> Option<String> {
    let letter = |word: u64| char::from(b'A' + (word % 26) as u8);
    let drawn = |seed: u64| (0..12).map(|at| letter(mix(seed ^ at << 56))).collect::<String>();
    scripted(item).or_else(|| item.sampling.as_ref()?.seed.map(drawn))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_not_drawn_from_the_policy_end_the_run_or_leave_an_evaluation_unverified() {
    bounded(async {
        // Every token is so many thousandths of a nat likelier than it should be on average.
        for (surprise, mode, alpha, verified) in [
            (0, AuditMode::Warn, 1e-30, Some(1.0)),
            (3000, AuditMode::Warn, 4e-4, Some(0.0)),
            (3000, AuditMode::Stop, 4e-4, None),
        ] {
            let (dir, path) = temp();
            let cluster = Cluster::start().await;
            *cluster.generation.state.answers.lock().unwrap() = Some(Box::new(scripted_or_drawn));
            cluster.learner.state.surprise.store(surprise, Ordering::Relaxed);
            let mut recipe = on_benchmarks(vec![sums(dir.path(), "ones", 1, 2), sums(dir.path(), "twos", 2, 1)]);
            recipe.sampler_audit.mode = mode;
            recipe.sampler_audit.alpha = alpha;
            let result = cluster.run(&path, &recipe).await.1;
            if verified.is_none() {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("the samples of engine fake fail the audit of their temperature"), "{error}");
                assert!(metrics(&path).is_empty());
                continue;
            }
            result.unwrap();
            for line in evaluations(&path) {
                // Fewer than are audited on average, so that all are.
                assert_eq!(line.get("sampler_audit/evaluation_answers"), Some(12.0));
                assert_eq!(line.get("sampler_audit/evaluation_verified"), verified, "step {}", line.step);
            }
        }
    })
    .await;
}

/// Right answers of four, by the steps done before.
const RIGHT: [u32; 7] = [0, 1, 2, 4, 2, 4, 0];

fn by_step(item: &GenerateItem) -> Option<String> {
    let id: SampleId = item.sample_id.parse().unwrap();
    let right = id.sample < RIGHT[id.group.step as usize];
    (id.group.purpose == Purpose::Eval).then(|| format!("\\boxed{{{}}}", if right { "1" } else { "77" }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_checkpoint_stays_with_its_weights_whatever_follows() {
    bounded(async {
        let (dir, path) = temp();
        let mut recipe = on_benchmarks(vec![sums(dir.path(), "ones", 1, 1)]);
        recipe.run.steps = 6;
        recipe.evaluation.every = 1;
        recipe.checkpoint.every = 100;
        recipe.checkpoint.keep_best = "val-core/average/acc/mean@4".into();
        let cluster = Cluster::start().await;
        *cluster.generation.state.answers.lock().unwrap() = Some(Box::new(by_step));
        let mut handle = cluster.begin(&path, &recipe);
        let progress = handle.progress();
        until(|| progress.borrow().step >= 4).await;
        handle.kill().await;
        handle = cluster.resume(&path, &recipe);
        assert_eq!(crate::support::finish(handle).await.1.unwrap().0, RunOutcome::Completed);

        let best: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path.join("best.json")).unwrap()).unwrap();
        assert_eq!((&best["step"], &best["value"]), (&json!(3), &json!(1.0)), "the first of two peaks");
        assert_eq!((&best["policy_version"], &best["metric"]), (&json!(3), &json!("val-core/average/acc/mean@4")));
        assert_eq!(best["checkpoint"], json!("/nowhere/checkpoints/step-3"), "although no checkpoint was due");
        assert_eq!(best["weights"], json!("/nowhere/weights/step-3"));
        let besides = cluster.learner.state.kept_besides.lock().unwrap().clone();
        assert!(besides.contains(&("checkpoint", vec![3])), "the last checkpoint is asked to leave it: {besides:?}");
        assert!(besides.contains(&("weights", vec![3])), "{besides:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evaluation_without_a_run_has_the_same_accuracies_and_can_be_continued() {
    bounded(async {
        let (dir, output) = temp();
        let model = dir.path().join("model");
        let cluster = Cluster::start().await;
        recipe::write_model(&model);
        *cluster.generation.state.answers.lock().unwrap() = Some(Box::new(scripted));
        let settings = on_benchmarks(vec![sums(dir.path(), "ones", 1, 2), sums(dir.path(), "twos", 2, 1)]);
        let endpoints = cluster.endpoints();
        let request = |settings: &LoopSettings| EvaluationRequest {
            environment: Vec::new(),
            described: Default::default(),
            settings: settings.clone(),
            model: model.clone(),
            adapter: None,
            output: output.clone(),
            generation: endpoints.generation.clone(),
            reward: endpoints.reward.clone(),
            verifiers: Default::default(),
            judge: None,
        };
        let line = request(&settings).start().unwrap().join().await.unwrap().unwrap();
        let known = [("average/acc/mean@4", 0.5625), ("ones/acc/best@4", 0.5), ("twos/acc/maj@4", 1.0)];
        for (name, value) in known {
            assert_eq!(line.get(&format!("val-core/{name}")), Some(value), "{name}");
        }
        let path = output.join("ones.jsonl.zst");
        let kept = std::fs::read(&path).unwrap();
        assert_eq!(AnswerReader::open(&path).unwrap().count(), 8);
        let asked = cluster.generation.state.seen.lock().unwrap().len();
        assert_eq!(asked, 12);

        // The same again asks nothing; half of it is asked where half is missing.
        let mut again = request(&settings).start().unwrap().join().await.unwrap().unwrap();
        let mut first = line.clone();
        for line in [&mut first, &mut again] {
            line.values.retain(|name, _| !evenkeel_run::metric::table::may_differ(name));
        }
        assert_eq!(again, first);
        assert_eq!(cluster.generation.state.seen.lock().unwrap().len(), 12);
        std::fs::write(&path, &kept[..kept.len() - 1]).unwrap();
        request(&settings).start().unwrap().join().await.unwrap().unwrap();
        assert_eq!(cluster.generation.state.seen.lock().unwrap().len(), 16, "the problem that was cut off");
        assert_eq!(std::fs::read(&path).unwrap(), kept);

        let mut other = settings.clone();
        other.evaluation.samples = 2;
        let error = request(&other).start().err().expect("it is another evaluation").to_string();
        assert!(
            error.contains("has answers to another evaluation (samples 4, not 2, for benchmark `ones`)"),
            "{error}"
        );
    })
    .await;
}
