//! The proof of weights and the audit of samples.

use super::rows;
use crate::metric::row::{Metric, Unit};
use crate::metric::{Gauge, Shown};

const GAP_GAUGE: Gauge = Gauge::by(
    "evenkeel_run_proof_gap_nats",
    &["statistic"],
    "difference of log-probabilities on the same tokens when the weights were verified last",
);

const PROVEN: &str = "the weights were verified after the step ([below](#proof-of-weights))";
const AUDITED: &str = "samples are audited ([below](#sampler-audit))";

rows! {
    PROOF_ENGINES =
        Metric::value("proof/engines", Unit::None, "engines whose weights were looked at").only(PROVEN).varies();
    PROOF_EQUAL_TOKENS = Metric::count(
        "proof/equal_tokens",
        Unit::Tokens,
        "trained tokens whose log-probability, as the engine reported it, is the learner's to the bit",
    )
    .only("engine and learner compute with the same arithmetic")
    .varies();
    PROOF_MEAN_GAP = Metric::value(
        "proof/mean_gap",
        Unit::Nats,
        "largest mean difference of an engine's log-probabilities from the learner's",
    )
    .only(PROVEN)
    .varies()
    .shown(&[Shown::under(&GAP_GAUGE, &["mean"])]);
    PROOF_MAX_GAP = Metric::value(
        "proof/max_gap",
        Unit::Nats,
        "largest single difference of an engine's log-probabilities from the learner's",
    )
    .only(PROVEN)
    .varies()
    .shown(&[Shown::under(&GAP_GAUGE, &["max"])]);
    PROOF_TOKENS = Metric::value("proof/tokens", Unit::Tokens, "tokens that were scored").only(PROVEN).varies();
    PROOF_MOVEMENT = Metric::value(
        "proof/movement",
        Unit::Nats,
        "root mean square change of their log-probabilities since the process began",
    )
    .only(PROVEN)
    .varies();
    PROOF_NOISE = Metric::value("proof/noise", Unit::Nats, "the largest noise of an engine with the right weights")
        .only(PROVEN)
        .varies();
    PROOF_EVIDENCE = Metric::value(
        "proof/evidence",
        Unit::None,
        "natural logarithm of the strongest evidence for a fault, at least 0; a run fails at ln(suspicions / 1.5e-4) of \
        its first engine, about 11",
    )
    .only(PROVEN)
    .varies();
    PROOF_SUSPICIONS =
        Metric::value("proof/suspicions", Unit::None, "failure modes that are tested").only(PROVEN).varies();
    PROOF_EXCLUDED = Metric::value("proof/excluded", Unit::None, "how many of them are ruled out on all engines")
        .only(PROVEN)
        .varies();
    PROOF_EXCLUDED_BY_SAMPLES = Metric::value(
        "proof/excluded_by_samples",
        Unit::None,
        "how many of them audited samples rule out on all engines that were trained on",
    )
    .only(PROVEN)
    .varies();
    PROOF_UNVERIFIED = Metric::value(
        "proof/unverified_engines",
        Unit::None,
        "engines so far whose samples were trained on and which no proof has reached",
    )
    .only(PROVEN)
    .varies();
    PROOF_STALE_SHARE = Metric::value(
        "proof/stale_share/{suspicion}",
        Unit::None,
        "how much of the gap that a suspicion (`unchanged`, `behind` or a group of tensors) predicts was found, of the \
        engine with the most: 0 for the right weights, 1 for a part that is stale",
    )
    .only(PROVEN)
    .varies();
    PROOF_STALE_ERROR = Metric::value("proof/stale_error/{suspicion}", Unit::None, "standard error of that share")
        .only(PROVEN)
        .varies();
    PROOF_EXCLUDES = Metric::value("proof/excluded/{suspicion}", Unit::None, "1 where the failure mode is ruled out")
        .only(PROVEN)
        .varies();

    AUDIT_SAMPLES = Metric::count("sampler_audit/samples", Unit::None, "samples that were scored in this step")
        .only(AUDITED)
        .varies();
    AUDIT_MISSING =
        Metric::count("sampler_audit/missing_samples", Unit::None, "chosen samples that could not be generated")
            .only(AUDITED)
            .varies();
    AUDIT_NOT_POSSIBLE =
        Metric::count("sampler_audit/not_possible", Unit::None, "chosen samples that could not be scored")
            .only(AUDITED)
            .varies();
    AUDIT_NONCE = Metric::value(
        "sampler_audit/nonce",
        Unit::None,
        "the secret number of the step, which decided which of its samples are scored",
    )
    .only(AUDITED)
    .varies();
    AUDIT_NONCE_IS_FIXED = Metric::value(
        "sampler_audit/nonce_is_fixed",
        Unit::None,
        "1 where the settings fix that number: what is proven counts as undecided",
    )
    .only("`sampler_audit.nonce` is set")
    .varies();
    EVALUATION_VERIFIED = Metric::value(
        "sampler_audit/evaluation_verified",
        Unit::None,
        "1 where answers of the evaluation were audited that no engine could foretell, all that were chosen could be scored, \
        and no check failed; 0 elsewhere",
    )
    .of_lines(super::EVALUATION)
    .varies();
    EVALUATION_AUDITED =
        Metric::count("sampler_audit/evaluation_answers", Unit::None, "answers of the evaluation that were scored")
            .of_lines(super::EVALUATION)
            .varies();
    EVALUATION_NONCE = Metric::value(
        "sampler_audit/evaluation_nonce",
        Unit::None,
        "the secret number of the evaluation, which decided which of its answers are scored",
    )
    .of_lines(super::EVALUATION)
    .only(AUDITED)
    .varies();
    AUDIT_EVIDENCE = Metric::value(
        "sampler_audit/evidence/{check}",
        Unit::Decades,
        "evidence so far against the engine that has most: of `temperature`, `truncation`, `end_token`, \
        `log_probabilities`, `copies`, `answers`, `rows`; 0 is none, 4.5 ends a run with one engine",
    )
    .only(AUDITED)
    .varies();
    AUDIT_TOKENS = Metric::value("sampler_audit/tokens", Unit::Tokens, "tokens audited so far").only(AUDITED).varies();
    AUDIT_VARIANCE = Metric::value("sampler_audit/variance", Unit::SquaredNats, "their mean variance of log p")
        .only(AUDITED)
        .varies();
    AUDIT_GAP = Metric::value("sampler_audit/gap", Unit::Nats, "root mean square of engine minus learner")
        .only(AUDITED)
        .varies();
    AUDIT_NEEDED = Metric::value(
        "sampler_audit/tokens_for_{2,10}_percent",
        Unit::Tokens,
        "tokens that show a temperature which is off by as much",
    )
    .only(AUDITED)
    .varies();
    AUDIT_COPIES = Metric::value(
        "sampler_audit/copies",
        Unit::None,
        "answers so far that were equal to an earlier one of their prompt",
    )
    .only(AUDITED)
    .varies();
    AUDIT_EXPECTED_COPIES =
        Metric::value("sampler_audit/expected_copies", Unit::None, "how many of these were to be expected")
            .only(AUDITED)
            .varies();
}
