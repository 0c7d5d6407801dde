//! Bounds that keep the exponentials of log-ratios finite.

/// Log-ratios saturate here, as in verl: a ratio of e^20 carries no learning signal, but an overflow would end a run.
pub const MAX_LOG_RATIO: f64 = 20.0;

/// Just below `exp(MAX_LOG_RATIO)`: a saturated ratio exceeds it, so its slope is 0, in line with its constant value.
pub(crate) const MAX_RATIO: f64 = 485_165_195.0;

/// A log-ratio within [`MAX_LOG_RATIO`]; NaN stays NaN.
#[inline(always)]
pub(crate) fn saturate(log_ratio: f64) -> f64 {
    log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
}
