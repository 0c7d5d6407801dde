//! A step of the size that the limit is for, the same in every run.

use evenkeel_objective::ResponseTokens;

/// Responses of the step.
pub(crate) const RESPONSES: usize = 2048;
/// Responses of a group.
pub(crate) const GROUP: usize = 16;
/// Tokens of a response.
pub(crate) const TOKENS: usize = 8192;

/// Rewards, masks and log-probabilities, response after response.
pub(crate) struct UpdateStep {
    pub(crate) rewards: Vec<f64>,
    mask: Vec<bool>,
    logp: Vec<f32>,
    old_logp: Vec<f32>,
}

impl UpdateStep {
    /// Binary rewards, one token in sixteen masked, log-ratios within 0.5.
    pub(crate) fn generate() -> Self {
        let mut random = Random(0x5eed);
        let tokens = RESPONSES * TOKENS;
        let rewards = (0..RESPONSES).map(|_| if random.next() < 0.4 { 1.0 } else { 0.0 }).collect();
        let mask = (0..tokens).map(|_| random.next() >= 1.0 / 16.0).collect();
        let old_logp: Vec<f32> = (0..tokens).map(|_| -4.0 * random.next() as f32 - 0.5).collect();
        let logp = old_logp.iter().map(|old| old + random.next() as f32 - 0.5).collect();
        Self { rewards, mask, logp, old_logp }
    }

    /// The tokens of one response.
    pub(crate) fn tokens(&self, response: usize) -> ResponseTokens<'_, f32> {
        let range = response * TOKENS..(response + 1) * TOKENS;
        ResponseTokens {
            mask: &self.mask[range.clone()],
            logp: &self.logp[range.clone()],
            old_logp: &self.old_logp[range],
            rollout_logp: None,
        }
    }
}

/// A splitmix64 generator.
struct Random(u64);

impl Random {
    /// The next number in [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
