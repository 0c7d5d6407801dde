//! What others make of the files of a run: ignored unless a Python with their packages is named.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::path::Path;
use std::process::Command;

use crate::support::{evenkeel, succeed, train};

/// Runs a script with arguments; returns what it printed.
fn python(variable: &str, script: &str, arguments: &[&Path]) -> String {
    let python = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set"));
    let mut command = Command::new(python);
    command.arg("-c").arg(script).args(arguments);
    String::from_utf8(succeed(command).stdout).unwrap()
}

/// A run of three steps.
fn run(out: &Path) {
    let mut command = train(out);
    command.args(["--steps", "3", "--set", "warm_start.steps=2"]);
    succeed(command);
}

#[test]
#[ignore = "EVENKEEL_TENSORBOARD_PYTHON must name a Python with the package tensorboard"]
fn tensorboard_reads_the_event_files() {
    const SCRIPT: &str = "
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
shown = {}
for kind in ['warm_start', 'train', 'evaluation']:
    events = EventAccumulator(f'{sys.argv[1]}/tensorboard/{kind}')
    events.Reload()
    shown[kind] = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()['scalars']}
print(json.dumps(shown))
";
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    run(&out);
    let shown: serde_json::Value =
        serde_json::from_str(&python("EVENKEEL_TENSORBOARD_PYTHON", SCRIPT, &[&out])).unwrap();
    let steps = |kind: &str, tag: &str| -> Vec<u64> {
        let events = shown[kind][tag].as_array().unwrap_or_else(|| panic!("{kind} {tag}"));
        events.iter().map(|event| event[0].as_u64().unwrap()).collect()
    };
    assert_eq!(steps("warm_start", "warm_start/loss"), [1, 2]);
    assert_eq!(steps("train", "critic/score/mean"), [1, 2, 3]);
    assert_eq!(steps("evaluation", "val-core/arithmetic/acc/mean@1"), [0, 3]);
}

#[test]
#[ignore = "EVENKEEL_TRANSFORMERS_PYTHON must name a Python with the packages torch and transformers"]
fn transformers_loads_an_exported_model_and_agrees_with_the_engine() {
    const SCRIPT: &str = "
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
config = GenerationConfig.from_pretrained(sys.argv[1])
ids = tokenizer('12+34=', return_tensors='pt')['input_ids']
with torch.no_grad():
    logits = model(ids).logits[0]
scores = torch.log_softmax(logits[:-1], -1).gather(1, ids[0, 1:, None])[:, 0]
print(json.dumps({'ids': ids[0].tolist(), 'scores': scores.tolist(), 'end': config.eos_token_id}))
";
    let dir = tempfile::tempdir().unwrap();
    let [out, to] = ["run", "model"].map(|name| dir.path().join(name));
    run(&out);
    let mut command = evenkeel(&["export"]);
    command.arg(&out).arg("--to").arg(&to).args(["--max-file", "200KiB"]);
    succeed(command);
    let answer: serde_json::Value =
        serde_json::from_str(&python("EVENKEEL_TRANSFORMERS_PYTHON", SCRIPT, &[&to])).unwrap();
    assert_eq!(answer["end"], 1);
    let ids: Vec<u32> = answer["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let scores: Vec<f64> = answer["scores"].as_array().unwrap().iter().map(|score| score.as_f64().unwrap()).collect();
    let learner = evenkeel_learner::Learner::open(&to, evenkeel_learner::TrainingSettings::default()).unwrap();
    let ours = learner.score(&[(&ids[..1], &ids[1..])], 1.0).unwrap().remove(0).logp;
    assert_eq!(ours.len(), scores.len());
    for (ours, theirs) in ours.iter().zip(scores) {
        assert!((f64::from(*ours) - theirs).abs() < 1e-4, "{ours} {theirs}");
    }
}

/// With the lines of docs/results.md.
#[test]
#[ignore = "EVENKEEL_PANDAS_PYTHON must name a Python with the packages pandas, zstandard and duckdb"]
fn pandas_and_duckdb_read_the_samples_of_training_steps() {
    const SCRIPT: &str = "
import json, os, sys
os.chdir(os.path.dirname(sys.argv[1]))
import pandas as pd; df = pd.read_json('run/rollouts/step-2.jsonl.zst', lines=True)
import duckdb; table = duckdb.sql(\"SELECT step, avg(reward), avg(tokens) FROM read_json('run/rollouts/*.jsonl.zst') GROUP BY step ORDER BY step\")
print(json.dumps({'rows': len(df), 'mean': df.reward.mean(), 'columns': list(df.columns), 'steps': table.fetchall()}))
";
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    run(&out);
    let read: serde_json::Value = serde_json::from_str(&python("EVENKEEL_PANDAS_PYTHON", SCRIPT, &[&out])).unwrap();
    assert_eq!(read["rows"], 32);
    assert!(read["columns"].as_array().unwrap().contains(&"advantage".into()), "{read}");
    let steps = read["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &steps[1][0], &steps[1][1]), (3, &2.into(), &read["mean"]));
}

/// `examples/follow_wandb.py` with the package itself, which writes what it would send into a log of LevelDB's format.
#[test]
#[ignore = "EVENKEEL_WANDB_PYTHON must name a Python with the package wandb"]
fn weights_and_biases_gets_every_line_of_a_run_and_none_twice() {
    const SCRIPT: &str = "
import glob, json, os, struct, subprocess, sys
from wandb.proto import wandb_internal_pb2
os.environ['WANDB_MODE'] = 'offline'
os.environ['WANDB_DIR'] = os.path.dirname(sys.argv[1])
subprocess.run([sys.executable, sys.argv[2], sys.argv[1]], check=True, stdout=subprocess.DEVNULL)
data = open(glob.glob(os.environ['WANDB_DIR'] + '/wandb/offline-run-*/*.wandb')[0], 'rb').read()
at, record, rows = 7, b'', []
while at + 7 <= len(data):
    if 32768 - at % 32768 < 7:
        at += 32768 - at % 32768
        continue
    length, kind = struct.unpack('<HB', data[at + 4 : at + 7])
    record = (record if kind in (3, 4) else b'') + data[at + 7 : at + 7 + length]
    at += 7 + length
    if kind in (1, 4):
        message = wandb_internal_pb2.Record.FromString(record)
        if message.WhichOneof('record_type') == 'history':
            rows.append({item.key or '/'.join(item.nested_key): json.loads(item.value_json) for item in message.history.item})
print(json.dumps(rows))
";
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    run(&out);
    let follower = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/follow_wandb.py");
    let sent = python("EVENKEEL_WANDB_PYTHON", SCRIPT, &[&out, &follower]);
    let sent: Vec<serde_json::Value> = serde_json::from_str(sent.trim()).unwrap();
    let steps = |name: &str| -> Vec<u64> {
        sent.iter().filter(|row| row.get(name).is_some()).map(|row| row["step"].as_u64().unwrap()).collect()
    };
    assert_eq!(steps("warm_start/loss"), [1, 2]);
    assert_eq!(steps("critic/score/mean"), [1, 2, 3]);
    assert_eq!(steps("val-core/arithmetic/acc/mean@1"), [0, 3]);
}
