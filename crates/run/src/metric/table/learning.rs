//! What the learner reports of a step, and of a supervised one.

use super::{WARM_START, rows};
use crate::metric::row::{Metric, Unit};
use crate::metric::{Gauge, Shown};

const ENTROPY_GAUGE: Gauge =
    Gauge::of_one("evenkeel_run_entropy_nats", "mean entropy of the policy over trained tokens");
const KL_GAUGE: Gauge =
    Gauge::of_one("evenkeel_run_kl_nats", "estimate of the divergence of the new policy from that before the step");
const CLIPPED_GAUGE: Gauge = Gauge::by(
    "evenkeel_run_clipped_ratio",
    &["bound"],
    "share of tokens whose ratio was clipped; `lower`: by the bound for negative advantages",
);
const RATIO_GAUGE: Gauge =
    Gauge::of_one("evenkeel_run_policy_ratio_max", "largest ratio of new to old probability of a token");
const LOGP_GAUGE: Gauge = Gauge::of_one(
    "evenkeel_run_logp_gap_nats",
    "agreement of engine and learner: mean difference of their log-probabilities of a token, without its sign",
);
const CORRECTION_GAUGE: Gauge =
    Gauge::of_one("evenkeel_run_correction_weight", "mean factor that corrects for their difference");
const BOUNDED_GAUGE: Gauge =
    Gauge::of_one("evenkeel_run_correction_bounded_ratio", "share of tokens whose factor was bounded");
const NORM_GAUGE: Gauge = Gauge::of_one("evenkeel_run_gradient_norm", "norm of the gradient before clipping");
const UPDATE_GAUGE: Gauge =
    Gauge::of_one("evenkeel_run_update_norm", "norm of what the optimizer added to the weights");
const RATE_GAUGE: Gauge = Gauge::of_one("evenkeel_run_learning_rate", "learning rate of the step");
const LOSS_GAUGE: Gauge = Gauge::by("evenkeel_run_loss", &["kind"], "the step's loss");
const SKIPPED_GAUGE: Gauge =
    Gauge::by("evenkeel_run_update_skipped", &["kind"], "1 if the newest step skipped an update");

rows! {
    POLICY_LOSS =
        Metric::value("actor/pg_loss", Unit::None, "loss of the policy without its regularizers, mean over updates")
            .titled("loss");
    LOSS = Metric::value("actor/loss", Unit::None, "loss with its regularizers, mean over updates")
        .shown(&[Shown::under(&LOSS_GAUGE, &["train"])]);
    KL_LOSS = Metric::value("actor/kl_loss", Unit::Nats, "the KL penalty's part of the loss, mean over updates")
        .only("there is a KL penalty");
    DISTILLATION_LOSS = Metric::value(
        "actor/distillation_loss",
        Unit::Nats,
        "the distillation term's part of the loss, mean over updates",
    )
    .only("there is a teacher");
    TEACHER_KL = Metric::value(
        "actor/teacher_kl",
        Unit::Nats,
        "mean of old log-probability minus the teacher's at a sampled token, before the bound: an estimate of the KL to \
         the teacher",
    )
    .only("there is a teacher")
    .titled("KL to the teacher");
    TEACHER_BOUNDED = Metric::count(
        "actor/teacher_bounded_tokens",
        Unit::Tokens,
        "tokens whose difference to the teacher is bounded, over all updates",
    )
    .only("there is a teacher");
    ENTROPY_LOSS =
        Metric::value("actor/entropy_loss", Unit::Nats, "the entropy bonus's part of the loss, mean over updates")
            .only("there is an entropy bonus");
    CLIPPED = Metric::value("actor/pg_clipfrac", Unit::Share, "share of tokens whose ratio is clipped")
        .titled("clipped tokens")
        .shown(&[Shown::under(&CLIPPED_GAUGE, &["any"])]);
    CLIPPED_LOWER = Metric::value(
        "actor/pg_clipfrac_lower",
        Unit::Share,
        "share of tokens that are clipped from below, by the bound for negative advantages",
    )
    .shown(&[Shown::under(&CLIPPED_GAUGE, &["lower"])]);
    POLICY_KL = Metric::value("actor/ppo_kl", Unit::Nats, "mean of old minus new log-probability")
        .titled("approximate KL")
        .shown(&[Shown::by(&KL_GAUGE)]);
    ENTROPY = Metric::value("actor/entropy", Unit::Nats, "mean entropy of the policy at a sampled token")
        .titled("entropy")
        .shown(&[Shown::by(&ENTROPY_GAUGE)]);
    GRADIENT_NORM = Metric::value("actor/grad_norm", Unit::None, "norm of the gradient before clipping")
        .titled("gradient norm")
        .shown(&[Shown::by(&NORM_GAUGE)]);
    UPDATE_NORM = Metric::value(
        "actor/update_norm",
        Unit::None,
        "norm of what the optimizer added to the weights, with clipping and weight decay, mean over updates",
    )
    .titled("norm of the update")
    .shown(&[Shown::by(&UPDATE_GAUGE)]);
    LEARNING_RATE = Metric::value("actor/lr", Unit::None, "learning rate of the step")
        .titled("learning rate")
        .shown(&[Shown::by(&RATE_GAUGE)]);
    LARGEST_RATIO = Metric::value("actor/ratio_max", Unit::None, "largest ratio of new to old probability of a token")
        .shown(&[Shown::by(&RATIO_GAUGE)]);
    TRAINABLE_TOKENS = Metric::count("actor/trainable_tokens", Unit::Tokens, "tokens of the loss");
    WITHOUT_SIGNAL = Metric::count("actor/groups_without_signal", Unit::None, "groups without a gradient: weighted advantages are all 0, and no teacher scores them");
    SKIPPED = Metric::count("actor/skipped", Unit::None, "1 where the update was skipped")
        .shown(&[Shown::under(&SKIPPED_GAUGE, &["train"])]);

    LOGP_GAP = Metric::value(
        "rollout_corr/logp_gap",
        Unit::Nats,
        "engine against learner: mean difference of their log-probabilities of a token, without its sign",
    )
    .shown(&[Shown::by(&LOGP_GAUGE)]);
    CORRECTION = Metric::value("rollout_corr/weight_mean", Unit::None, "mean factor that corrects for that difference")
        .shown(&[Shown::by(&CORRECTION_GAUGE)]);
    BOUNDED = Metric::value(
        "rollout_corr/bounded_fraction",
        Unit::Share,
        "share of tokens that the correction masked or truncated",
    )
    .shown(&[Shown::by(&BOUNDED_GAUGE)]);

    WARM_START_STEP =
        Metric::value("warm_start/global_step", Unit::None, "number of the supervised step, as `step` has it")
            .of_lines(WARM_START);
    WARM_START_LOSS = Metric::value("warm_start/loss", Unit::Nats, "mean cross-entropy of demonstrated tokens")
        .titled("warm start")
        .of_lines(WARM_START)
        .shown(&[Shown::under(&LOSS_GAUGE, &["warm_start"])]);
    WARM_START_NORM = Metric::value("warm_start/grad_norm", Unit::None, "norm of the gradient before clipping")
        .of_lines(WARM_START)
        .shown(&[Shown::by(&NORM_GAUGE)]);
    WARM_START_RATE = Metric::value("warm_start/lr", Unit::None, "learning rate of the step")
        .of_lines(WARM_START)
        .shown(&[Shown::by(&RATE_GAUGE)]);
    WARM_START_SKIPPED = Metric::count("warm_start/skipped", Unit::None, "1 where the update was skipped")
        .of_lines(WARM_START)
        .shown(&[Shown::under(&SKIPPED_GAUGE, &["warm_start"])]);
    WARM_START_TOKENS = Metric::count("warm_start/tokens", Unit::Tokens, "tokens of the loss").of_lines(WARM_START);
}
