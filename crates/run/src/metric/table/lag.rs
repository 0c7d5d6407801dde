//! Samples of older weights, and the gradients of every rule.

use super::rows;
use crate::metric::row::{Metric, Unit};

const LAGGING: &str = "`pipeline.max_lag` is set ([pipeline.md](pipeline.md#what-it-waited-for))";
const PROBED: &str = "the step is probed ([learner.md](learner.md#gradients-of-every-rule))";

rows! {
    PIPELINE_LAG = Metric::value(
        "pipeline/lag",
        Unit::None,
        "steps between the oldest weights that sampled the step and those that it was trained from",
    )
    .only(LAGGING);
    LEARNER_WAITED = Metric::count(
        "pipeline/learner_waited_s",
        Unit::Seconds,
        "how long the learner waited for the step's rollouts",
    )
    .only(LAGGING)
    .varies();
    SAMPLING_WAITED = Metric::count(
        "pipeline/sampling_waited_s",
        Unit::Seconds,
        "how long sampling waited for the weights that sampled the step",
    )
    .only(LAGGING)
    .varies();

    MEAN_LAG = Metric::value("lag/mean", Unit::None, "mean lag of a token").only(LAGGING);
    LAG_SHARE = Metric::value("lag/{lag}/share", Unit::Share, "share of the tokens with that lag").only(LAGGING);
    LAG_RATIO = Metric::value(
        "lag/{lag}/ratio/{p1,p50,p99}",
        Unit::None,
        "quantiles of the step's probability over the sampler's",
    )
    .only(LAGGING);
    LAG_ESS = Metric::value(
        "lag/{lag}/ess",
        Unit::Share,
        "effective sample size of the correction's factors, as a share of the tokens; 1 without a correction",
    )
    .only(LAGGING);
    LAG_RATIO_ESS =
        Metric::value("lag/{lag}/ratio_ess", Unit::Share, "effective sample size of the ratios, without bounds")
            .only(LAGGING);
    LAG_BOUNDED =
        Metric::value("lag/{lag}/bounded_fraction", Unit::Share, "share of the tokens that were masked or truncated")
            .only(LAGGING);
    LAG_KL_K1 = Metric::value(
        "lag/{lag}/kl_k1",
        Unit::Nats,
        "estimate of the KL divergence from the sampler to the step's weights, by the mean log-ratio",
    )
    .only(LAGGING);
    LAG_KL_K3 =
        Metric::value("lag/{lag}/kl_k3", Unit::Nats, "the same divergence by an estimate that is never negative")
            .only(LAGGING);

    PROBE_NORM =
        Metric::value("probe/{rule}/grad_norm", Unit::None, "norm of the gradient under every rule").only(PROBED);
    PROBE_RATE = Metric::value(
        "probe/{rule}/learning_rate",
        Unit::None,
        "learning rate at which a rule's update is as long as the run's own",
    )
    .only(PROBED);
    PROBE_COSINE = Metric::value(
        "probe/{rule}/cosine/{other}",
        Unit::None,
        "cosine between the gradients of two rules, each pair once",
    )
    .only(PROBED);
}
