//! Samples and their verdicts.

use super::rows;
use crate::metric::row::{LineKind, Metric, Unit};
use crate::metric::{Gauge, Shown};

const REWARD_GAUGE: Gauge =
    Gauge::by("evenkeel_run_reward", &["reward"], "mean reward of the step's valid samples, before and after shaping");
const COMPONENT_GAUGE: Gauge = Gauge::by_parts(
    "evenkeel_run_reward_component",
    &["component"],
    &["parts of the recipe's reward, and of its verifiers"],
    "mean of a part of the shaped reward, before its weight",
);
const SOURCE_GAUGE: Gauge = Gauge::by_parts(
    "evenkeel_run_source_reward",
    &["source"],
    &["data sources, at most 32"],
    "mean raw reward of a data source",
)
.only("two or more data sources");
const UNIFORM_GAUGE: Gauge =
    Gauge::by("evenkeel_run_uniform_groups", &["answers"], "groups whose samples are all correct, or none of them");
const TRIED_GAUGE: Gauge = Gauge::of_one(
    "evenkeel_run_prompts_tried",
    "prompts that the step sampled; more than it trained on with dynamic sampling",
);
const EPOCH_GAUGE: Gauge = Gauge::of_one("evenkeel_run_epoch", "passes over the data before the step's first prompt");

const CUSTOM: &str = "custom verifiers judge rows";
const SOURCES: &str = "the data has two or more sources";
const OWN_ENVIRONMENTS: &str = "tasks are done in a Python file, an agent or a taskset of your own";
const EPISODES: &str = "tasks are done in an environment";
const DYNAMIC: &str = "`sampling.dynamic` is on";

rows! {
    STEP = Metric::value("training/global_step", Unit::None, "number of the step, as `step` has it, under verl's name");
    EPOCH = Metric::value("training/epoch", Unit::None, "passes over the data before the step's first prompt")
        .shown(&[Shown::by(&EPOCH_GAUGE)]);
    FORKED_AT =
        Metric::value("training/forked_at_step", Unit::None, "the step of the other run after which this one begins")
            .of_lines(&[LineKind::Train, LineKind::Evaluation])
            .only("the run was forked");
    PROMPTS_TRIED = Metric::count("training/prompts_tried", Unit::None, "prompts that the step sampled")
        .shown(&[Shown::by(&TRIED_GAUGE)]);
    DROPPED_GROUPS = Metric::count(
        "training/filter_groups/dropped_groups",
        Unit::None,
        "groups that were dropped, since all their rewards are equal",
    )
    .only(DYNAMIC);
    FILLED_UP_GROUPS = Metric::count(
        "training/filter_groups/filled_up_groups",
        Unit::None,
        "dropped groups that filled the step up after all",
    )
    .only(DYNAMIC);
    SCORE_OF_ALL = Metric::value(
        "training/filter_groups/score_of_all/mean",
        Unit::None,
        "mean raw reward of everything that was sampled",
    )
    .only(DYNAMIC);

    SCORE = Metric::value("critic/score/{mean,max,min}", Unit::None, "raw rewards of the step's valid samples")
        .titled("reward")
        .shown(&[Shown::under(&REWARD_GAUGE, &["raw"]).choosing("mean")]);
    REWARDS =
        Metric::value("critic/rewards/{mean,max,min}", Unit::None, "rewards of the step's valid samples after shaping")
            .shown(&[Shown::under(&REWARD_GAUGE, &["shaped"]).choosing("mean")]);
    REWARD_COMPONENT = Metric::value(
        "reward/components/{name}/{mean,max,min}",
        Unit::None,
        "a component of the shaped reward before its weight: `correctness`, `format`, `length` with an overlong \
        buffer, those of custom verifiers",
    )
    .shown(&[Shown::by(&COMPONENT_GAUGE).choosing("mean")]);

    SAMPLES = Metric::count("rollout/samples", Unit::None, "samples of the step");
    INVALID_SAMPLES =
        Metric::count("rollout/invalid_samples", Unit::None, "samples without a verdict, which were left out");
    FAILED_SAMPLES = Metric::count("rollout/failed_samples", Unit::None, "invalid samples that could not be generated");
    LATE_SAMPLES = Metric::count("rollout/late_samples", Unit::None, "invalid samples that took too long");
    ANSWERS_BY = Metric::count(
        "rollout/{left_out,judged}/{answers,truncated,marked,length_q1,length_q2,length_q3,length_q4}",
        Unit::None,
        "generated answers without a verdict and with one: all, those that were cut off, those with a marked answer, and \
        by length in quarters of `sampling.max_tokens`",
    )
    .only("an answer of the step was generated and has no verdict");
    VERIFIER_SAMPLES = Metric::count("verifiers/{name}/samples", Unit::None, "answers that a custom verifier got")
        .only(CUSTOM);
    VERIFIER_FAILURES = Metric::count(
        "verifiers/{name}/failures",
        Unit::None,
        "answers at which a reward function failed: an exception, a timeout, a crash, a reward that is none \
        ([`on_error`](verifiers.md#a-reward-function))",
    )
    .only(CUSTOM);
    ENVIRONMENT_EPISODES = Metric::count(
        "environments/{name}/episodes",
        Unit::None,
        "episodes that an environment of your own played",
    )
    .only(OWN_ENVIRONMENTS);
    ENVIRONMENT_FAILURES = Metric::count(
        "environments/{name}/failures",
        Unit::None,
        "episodes left out because the environment's own code failed, such as by an exception",
    )
    .only(OWN_ENVIRONMENTS);
    COPIED_SAMPLES = Metric::count(
        "rollout/copied_samples",
        Unit::None,
        "samples whose answer was refused because it is [copied from the prompt](math.md#copied-answers)",
    );
    VERIFIED_AGAIN = Metric::count(
        "rollout/verified_again",
        Unit::None,
        "verifications after the first, whoever made them; one that a full worker refused or that only fetched the \
        tests does not count",
    )
    .varies();
    BEGUN_AGAIN =
        Metric::count("rollout/begun_again", Unit::None, "generations that the orchestrator repeated").varies();
    OUTCOME = Metric::count("rollout/outcome/{outcome}", Unit::None, "samples with that verdict");
    UNDECIDED = Metric::count(
        "rollout/undecided/{reason}",
        Unit::None,
        "samples whose verdict is undecided, by its [reason](reference/reasons.md#mathematical-answers)",
    )
    .only("a verdict is undecided");
    ALL_CORRECT = Metric::count(
        "rollout/groups_all_correct",
        Unit::None,
        "groups whose samples are all correct",
    )
    .shown(&[Shown::under(&UNIFORM_GAUGE, &["correct"])]);
    ALL_INCORRECT = Metric::count(
        "rollout/groups_all_incorrect",
        Unit::None,
        "groups of whose samples none is correct",
    )
    .shown(&[Shown::under(&UNIFORM_GAUGE, &["incorrect"])]);

    TURNS = Metric::value("episodes/turns/{mean,max,min}", Unit::None, "turns that the model sampled in an episode")
        .only(EPISODES);
    TOOL_CALLS = Metric::value("episodes/tool_calls/mean", Unit::None, "calls of tools in an episode").only(EPISODES);
    TOOL_ERRORS = Metric::count("episodes/tool_errors", Unit::None, "calls of tools that could not be carried out")
        .only(EPISODES);
    ADDED_TOKENS = Metric::value(
        "episodes/added_tokens/mean",
        Unit::Tokens,
        "tokens of an episode that the environment added: they are not trained on",
    )
    .only(EPISODES);
    USED_UP = Metric::count(
        "episodes/used_up/{budget}",
        Unit::None,
        "episodes that a budget ended: `turns`, `turn_tokens`, `tokens`, `context`",
    )
    .only(EPISODES);
    EPISODES_AGAIN = Metric::count("episodes/played_again", Unit::None, "attempts at episodes after the first")
        .only(EPISODES)
        .varies();
    ENVIRONMENT_IDLE = Metric::count(
        "timing_s/environment_idle",
        Unit::Seconds,
        "within the step: no engine had a sample, because all episodes waited for their environments",
    )
    .only(EPISODES)
    .varies();
    SAME_ENGINE = Metric::value(
        "episodes/same_engine",
        Unit::None,
        "share of the turns after the first that the engine of the turn before sampled",
    )
    .only(EPISODES)
    .varies();
    SEQUENCES = Metric::value(
        "episodes/sequences/mean",
        Unit::None,
        "sequences that carry an episode: more than one where turns have prompts of their own",
    )
    .only("`turns.earlier_turns = \"rewrite\"`");
    ENVIRONMENT_TIME = Metric::value(
        "episodes/environment_s/{mean,max,min}",
        Unit::Seconds,
        "time of the environment's steps in an episode",
    )
    .only(EPISODES)
    .varies();

    SOURCE_SCORE = Metric::value(
        "data_source/{name}/score/mean",
        Unit::None,
        "mean raw reward of a data source: of the row's column `data_source`, or of the name of its source (at most \
        32)",
    )
    .only(SOURCES)
    .shown(&[Shown::by(&SOURCE_GAUGE)]);
    SOURCE_REWARD =
        Metric::value("data_source/{name}/rewards/mean", Unit::None, "mean reward of a data source after shaping")
            .only(SOURCES);
    SOURCE_LENGTH = Metric::value(
        "data_source/{name}/response_length/mean",
        Unit::Tokens,
        "mean length of a data source's responses",
    )
    .only(SOURCES);
    SOURCE_GROUPS = Metric::count("data_source/{name}/groups", Unit::None, "groups of a data source").only(SOURCES);
    SOURCE_INVALID =
        Metric::count("data_source/{name}/invalid_samples", Unit::None, "samples of a data source without a verdict")
            .only(SOURCES);
    SOURCE_WITHOUT_ADVANTAGE = Metric::count(
        "data_source/{name}/groups_without_advantage",
        Unit::None,
        "groups of a data source whose rewards are all equal",
    )
    .only(SOURCES);
}
