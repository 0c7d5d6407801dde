//! Metrics of time and memory.

use super::{EVALUATION, rows};
use crate::metric::row::{LineKind, Metric, Unit};
use crate::metric::{Gauge, Shown};

const PART_GAUGE: Gauge = Gauge::by(
    "evenkeel_run_step_part_seconds",
    &["part"],
    "parts of the newest step, one after the other, as in `timing_s/*`",
);
const THROUGHPUT_GAUGE: Gauge = Gauge::of_one(
    "evenkeel_run_throughput_tokens_per_second",
    "tokens of all samples with their prompts, per second of the step",
);

rows! {
    GENERATION_TIME = Metric::count("timing_s/gen", Unit::Seconds, "until the last rollout of the step")
        .varies()
        .shown(&[Shown::under(&PART_GAUGE, &["generation"])]);
    REWARD_TIME = Metric::count("timing_s/reward", Unit::Seconds, "from there until the last verdict")
        .varies()
        .shown(&[Shown::under(&PART_GAUGE, &["reward"])]);
    UPDATE_TIME = Metric::count("timing_s/update_actor", Unit::Seconds, "from there until the learner's report")
        .varies()
        .shown(&[Shown::under(&PART_GAUGE, &["update_actor"])]);
    WEIGHTS_TIME =
        Metric::count("timing_s/update_weights", Unit::Seconds, "from there until every engine has the weights")
            .varies()
            .shown(&[Shown::under(&PART_GAUGE, &["update_weights"])]);
    PROOF_TIME = Metric::count("timing_s/proof", Unit::Seconds, "from there until they are verified")
        .varies()
        .only("the weights were verified after the step")
        .shown(&[Shown::under(&PART_GAUGE, &["proof"])]);
    STEP_TIME = Metric::count("timing_s/step", Unit::Seconds, "the whole step")
        .titled("step time")
        .varies()
        .of_lines(&[LineKind::Train, LineKind::WarmStart])
        .shown(&[Shown::under(&PART_GAUGE, &["step"])]);
    OPTIMIZER_TIME = Metric::count(
        "timing_s/optimizer",
        Unit::Seconds,
        "what clipping and the optimizer's updates took, the last one within `update_actor`",
    )
    .varies();
    PROBE_TIME = Metric::count(
        "timing_s/probe_gradients",
        Unit::Seconds,
        "within `update_actor`: what the gradients of every rule took",
    )
    .varies()
    .only("the step is probed");
    AUDIT_COMPUTING = Metric::count(
        "timing_s/sampler_audit_compute",
        Unit::Seconds,
        "how long the learner computed to score the chosen samples, within `timing_s/gen` as far as others were still \
        sampled, else within `timing_s/update_actor`",
    )
    .varies()
    .only("samples are audited");
    AUDIT_WAITING = Metric::count(
        "timing_s/sampler_audit_wait",
        Unit::Seconds,
        "how long the audit waited for these scores besides: until the learner had done what came first, and for \
        messages. Sampling and gradients go on meanwhile, up to the first update",
    )
    .varies()
    .only("samples are audited");
    EVALUATION_TIME =
        Metric::count("timing_s/testing", Unit::Seconds, "the whole evaluation").of_lines(EVALUATION).varies();

    TOTAL_TOKENS = Metric::count("perf/total_num_tokens", Unit::Tokens, "tokens of all samples, each with its prompt");
    TIME_PER_STEP = Metric::count("perf/time_per_step", Unit::Seconds, "the whole step, under verl's name").varies();
    THROUGHPUT = Metric::value(
        "perf/throughput",
        Unit::TokensPerSecond,
        "tokens of all samples with their prompts, per second of the step",
    )
    .titled("throughput")
    .varies()
    .shown(&[Shown::by(&THROUGHPUT_GAUGE)]);
    PEAK_MEMORY = Metric::value(
        "perf/max_memory_reserved_gb",
        Unit::GiB,
        "the most that the learner's pool has held of a GPU's memory ([gpu.md](gpu.md#measured-beside-planned))",
    )
    .only("the learner computes on a GPU")
    .varies();
}
