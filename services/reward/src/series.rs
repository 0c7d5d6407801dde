//! Metrics of a reward worker.

use evenkeel_telemetry::{Series, Values};

const TASK: (&str, Values) = ("task", Values::Of(&["math", "code", "custom", "none"]));
const OUTCOME: (&str, Values) =
    ("outcome", Values::Few("outcomes of the protocol: `correct`, `incorrect`, `invalid` and so on"));

/// Metrics of a reward worker, besides those of its server and its item stream.
pub const SERIES: &[Series] = &[
    Series::counter("evenkeel_verdicts_total", "verdicts; `invalid` says nothing about the answer").by(&[
        TASK,
        OUTCOME,
        ("reason", Values::Few("reasons of the verifiers")),
    ]),
    Series::histogram("evenkeel_verdict_seconds", "time of judging alone").by(&[TASK, OUTCOME]),
    Series::counter("evenkeel_unsupported_programs_total", "programs that need what the sandbox does not have"),
    Series::counter("evenkeel_run_code_total", "requests to `/run_code`; `late` says nothing about the program")
        .by(&[("status", Values::Of(&["Success", "Failed", "SandboxError", "invalid", "late"]))])
        .only("programs over HTTP"),
    Series::counter("evenkeel_judge_calls_total", "calls of the judge; `busy` ones are tried again and cost nothing")
        .by(&[("result", Values::Of(&["reply", "timeout", "busy", "refused"]))])
        .only("a judge"),
    Series::counter("evenkeel_judge_tokens_total", "tokens of the judge's prompts and replies, as its endpoint counts")
        .by(&[("of", Values::Of(&["prompts", "replies"]))])
        .only("a judge"),
    Series::counter("evenkeel_judge_recorded_total", "verdicts of the judge that were recorded before").only("a judge"),
    Series::gauge("evenkeel_sandbox_programs", "programs that are queued or running").only("programs"),
    Series::gauge("evenkeel_sandbox_worker_processes", "processes that run programs").only("programs"),
    Series::counter("evenkeel_sandbox_process_starts_total", "worker processes that were started").only("programs"),
    Series::counter("evenkeel_sandbox_process_losses_total", "worker processes that crashed or were killed")
        .only("programs"),
];
