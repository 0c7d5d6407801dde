//! Episodes with several turns through the whole program: a tiny model, the calculator and a game.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use evenkeel_run::read_rollouts;
use serde_json::{Value, json};

use crate::support::{
    Process, count_lines, determined_head, evenkeel, lines, resume, succeed, train_recipe, wait_for, written_model,
};

/// Says who spoke, names the tools, and ends every turn with `<eos>`.
const TEMPLATE: &str = "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}\
    {% for m in messages %}{{ m.role }}\n{{ m.content }}\
    {% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<eos>\n{% endfor %}\
    {% if add_generation_prompt %}assistant\n{% endif %}";

pub(crate) fn call(name: &str, arguments: &str) -> String {
    format!("<tool_call>{{\"name\": \"{name}\", \"arguments\": {{{arguments}}}}}</tool_call>")
}

/// Small sums with the calculator, of which some are answered at once, and games with nine numbers.
fn rows(path: &Path) {
    let mut rows = String::new();
    for n in 0..24_u32 {
        let a = 1 + n % 4;
        let b = 1 + n / 6;
        let demonstration = match n % 2 {
            0 => call("calculator", &format!("\"expression\": \"{a}+{b}\"")),
            _ => format!("\\boxed{{{}}}", a + b),
        };
        let sum = json!({"prompt": format!("{n}: {a}+{b}="), "answer": a + b, "environment": "calculator", "demonstration": demonstration});
        let number = 1 + n % 9;
        let game = json!({
            "prompt": format!("game {n}"), "answer": number, "low": 1, "high": 9, "environment": "guess-number",
            "demonstration": call("guess", &format!("\"number\": {}", 1 + n * 5 % 9)),
        });
        writeln!(rows, "{sum}\n{game}").unwrap();
    }
    std::fs::write(path, rows).unwrap();
}

/// A tiny model with a chat template, in `model` of a folder.
pub(crate) fn model(folder: &Path) -> PathBuf {
    let model = written_model(folder);
    std::fs::write(model.join("chat_template.jinja"), TEMPLATE).unwrap();
    let config = model.join("config.json");
    let mut keys: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    keys["max_position_embeddings"] = 640.into();
    std::fs::write(&config, keys.to_string()).unwrap();
    model
}

/// A recipe in a folder, with the model that it names, in `model`.
pub(crate) fn recipe(folder: &Path) -> PathBuf {
    let model = model(folder);
    let data = folder.join("rows.jsonl");
    let path = folder.join("episodes.toml");
    rows(&data);
    let text = format!(
        "[run]\nseed = 3\nsteps = 6\n[model]\npath = {model:?}\n[data]\nfiles = [{data:?}]\n\
         environments = [\"calculator\", \"guess-number\"]\n\
         [sampling]\nprompts_per_step = 4\ngroup_size = 8\nmax_tokens = 320\n[turns]\nmax_turns = 4\n\
         max_turn_tokens = 90\n\
         [warm_start]\nsteps = 80\nexamples_per_step = 16\n[evaluation]\nproblems = 4\n[checkpoint]\nevery = 2\n\
         [learner.compute]\nthreads = 2\n[learner.optimizer]\nlearning_rate = 1.5e-4\n[learner.supervised]\n\
         learning_rate = 2e-3\ntotal_updates = 80\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_run_with_tools_that_is_killed_and_resumed_has_the_bits_of_one_that_was_not() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = recipe(dir.path());
    let whole = dir.path().join("whole");
    let killed = dir.path().join("killed");
    succeed(train_recipe(&recipe, &whole));
    let mut audit = evenkeel(&["check"]);
    audit.arg(&whole);
    // The learner counts what was sent, added tokens included.
    succeed(audit);
    let process = Process::start(train_recipe(&recipe, &killed));
    wait_for("three steps", || count_lines(&killed.join("metrics.jsonl")) >= 3);
    process.kill();
    succeed(resume(&killed));
    assert_eq!(lines(&killed), lines(&whole));
    assert_eq!(determined_head(&killed), determined_head(&whole));

    let rollouts: Vec<_> = (1..=6).flat_map(|step| read_rollouts(&whole, step).unwrap()).collect();
    assert_eq!(rollouts.len(), 6 * 32);
    assert!(rollouts.iter().all(|rollout| rollout.reward.is_some()), "no episode is invalid");
    let turns =
        |role: &str| rollouts.iter().flat_map(|rollout| &rollout.turns).filter(|turn| turn.role == role).count();
    assert!(turns("tool") > 20, "{} results of tools", turns("tool"));
    for rollout in &rollouts {
        let sampled: u32 = rollout.turns.iter().filter(|turn| turn.trained).map(|turn| turn.tokens).sum();
        assert_eq!(sampled, rollout.tokens);
        let segments: u32 = rollout.segments.iter().filter(|part| part.version.is_some()).map(|part| part.tokens).sum();
        assert_eq!(segments, rollout.tokens, "what was sampled is what is trained on");
        assert!(rollout.turns.iter().filter(|turn| turn.trained).count() <= 4);
    }

    let mut show = evenkeel(&["show"]);
    show.arg(&whole);
    let shown = String::from_utf8(succeed(show).stdout).unwrap();
    assert!(shown.contains("tool · ") && shown.contains(" tokens, added\n"), "evaluations are conversations: {shown}");
    // There is nothing left to do, and so nothing to say of weights that have not moved since.
    let said = succeed(resume(&whole)).stderr;
    assert!(!String::from_utf8_lossy(&said).contains("engine weights: "), "{}", String::from_utf8_lossy(&said));
    let mut show = evenkeel(&["show", "--train"]);
    show.arg(&whole);
    let shown = String::from_utf8(succeed(show).stdout).unwrap();
    assert!(shown.contains("assistant · ") && shown.contains("added, not trained on"), "{shown}");
    let report = std::fs::read_to_string(whole.join("report.html")).unwrap();
    assert!(report.contains("assistant · "), "the report has the turns of episodes");
}
