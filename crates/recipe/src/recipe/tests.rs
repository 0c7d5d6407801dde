use evenkeel_orchestrator::{OrchestratorService, OrchestratorSettings};
use evenkeel_proto::v1::start_run_request::Configuration;
use evenkeel_proto::v1::{ForkPoint, StartRunRequest};
use evenkeel_rpc::server::Drain;

use super::*;

fn loaded(text: &str) -> Result<Recipe, String> {
    let loaded = Loader::new().text("test", text).and_then(resolve);
    loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
}

fn built_in(names: &[&str]) -> Recipe {
    Layers::of(names).and_then(Layers::loader).and_then(resolve).unwrap().settings
}

#[test]
fn built_in_recipes_load_and_survive_being_written() {
    // Overlays alone change the defaults, and are recipes too.
    for name in built_in::names() {
        let recipe = built_in(&[&name]);
        let resolved = recipe.resolved().unwrap();
        let again = loaded(&resolved.toml).unwrap();
        assert_eq!(again, recipe, "{name}");
        assert_eq!(again.resolved().unwrap().identity, resolved.identity);
    }
}

#[test]
fn a_recipe_of_this_machine_is_one_text_for_a_server() {
    let recipes = ["dapo", "verl-exact"];
    let merged = LayeredRecipes.merged(&recipes.map(str::to_owned)).unwrap();
    assert_eq!(loaded(&merged).unwrap(), built_in(&recipes));
    assert_eq!(
        LayeredRecipes.text("base = [\"dapo\", \"verl-exact\"]").and_then(resolve).unwrap().settings,
        built_in(&recipes)
    );
}

#[test]
fn the_dial_of_sides_is_read_written_and_refused_elsewhere() {
    let objective = |text: &str| loaded(&format!("[learner.objective]\n{text}"));
    let recipe =
        objective("aggregation = \"sides\"\nlength_exponent = 0.5\nside_ratio = [[1, 1], [200, 0.1]]").unwrap();
    let settings = &recipe.learner.objective;
    assert_eq!(
        settings.at_step(200).constants().sides.map(|dial| (dial.length_exponent, dial.ratio)),
        Some((0.5, 0.1))
    );
    let resolved = recipe.resolved().unwrap();
    assert_eq!(loaded(&resolved.toml).unwrap(), recipe);
    let other = objective("aggregation = \"sides\"\nlength_exponent = 0.25").unwrap();
    assert_ne!(other.learner.hash(), recipe.learner.hash(), "the dial decides bits");
    for (text, value, allowed) in [
        ("length_exponent = 0.5", "`learner.objective.length_exponent` is 0.5", "absent with aggregation = balanced"),
        ("side_ratio = 0", "`learner.objective.side_ratio` is 0", "absent with aggregation = balanced"),
        ("aggregation = \"sides\"\nside_ratio = -1", "`learner.objective.side_ratio` is -1", "a finite number"),
        ("aggregation = \"sides\"\nside_ratio = inf", "`learner.objective.side_ratio` is inf", "a finite number"),
        ("aggregation = \"sides\"\nside_ratio = [[0, 1.0]]", "side_ratio", "a step of at least 1 at this place"),
        ("aggregation = \"sides\"\nside_ratio = \"much\"", "side_ratio", "a number, or a list of [step, number]"),
    ] {
        let error = objective(text).unwrap_err();
        assert!(error.contains(value) && error.contains(allowed), "{error}");
    }
}

#[test]
fn a_run_is_called_after_its_recipes() {
    let stem = |recipes: &[&str]| stem(&recipes.iter().map(|&recipe| recipe.to_owned()).collect::<Vec<_>>());
    assert_eq!(stem(&[]), "arithmetic");
    assert_eq!(stem(&["paper/qwen3-1.7b-dapo-balanced"]), "qwen3-1.7b-dapo-balanced");
    assert_eq!(stem(&["dapo", "verl-exact", "runs/mine.toml"]), "dapo-verl-exact-mine");
}

#[test]
fn dapo_is_as_published() {
    let Recipe { sampling, shaping, learner, .. } = built_in(&["dapo"]);
    assert_eq!((sampling.prompts_per_step, sampling.group_size, learner.mini_batch_groups), (128, 16, 32));
    assert!(sampling.dynamic && sampling.max_prompts_per_step == 10 * 3 * 128);
    assert_eq!((sampling.max_tokens, shaping.overlong_buffer_tokens, shaping.overlong_penalty), (20_480, 4096, 1.0));
    let objective = &learner.objective;
    assert_eq!((objective.clip_low, objective.clip_high, objective.kl_coefficient), (0.2, 0.28, 0.0));
    let optimizer = &learner.optimizer;
    assert_eq!((optimizer.weight_decay, optimizer.max_grad_norm), (0.1, Some(1.0)));
    let rates: Vec<f64> = [0, 4, 36, 40].map(|update| optimizer.learning_rate_at(update, update / 4)).to_vec();
    for (rate, wanted) in rates.iter().zip([1e-7, 2e-7, 1e-6, 1e-6]) {
        assert!((rate - wanted).abs() < 1e-18, "ten steps of four updates: {rates:?}");
    }
}

#[test]
fn verls_overlays_over_dapo_compute_what_its_script_does() {
    let recipe = built_in(&["dapo", "verl-exact", "verl-token-mean"]);
    let objective = &recipe.learner.objective;
    let optimizer = &recipe.learner.optimizer;
    let names = [objective.advantage.to_string(), objective.aggregation.to_string(), objective.policy.to_string()];
    assert_eq!(names, ["grpo-sample", "batch-token", "dual-clip"]);
    assert_eq!((objective.dual_clip, objective.clip_high), (10.0, 0.28));
    assert_eq!(optimizer.learning_rate_at(0, 0), 0.0, "verl's first batch has a rate of 0");
}

#[test]
fn verl_exact_keeps_the_rule_of_every_run_of_the_paper() {
    for run in built_in::names().into_iter().filter(|name| name.starts_with("paper/")) {
        let plain = built_in(&[&run]).learner.objective;
        let over = built_in(&[&run, "verl-exact"]).learner.objective;
        assert_eq!(over.aggregation, plain.aggregation, "{run}");
        assert_eq!([over.advantage.to_string(), over.policy.to_string()], ["grpo-sample", "dual-clip"], "{run}");
        let refused = Layers::of(&[run.as_str(), "verl-token-mean"]);
        assert_eq!(refused.is_ok(), run.ends_with("-batch-token"), "{run}");
    }
}

#[test]
fn runs_of_the_paper_differ_in_model_data_and_rule_alone() {
    for (model, max_tokens, buffer) in [("qwen2.5-math-7b", 2048, 410), ("qwen3-1.7b", 8192, 1638)] {
        for data in ["dapo", "polaris"] {
            // The main text's balanced rule counts responses; the program's `balanced` is that of Appendix B.
            let runs = [
                ("token", "token"),
                ("sequence", "sequence"),
                ("balanced", "balanced-count"),
                ("balanced-mass", "balanced"),
                ("batch-token", "batch-token"),
            ]
            .map(|(rule, aggregation)| (aggregation, built_in(&[&format!("paper/{model}-{data}-{rule}")])));
            for (rule, recipe) in &runs {
                assert_eq!(recipe.learner.objective.aggregation.to_string(), *rule);
                assert_eq!((recipe.sampling.max_tokens, recipe.shaping.overlong_buffer_tokens), (max_tokens, buffer));
                let shape = (recipe.run.steps, recipe.sampling.prompts_per_step, recipe.sampling.group_size);
                assert_eq!(shape, (500, 128, 16));
                assert_eq!((recipe.learner.optimizer.learning_rate, recipe.sampling.temperature), (1e-6, 1.0));
                let evaluation = &recipe.evaluation;
                assert_eq!((evaluation.every, evaluation.samples, evaluation.temperature), (20, 8, 1.0));
                let mut other = recipe.clone();
                other.learner.objective.aggregation = runs[0].1.learner.objective.aggregation;
                assert_eq!(other, runs[0].1, "{model}-{data}-{rule}");
            }
        }
    }
}

#[test]
fn the_family_of_trails_differs_in_its_demonstrations_alone() {
    let all = ["wrong-longer", "wrong-shorter", "equal-varied", "equal-narrow", "shaped"];
    let all = all.map(|name| built_in(&[&format!("trails/{name}")]));
    for (index, recipe) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| other != recipe), "{index}");
        assert_eq!(
            recipe.sampling.prompts_per_step,
            4 * recipe.learner.mini_batch_groups as u32,
            "four updates a step"
        );
        let longest = recipe.data.trails.after_right[1].max(recipe.data.trails.after_wrong[1]);
        assert!(recipe.sampling.max_tokens > longest + 50, "room to grow");
        let mut other = recipe.clone();
        other.data.trails = all[0].data.trails.clone();
        other.shaping = all[0].shaping.clone();
        assert_eq!(other, all[0]);
    }
    assert_eq!(all[4].data, all[2].data, "shaped asks what equal-varied asks");
    assert!(all[..4].iter().all(|recipe| recipe.shaping.overlong_buffer_tokens == 0));
}

#[test]
fn impossible_settings_of_any_section_name_key_value_and_origin() {
    for (text, words) in [
        ("[sampling]\ngroup_size = 0", "`sampling.group_size` is 0 in test, allowed: at least 1"),
        ("[learner]\nepochs = 0", "`learner.epochs` is 0 in test, allowed: 1 or more"),
        ("[model.fresh]\nlayers = 5000", "`model.fresh.layers` is 5000 in test, allowed: at most 1024"),
        (
            "[model.fresh]\nhidden_size = 1000000000",
            "`model.fresh` is 3335000000192 parameters in test, allowed: at most 1000000000",
        ),
        (
            "[sampling]\nmax_tokens = 100\n[engine]\nmax_model_len = 100",
            "`engine.max_model_len` is 100 in test, allowed: above sampling.max_tokens, which is 100",
        ),
        (
            "[evaluation]\nmax_tokens = 5000\n[engine]\nmax_model_len = 300",
            "`model.fresh.context_tokens` is 256 in defaults, allowed: above evaluation.max_tokens, which is 5000",
        ),
        ("[reward.functions.words]\npath = \"reward.py\"", "`reward.functions.words` is present in"),
        ("[samplign]\n", "unknown key `samplign` in test, nearest allowed: `sampling`"),
        (
            "[sampling]\nprompts_per_step = 100\n[learner]\nmini_batch_groups = 32",
            "`learner.mini_batch_groups` is 32 in test, allowed: a divisor of the 100 groups of a step",
        ),
        (
            "[sampling]\nmax_tokens = 100\n[shaping]\noverlong_buffer_tokens = 101",
            "`shaping.overlong_buffer_tokens` is 101 in test, allowed: 0 to sampling.max_tokens, which is 100",
        ),
        (
            "[shaping]\nwrong = -1.0\n[learner.objective]\nadvantage = \"maxrl\"",
            "`shaping.wrong` is -1 in test, allowed: a value with which no reward is below 0, with \
            learner.objective.advantage = maxrl",
        ),
        (
            "[shaping]\noverlong_buffer_tokens = 8\n[learner.objective]\nadvantage = \"maxrl\"",
            "`shaping.overlong_penalty` is 1 in defaults, allowed: a value with which no reward is below 0",
        ),
        (
            "[learner.objective]\nadvantage = \"gdpo\"",
            "`learner.objective.advantage` is \"gdpo\" in test, allowed: another one where the reward has a single \
            component",
        ),
        (
            "[learner.objective]\naggregation = \"luspo\"",
            "`learner.objective.policy` is 'ppo' in defaults, allowed: gspo with aggregation = luspo",
        ),
        (
            "[data.word_problems]\ndifficulty = \"hard\"",
            "`data.word_problems.difficulty` is set in test, allowed: absent without data.kind = \"word-problems\"",
        ),
    ] {
        let error = loaded(text).unwrap_err();
        assert!(error.starts_with(words), "{text}: {error}");
    }
    for text in [
        "[shaping]\nweights = { format = 0.2 }\n[learner.objective]\nadvantage = \"gdpo\"",
        "[learner.objective]\nadvantage = \"maxrl\"",
        "[learner.objective]\naggregation = \"luspo\"\npolicy = \"gspo\"",
        "[learner.objective]\naggregation = \"sequence\"\npolicy = \"sapo\"",
    ] {
        assert!(loaded(text).is_ok(), "{text}: {:?}", loaded(text).err());
    }
}

#[test]
fn smollm2_distill_differs_from_smollm2_in_the_teacher_and_the_evaluations_alone() {
    let mut recipe = built_in(&["smollm2-distill"]);
    let teacher = recipe.learner.distillation.take().unwrap();
    assert!(teacher.is_alone() && teacher.teacher.ends_with("smollm2-teacher"));
    recipe.evaluation.every = 30;
    assert_eq!(recipe, built_in(&["smollm2"]));
}

#[test]
fn a_teacher_scores_every_group_so_that_dynamic_sampling_is_refused() {
    let teacher = "[learner.distillation]\nteacher = \"folder\"\n";
    let resolved = loaded(teacher).unwrap().resolved().unwrap();
    assert_eq!((resolved.teacher.as_deref(), resolved.learns_from_rewards), (Some("folder".as_ref()), false));
    let error = loaded(&format!("{teacher}[sampling]\ndynamic = true")).unwrap_err();
    assert!(
        error.contains("`sampling.dynamic` is true") && error.contains("false with learner.distillation"),
        "{error}"
    );
    let error = loaded(&format!("{teacher}bound = 0")).unwrap_err();
    assert!(error.contains("`learner.distillation.bound` is 0"), "{error}");
    assert!(loaded(&format!("{teacher}[sampling]\ngroup_size = 1")).is_ok());
    assert!(loaded(&format!("{teacher}reward_weight = 1.0\n[sampling]\ngroup_size = 1")).is_err());
    let plain = loaded("").unwrap().resolved().unwrap();
    assert_eq!((plain.teacher, plain.learns_from_rewards), (None, true));
}

#[test]
fn a_model_that_teaches_itself_has_hints_and_no_folder() {
    let hints = "[learner.distillation]\nhints = true\n";
    let hint = "[data]\nhint = \"A hint: {hint}\"\n";
    assert_eq!(loaded(&format!("{hints}{hint}")).unwrap().resolved().unwrap().teacher, None);
    for (text, words) in [
        (hints.to_owned(), "`data.hint` is absent"),
        (hint.to_owned(), "absent without learner.distillation.hints = true"),
        (format!("{hints}teacher = \"folder\"\n{hint}"), "`learner.distillation.teacher` is folder"),
        (format!("{hints}{hint}environment = \"calculator\""), "absent with an environment"),
        (format!("{hints}[data]\nhint = \"none\""), "a text with {hint}"),
    ] {
        let error = loaded(&text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn smollm2_asks_seven_kinds_of_problems_and_its_steps_reward_bare_answers() {
    let plain = built_in(&["smollm2"]);
    let data = plain.data.built_in(plain.run.seed, plain.evaluation.problems).unwrap();
    assert_eq!((data.held_out.len(), data.sources.len()), (1_000, 7));
    assert!(plain.data.suffix.ends_with("\\boxed{}."), "{}", plain.data.suffix);
    let steps = built_in(&["smollm2-steps"]);
    assert_eq!(steps.model.path, plain.model.path);
    assert!(steps.shaping.weights["bare"] > 0.0 && !plain.shaping.weights.contains_key("bare"));
}

#[test]
fn what_a_resumed_run_may_change_is_not_its_identity() {
    let identity = |text: &str| loaded(text).unwrap().resolved().unwrap().identity;
    let base = identity("");
    assert_eq!(base, identity("[run]\nsteps = 500\n[checkpoint]\nevery = 3\n[reward]\nthreads = 1"));
    for other in ["[learner.optimizer]\nlearning_rate = 0.1", "[model]\npath = \"x\"", "[sampling]\ntop_k = 3"] {
        assert_ne!(base, identity(other), "{other}");
    }
}

#[tokio::test]
async fn a_fork_keeps_the_fresh_model_that_its_kl_term_refers_to_whoever_starts_it() {
    let runs = tempfile::tempdir().unwrap();
    let old = runs.path().join("old");
    std::fs::create_dir(&old).unwrap();
    std::fs::write(old.join("config.toml"), loaded("[run]\nname = \"old\"\nseed = 1").unwrap().to_toml().unwrap())
        .unwrap();
    let settings = OrchestratorSettings { runs: runs.path().to_owned(), ..OrchestratorSettings::default() };
    let service = OrchestratorService::new(settings, std::sync::Arc::new(LayeredRecipes), Drain::new());
    let refused = async |overrides: &[&str]| {
        let fork = Configuration::Fork(ForkPoint { run_id: "old".to_owned(), step: 1 });
        let request = StartRunRequest {
            run_id: "new".to_owned(),
            configuration: Some(fork),
            overrides: overrides.iter().map(|&set| set.to_owned()).collect(),
            ..StartRunRequest::default()
        };
        service.start(request).await.unwrap_err().to_string()
    };
    let error = refused(&["run.seed=2", "learner.objective.kl_coefficient=0.1"]).await;
    assert!(error.contains("run.seed is 2, allowed: 1 with learner.objective.kl_coefficient"), "{error}");
    for passes in [&["run.seed=2"][..], &["learner.objective.kl_coefficient=0.1"]] {
        let error = refused(passes).await;
        assert!(
            !error.contains("kl_coefficient"),
            "there is no run in the directory, so something else is refused: {error}"
        );
    }
}
