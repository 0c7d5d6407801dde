#!/usr/bin/env python3
"""Writes dashboards/*.json for Grafana, in its classic model, from the panels below. Run it after a change.

    python3 deploy/observe/dashboards.py            writes them
    python3 deploy/observe/dashboards.py --check    fails where a file differs

Every panel says in its description what to do when it looks wrong. One that not every run can fill ends in "Only with ...".
"""

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "evenkeel-prometheus"}
# Panels on a row of the grid, which is 24 wide.
WIDTH, HEIGHT = 8, 8
RATE = "$__rate_interval"


def panel(title, queries, help, unit="short", kind="timeseries", stack=False, only=""):
    """A panel of queries, each an expression and its legend."""
    return {"title": title, "queries": queries, "help": help, "unit": unit, "kind": kind, "stack": stack, "only": only}


def quantile(q, series, by, where=""):
    return f"histogram_quantile({q}, sum by ({', '.join(['le', *by])}) (rate({series}_bucket{where}[{RATE}])))"


def share(part, whole):
    """The share of a rate, 0 where nothing happens."""
    return f"sum(rate({part}[{RATE}])) / (sum(rate({whole}[{RATE}])) > 0) or vector(0)"


STEP = [
    panel("State of the run", [("evenkeel_run_state == 1", "{{state}}")],
          "`waiting`: the panel beside it says for what. `failed` or `stopped`: the run's log and summary say why; resume it.", kind="stat"),
    panel("Steps", [('evenkeel_run_steps_done{kind="train"}', "done"), ("evenkeel_run_steps_planned", "planned")],
          "Steps that are done and planned. If it stands still, see what the step waits for.", kind="stat"),
    panel("Time since the last line", [("time() - max(evenkeel_run_last_line_timestamp_seconds)", "since the last line")],
          "Much longer than a step takes: look for what is not zero in `The run waits for`, then at samples in flight.", "s", "stat"),
    panel("The run waits for", [("evenkeel_run_waiting", "{{service}}")],
          "1 is an outage: look at that service's log. The run ends after `services.outage_timeout`.", kind="stat"),
    panel("Parts of the newest step", [('evenkeel_run_step_part_seconds{part!~"step|proof"}', "{{part}}")],
          "The largest part is what the step waits for. generation: more or faster engines. reward: more reward workers. "
          "update_actor: a faster learner, or larger micro-batches. update_weights: a faster disk between learner and engines.",
          "s", stack=True),
    panel("Share of the time by part",
          [(f'sum by (phase) (rate(evenkeel_run_phase_seconds_sum{{phase=~"generation|reward|update_actor|update_weights|evaluation|checkpoint"}}[{RATE}]))',
            "{{phase}}")],
          "Seconds in each part per second, over many steps. Evaluations or checkpoints that take a tenth or more are too frequent.",
          "percentunit", stack=True),
    panel("Samples in flight", [("evenkeel_run_samples_in_flight", "{{stage}}")],
          "Many queued: `services.max_rollouts` or the engines limit. Many verifying: add reward workers. A few that stay in generation are the longest answers.",
          stack=True),
    panel("Progress of the step",
          [("evenkeel_run_step_samples", "samples, {{state}}"), ("evenkeel_run_step_groups_trained", "groups trained")],
          "Groups that train while samples are still drawn cost no time. If groups lag behind finished samples, the learner is the slow part."),
    panel("Time of a sample in generation",
          [(quantile(q, "evenkeel_dispatch_seconds", ["items"], '{items="generate"}'), f"{int(q * 100)}th percentile") for q in (0.5, 0.95, 0.99)],
          "A 99th percentile far above the median is the tail that each step waits for: cap `sampling.max_tokens`, or shape overlong answers.", "s"),
    panel("Time of a sample in verification",
          [(quantile(q, "evenkeel_dispatch_seconds", ["items"], '{items="verify"}'), f"{int(q * 100)}th percentile") for q in (0.5, 0.95, 0.99)],
          "If it grows with the number of samples, workers queue: `docker compose up --scale reward=N`. If not, programs or formulas are slow: see verdict times.", "s"),
    panel("Wait in the queue of a service",
          [(quantile(0.95, "evenkeel_item_queue_seconds", ["items"]), "{{items}}, 95th percentile")],
          "Time before an item is begun. Above the time of its work the service is the bottleneck: scale it.", "s"),
    panel("Waiting for an engine",
          [("evenkeel_generation_waiting_samples", "waiting for an engine"), ("sum(evenkeel_engine_waiting_requests)", "waiting in engines"),
           ("sum(evenkeel_engine_running_requests)", "running in engines")],
          "Samples wait while engines have room: raise `generation.max_in_flight`. Samples wait in engines: the cache is full, or add engines."),
    panel("Learner: parts of a step",
          [(f'sum by (phase) (rate(evenkeel_training_step_seconds_sum{{phase!="total"}}[{RATE}]))', "{{phase}}")],
          "`waiting`: for groups, so generation or reward is slow. `scoring`: old log-probabilities, which `old_logp = \"rollout\"` saves. "
          "`gradient`: compute. `optimizer`: memory bandwidth.", "percentunit", stack=True),
    panel("Weight updates",
          [("evenkeel_publish_seconds_sum / (evenkeel_publish_seconds_count > 0)", "learner writes, mean"),
           ("sum(evenkeel_weight_update_load_seconds_sum) / (sum(evenkeel_weight_update_load_seconds_count) > 0)", "an engine loads, mean"),
           ("sum(evenkeel_weight_update_paused_seconds_sum) / (sum(evenkeel_weight_update_paused_seconds_count) > 0)", "an engine is paused, mean")],
          "Put the weights on a memory disk that learner and engines share if writing or loading takes seconds.", "s"),
    panel("Groups by what became of them", [(f"sum by (result) (rate(evenkeel_run_groups_total[{RATE}]))", "{{result}}")],
          "With dynamic sampling, many dropped groups are time spent for nothing: take problems of a fitting difficulty.", "cps", stack=True),
    panel("Retries of the run", [(f"sum by (service) (rate(evenkeel_run_retries_total[{RATE}]))", "{{service}}")],
          "Retries that go on for minutes: look at the log of that service, and at its process under Health.", "cps"),
]

HEALTH = [
    panel("Processes that answer", [('up{job=~"orchestrator|generation|reward|gateway|learner|engine"}', "{{job}} {{instance}}")],
          "0: the process is gone or hangs. Its container's log has the last words; others wait for it and go on.", kind="stat"),
    panel("CPU", [(f"rate(process_cpu_seconds_total[{RATE}])", "{{job}} {{instance}}")],
          "Cores in use. A learner or embedded engine below its threads waits for others: see what the step waits for.", "cores"),
    panel("Memory", [("process_resident_memory_bytes", "{{job}} {{instance}}")],
          "It is steady after the first steps. One that grows for hours is a leak: note its series and restart that service, which loses no work.", "bytes"),
    panel("File descriptors in use", [("process_open_fds / process_max_fds", "{{job}} {{instance}}")],
          "Above four fifths, raise `ulimit -n`, or lower `server.max_connections`.", "percentunit"),
    panel("State of the engines", [("sum by (state) (evenkeel_engine_state)", "{{state}}")],
          "circuit_open: it fails, see its log. stale: it lacks the current weights, see weight updates. suspect: it was just readmitted.", stack=True),
    panel("Tokens of each engine", [("evenkeel_engine_tokens_per_second", "{{engine}}")],
          "One engine far below its equals: another program on its GPU, heat, or a slow host.", "cps"),
    panel("Cache of each engine", [("evenkeel_engine_cache_usage_ratio", "{{engine}}")],
          "Near 1 with waiting requests or preemptions: fewer sequences at once, shorter answers, or more memory for the cache.", "percentunit"),
    panel("Preemptions in the engines", [(f"sum by (instance) (rate(vllm:num_preemptions_total[{RATE}]))", "{{instance}}")],
          "Work that is done twice. Lower `generation.max_in_flight` or the engines' own limit of sequences.", "cps"),
    panel("Tokens: generated and trained",
          [(f"sum(rate(evenkeel_rollout_tokens_total[{RATE}]))", "generated"),
           (f'sum(rate(evenkeel_training_tokens_total{{tokens="trainable"}}[{RATE}]))', "trained")],
          "Generation and training alternate in a synchronous run. Both low: something else takes the time.", "cps"),
    panel("Samples by how they ended", [(f"sum by (finish_reason) (rate(evenkeel_rollouts_total[{RATE}]))", "{{finish_reason}}")],
          "`length`: answers reach the limit. `deadline`, `failed`: engines are too slow or fail, see their failures.", "cps", stack=True),
    panel("Failures of engines",
          [(f"sum by (kind) (rate(evenkeel_sample_retries_total[{RATE}]))", "sample begun again: {{kind}}"),
           (f'sum(rate(evenkeel_weight_updates_total{{outcome="failed"}}[{RATE}])) or vector(0)', "weights not updated")],
          "transport, timeout: the engine or its network. invalid_response: its version does not do what training needs. The engine's log says more.", "cps"),
    panel("Verdicts", [(f"sum by (task, outcome) (rate(evenkeel_verdicts_total[{RATE}]))", "{{task}} {{outcome}}")],
          "`invalid` is no verdict at all: see the reasons in the run's `rollout/outcome/invalid` and the log of the reward workers.", "cps", stack=True),
    panel("Time of a verdict", [(quantile(0.95, "evenkeel_verdict_seconds", ["task"]), "{{task}}, 95th percentile")],
          "Programs take as long as their tests; formulas take milliseconds. If formulas are slow, the worker lacks CPU time.", "s"),
    panel("Sandbox: programs and processes",
          [("sum(evenkeel_sandbox_programs)", "programs"), ("sum(evenkeel_sandbox_worker_processes)", "processes")],
          "Programs far above processes wait: more threads (`reward.code.threads`) or more workers.", only="programs"),
    panel("Sandbox: lost processes", [(f"sum(rate(evenkeel_sandbox_process_losses_total[{RATE}]))", "lost")],
          "Processes that were killed: the machine is short of memory, or somebody kills them. Each program is tried again once.", "cps", only="programs"),
    panel("Queues", [("sum by (job, queue) (evenkeel_queue_items)", "{{job}} {{queue}}")],
          "A queue at its limit refuses items, which clients send elsewhere: add workers, or raise the limit.", stack=True),
    panel("Refused items", [(f"sum by (queue, unit) (rate(evenkeel_queue_refused_total[{RATE}]))", "{{queue}}, out of {{unit}}")],
          "Some are normal while a client learns what a worker takes. If they go on, add workers.", "cps"),
    panel("Workers and items that wait for one",
          [("evenkeel_dispatch_workers", "{{job}}: workers to {{items}}"), ("evenkeel_dispatch_queued_items", "{{job}}: waiting to {{items}}")],
          "Workers fewer than replicas: an endpoint must be `dns://` to reach all of them."),
    panel("Lost streams and repeated items",
          [(f"sum by (items) (rate(evenkeel_dispatch_links_lost_total[{RATE}]))", "streams lost, {{items}}"),
           (f"sum by (items) (rate(evenkeel_dispatch_retries_total[{RATE}]))", "items again, {{items}}")],
          "A worker that dies again and again may have an item that kills it: its log names the item.", "cps"),
    panel("What the learner does", [("evenkeel_learner_state", "{{state}}")],
          "idle all the time: it waits for the run. writing for long: the disk is slow.", stack=True),
    panel("Room on the learner's disks", [("evenkeel_learner_disk_free_bytes", "{{folder}}")],
          "A checkpoint is three times the weights in fp32. Lower `checkpoint.keep`, or free the disk: a full one pauses the run.", "bytes"),
    panel("Free memory of the learner's GPU", [("evenkeel_learner_device_free_bytes", "{{instance}}")],
          "After a step. Near 0: fewer `micro_batch_tokens`, or recompute activations; `evenkeel gpu plan` says what fits.", "bytes", only="a GPU"),
    panel("Peak of the learner's GPU memory by its plan",
          [("evenkeel_learner_device_peak_bytes / evenkeel_learner_device_planned_bytes", "{{instance}}")],
          "Below 1 where sequences are shorter than the longest. Above 1.1 the plan is wrong: lower `micro_batch_tokens` before memory is refused.",
          "percentunit", only="a GPU"),
    panel("Calls that failed",
          [(f'sum by (job, code) (rate(evenkeel_grpc_calls_total{{code!~"Ok|Cancelled"}}[{RATE}])) or vector(0)', "{{job}} {{code}}")],
          "Unavailable: a service restarts. Unauthenticated, PermissionDenied: somebody without a right to call. Internal: a defect, see the log.", "cps"),
    panel("Connections", [("evenkeel_connections", "{{job}} {{instance}}")],
          "Near `server.max_connections`: idle ones are closed for new ones. Many from one host: see its programs."),
    panel("Connections that were closed or turned away",
          [(f"sum by (job, why) (rate(evenkeel_connections_closed_total[{RATE}]))", "{{job}}: {{why}}"),
           (f"sum by (job) (rate(evenkeel_connections_full_total[{RATE}]))", "{{job}}: full"),
           (f"sum by (job) (rate(evenkeel_grpc_unauthenticated_total[{RATE}]))", "{{job}}: no valid token")],
          "Scanners and old clients show here. Many without a valid token: a rotated token that a client lacks, or an attack.", "cps"),
]

TRAINING = [
    panel("Reward", [("evenkeel_run_reward", "{{reward}}")],
          "It rises. Flat near 0: problems are too hard, or answers cannot be parsed. Sudden jump: the model found a way around the verifier; read samples."),
    panel("Accuracy in evaluations", [("evenkeel_run_evaluation_accuracy_ratio", "{{benchmark}} {{metric}}")],
          "It follows the reward. If the reward rises and this does not, the run overfits or the reward is gamed.", "percentunit"),
    panel("Parts of the reward", [("evenkeel_run_reward_component", "{{component}}")],
          "If format or length rises alone, their weights are too large beside correctness."),
    panel("Length of right and wrong answers", [("evenkeel_run_response_tokens", "{{answers}}")],
          "Wrong answers that grow while right ones do not: the aggregation rewards length. `balanced` aggregation removes that pull."),
    panel("Longest answer and truncation", [("evenkeel_run_longest_response_tokens", "longest")],
          "At the limit with a rising share of truncated answers: raise `sampling.max_tokens`, or shape overlong answers."),
    panel("Share of truncated answers", [("evenkeel_run_truncated_ratio", "truncated")],
          "Above a tenth, rewards say more about the limit than about answers.", "percentunit"),
    panel("Pull of either side", [("evenkeel_run_pull", "{{advantage}}")],
          "Equal with opposite signs under balanced aggregation. If one side outweighs the other, lengths decide the update: see the aggregation."),
    panel("Length gap", [("evenkeel_run_length_gap_tokens", "wrong minus right"), ("evenkeel_run_longest_response_tokens - ignoring (answers) evenkeel_run_response_tokens{answers=\"all\"}", "longest minus mean")],
          "A gap that widens over many steps with token aggregation is the length bias that the paper describes."),
    panel("Variation of lengths", [("evenkeel_run_length_variation_ratio", "within a group")],
          "The larger it is, the more the choice of aggregation matters.", "percentunit"),
    panel("Entropy", [("evenkeel_run_entropy_nats", "entropy")],
          "A fall to 0 ends exploration: raise the upper clip, the temperature or the entropy coefficient. A rise without end: lower the learning rate."),
    panel("Agreement of engine and learner", [("evenkeel_run_logp_gap_nats", "mean gap")],
          "Below 0.01 in fp32, a few hundredths in bf16. A jump: an engine has other weights or settings; prove the weights (`proof`)."),
    panel("Correction for their difference",
          [("evenkeel_run_correction_weight", "mean factor"), ("evenkeel_run_correction_bounded_ratio", "share bounded")],
          "A factor far from 1 or many bounded tokens: samples are not from the policy that is trained.", only="a correction"),
    panel("Gap when weights were verified", [("evenkeel_run_proof_gap_nats", "{{statistic}}")],
          "What the proof refuses ends the run. A gap that grows: type of weights or engine settings differ."),
    panel("Share of clipped tokens", [("evenkeel_run_clipped_ratio", "{{bound}}")],
          "0 with one update a batch. Above a few percent, the batch is too old or the learning rate too high.", "percentunit"),
    panel("Divergence and largest ratio", [("evenkeel_run_kl_nats", "divergence"), ("evenkeel_run_policy_ratio_max", "largest ratio")],
          "Spikes go before a collapse: lower the learning rate or the number of updates for each batch."),
    panel("Gradient norm", [("evenkeel_run_gradient_norm", "before clipping")],
          "Spikes above `max_grad_norm` are clipped. If it stays above, the learning rate is too high or a batch is broken."),
    panel("Norm of the update", [("evenkeel_run_update_norm", "added to the weights")],
          "What the optimizer changed, weight decay included. Absent with a learner on a GPU."),
    panel("Learning rate", [("evenkeel_run_learning_rate", "rate")],
          "As the schedule says. Another value: the run was resumed with other settings.", "sci"),
    panel("Loss", [("evenkeel_run_loss", "{{kind}}")],
          "The loss of GRPO says little. That of the warm start falls; if not, the demonstrations do not fit the chat template."),
    panel("Updates that were skipped", [(f"sum by (kind, outcome) (increase(evenkeel_training_steps_total[{RATE}]))", "{{kind}} {{outcome}}")],
          "`skipped`: a loss or gradient was not finite; the batch is in the folder `skipped`. Ten in a row end the run.", stack=True),
    panel("Groups without a signal", [("evenkeel_run_uniform_groups", "all {{answers}}")],
          "All right: problems are too easy. All wrong: too hard. Both are sampled for nothing; dynamic sampling replaces them.", stack=True),
    panel("Samples without a verdict",
          [(share('evenkeel_run_samples_total{status=~"invalid|failed"}', "evenkeel_run_samples_total"), "invalid or failed"),
           (share('evenkeel_run_samples_total{status="late"}', "evenkeel_run_samples_total"), "late")],
          "Late samples are the long ones: leaving them out biases the run, which ends above `services.max_late_share`. Give them more time.", "percentunit"),
    panel("Throughput", [("evenkeel_run_throughput_tokens_per_second", "tokens per second")],
          "It falls as answers grow. A fall without that: see what the step waits for.", "cps"),
    panel("Prompts tried for a step", [("evenkeel_run_prompts_tried", "prompts")],
          "Above the prompts of a step, dynamic sampling replaces groups without a signal. At its limit, steps are filled up with them."),
    panel("Epoch and version", [("evenkeel_run_epoch", "epoch"), ("evenkeel_run_policy_version", "version of the weights")],
          "A version that falls is a return to a checkpoint: the learner had lost its state."),
]

DASHBOARDS = {
    "step": ("Evenkeel: what the step waits for", "Where the time of a step goes, and what it waits for now.", STEP),
    "health": ("Evenkeel: health and capacity", "Processes, engines, verifiers, queues and disks.", HEALTH),
    "training": ("Evenkeel: training", "What the model learns: reward, lengths, pulls, entropy, agreement.", TRAINING),
}


def written(number, spec):
    targets = [
        {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expression, "legendFormat": legend, "editorMode": "code",
         "range": spec["kind"] != "stat", "instant": spec["kind"] == "stat"}
        for index, (expression, legend) in enumerate(spec["queries"])
    ]
    column, row = number % (24 // WIDTH), number // (24 // WIDTH)
    custom = {}
    if spec["kind"] == "timeseries":
        custom = {"lineWidth": 1, "fillOpacity": 25 if spec["stack"] else 0, "spanNulls": False, "showPoints": "auto",
                  "stacking": {"mode": "normal" if spec["stack"] else "none", "group": "A"}}
        options = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}, "tooltip": {"mode": "multi", "sort": "desc"}}
    else:
        options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "textMode": "value_and_name",
                   "colorMode": "none", "graphMode": "none", "orientation": "auto"}
    description = spec["help"] + (f" Only with {spec['only']}." if spec["only"] else "")
    return {
        "id": number + 1, "type": spec["kind"], "title": spec["title"], "description": description, "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": "short" if spec["unit"] == "cores" else spec["unit"], "custom": custom}, "overrides": []},
        "options": options, "targets": targets,
    }


def dashboard(uid, title, description, panels):
    return {
        "uid": f"evenkeel-{uid}", "title": title, "description": description, "tags": ["evenkeel"], "schemaVersion": 41, "version": 1,
        "editable": True, "graphTooltip": 1, "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
        "annotations": {"list": []}, "templating": {"list": []},
        "links": [{"type": "dashboards", "title": "Evenkeel", "tags": ["evenkeel"], "asDropdown": False, "includeVars": False, "keepTime": True}],
        "panels": [written(number, spec) for number, spec in enumerate(panels)],
    }


def main():
    differing = []
    for uid, (title, description, panels) in DASHBOARDS.items():
        path = FOLDER / f"{uid}.json"
        text = json.dumps(dashboard(uid, title, description, panels), indent=1, ensure_ascii=False) + "\n"
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text() != text:
                differing.append(path.name)
        else:
            path.write_text(text)
    if differing:
        sys.exit(f"{', '.join(differing)}: differ from dashboards.py, which writes them")


if __name__ == "__main__":
    main()
