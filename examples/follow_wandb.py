#!/usr/bin/env python3
"""Sends the metrics of a run to Weights & Biases while it goes on: pip install wandb.

    python examples/follow_wandb.py runs/NAME [PROJECT]

It ends with the run. Started again, it goes on with W&B's run of the same name. Steps that a run repeats from a checkpoint are sent again.
"""
import json, pathlib, sys, time
import wandb

folder = pathlib.Path(sys.argv[1])
run = wandb.init(project=sys.argv[2] if len(sys.argv) > 2 else "evenkeel", id=folder.name, name=folder.name, resume="allow")
run.define_metric("*", step_metric="step")
sent = {name: run.summary.get(f"lines/{name}", 0) for name in ("warm_start", "metrics", "evaluation")}
done = False
while not done:
    # Looked at before the lines: those that the run wrote last are read once more.
    summary = folder / "summary.json"
    done = summary.exists() and json.loads(summary.read_text())["state"] in ("completed", "stopped", "failed")
    for name in sent:
        path = folder / f"{name}.jsonl"
        text = path.read_text() if path.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be half written
        for number, line in enumerate(map(json.loads, lines[sent[name]:]), sent[name] + 1):
            values = {key: value for key, value in line.items() if isinstance(value, (int, float))}
            run.log({**values, f"lines/{name}": number})
        sent[name] = len(lines)
    time.sleep(0 if done else 2)
run.finish()
