//! What proof and audit say in the metrics line of a step.

use evenkeel_run::MetricsLine;
use evenkeel_run::metric::table as metric;
use evenkeel_trust::{AuditReport, EvaluationReport, ProofReport, SuspicionReport};

/// The values of a proof of weights.
pub(in crate::run) fn proof_values(line: &mut MetricsLine, report: &ProofReport) {
    line.set(metric::PROOF_ENGINES, report.engines as f64);
    line.set(metric::PROOF_MEAN_GAP, report.mean_gap);
    line.set(metric::PROOF_MAX_GAP, report.max_gap);
    line.set(metric::PROOF_TOKENS, report.tokens as f64);
    line.set(metric::PROOF_MOVEMENT, report.movement);
    line.set(metric::PROOF_NOISE, report.noise);
    line.set(metric::PROOF_EVIDENCE, report.evidence);
    let excluded = report.suspicions.iter().filter(|suspicion| suspicion.excluded).count();
    line.set(metric::PROOF_SUSPICIONS, report.suspicions.len() as f64);
    line.set(metric::PROOF_EXCLUDED, excluded as f64);
    for SuspicionReport { name, share, excluded } in &report.suspicions {
        line.set(metric::PROOF_STALE_SHARE.of([name]), share.map(|(share, _)| share));
        line.set(metric::PROOF_STALE_ERROR.of([name]), share.map(|(_, error)| error));
        line.set(metric::PROOF_EXCLUDES.of([name]), f64::from(u8::from(*excluded)));
    }
    line.set(metric::PROOF_TIME, report.took.as_secs_f64());
}

/// The values of the audit of an evaluation, of which some problems may have answers from `earlier`.
pub(in crate::run) fn evaluation_values(line: &mut MetricsLine, report: &EvaluationReport, earlier: u64) {
    let is_verified = report.is_verified() && earlier == 0;
    line.set(metric::EVALUATION_VERIFIED, f64::from(u8::from(is_verified)));
    line.set(metric::EVALUATION_AUDITED, report.audited as f64);
    line.set(metric::EVALUATION_NONCE, report.nonce.map(|nonce| nonce as f64));
}

/// The values of a sampler audit.
pub(in crate::run) fn audit_values(line: &mut MetricsLine, report: &AuditReport) {
    line.set(metric::AUDIT_SAMPLES, report.sequences as f64);
    line.set(metric::AUDIT_MISSING, report.missing as f64);
    line.set(metric::AUDIT_NOT_POSSIBLE, report.not_possible as f64);
    line.set(metric::AUDIT_NONCE, report.nonce.map(|nonce| nonce as f64));
    line.set(metric::AUDIT_NONCE_IS_FIXED, report.nonce_is_fixed.then_some(1.0));
    line.set(metric::AUDIT_COMPUTING, report.computing.as_secs_f64());
    line.set(metric::AUDIT_WAITING, report.waiting.as_secs_f64());
    for (check, evidence) in &report.evidence {
        line.set(metric::AUDIT_EVIDENCE.of([check]), *evidence);
    }
    line.set(metric::AUDIT_TOKENS, report.tokens);
    line.set(metric::AUDIT_COPIES, report.copies);
    line.set(metric::AUDIT_EXPECTED_COPIES, report.expected_copies);
    line.set(metric::AUDIT_VARIANCE, report.variance);
    line.set(metric::AUDIT_GAP, report.gap);
    for (percent, tokens) in &report.tokens_needed {
        line.set(metric::AUDIT_NEEDED.of([percent]), *tokens);
    }
}
