//! Log-probabilities, entropies and their gradients over a chunk of logits.

use crate::launch::{BLOCK, DeviceProperties, Launch, Pointer, Type, WARP, arguments, is_wide, step, u32_of};
use evenkeel_errors::FieldError;

/// A chunk of fp32 logits (rows, vocabulary) and the id to score in each row (u32).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logits {
    pub logits: Pointer,
    pub targets: Pointer,
    pub rows: usize,
    /// Logits of a row.
    pub vocabulary: usize,
    /// Logits are divided by this.
    pub temperature: f32,
    /// Whether exponentials are those of the multiprocessor's instruction, and sums of products are rounded once: other
    /// last bits, in less time.
    pub fast: bool,
}

impl Logits {
    fn sizes(&self) -> Result<[u32; 2], FieldError> {
        if self.vocabulary == 0 {
            return Err(FieldError::new("vocabulary", 0, "1 or more"));
        }
        Ok([u32_of("rows of logits", self.rows)?, u32_of("vocabulary", self.vocabulary)?])
    }

    fn way(&self) -> &'static str {
        if self.fast { "fast_" } else { "" }
    }
}

/// Log-probability, entropy, and the logarithm of the sum of exponentials of each row, fp32 (rows) each.
///
/// # Errors
/// An empty vocabulary.
pub fn token_scores(
    properties: DeviceProperties,
    input: Logits,
    [logp, entropy, log_sum]: [Pointer; 3],
) -> Result<Launch, FieldError> {
    let [rows, vocabulary] = input.sizes()?;
    let wide = is_wide(Type::F32, input.vocabulary, &[input.logits]);
    let logits = input.logits;
    let targets = input.targets;
    let inverse = 1.0 / input.temperature;
    let arguments = arguments![logits, targets, logp, entropy, log_sum, rows, vocabulary, inverse];
    let shared = (BLOCK / WARP) as usize * 12;
    let bytes = input.rows * (4 * input.vocabulary + 16);
    let name = format!("token_scores_{}{}", input.way(), step(wide));
    Launch::new(name, properties.blocks(input.rows as u64), shared, bytes, arguments)
}

/// d loss / d logits in the compute type. In fp32 they may replace the logits.
///
/// `log_sum` and `entropy` are those of [`token_scores`], `coefficients` d loss / d logp and d loss / d entropy, fp32
/// (rows) each.
///
/// # Errors
/// An empty vocabulary.
pub fn logit_gradients(
    properties: DeviceProperties,
    input: Logits,
    [log_sum, entropy]: [Pointer; 2],
    [dlogp, dentropy]: [Pointer; 2],
    (kind, gradients): (Type, Pointer),
) -> Result<Launch, FieldError> {
    let [rows, vocabulary] = input.sizes()?;
    let wide = is_wide(Type::F32, input.vocabulary, &[input.logits, gradients]);
    let logits = input.logits;
    let targets = input.targets;
    let inverse = 1.0 / input.temperature;
    let arguments =
        arguments![logits, targets, log_sum, entropy, dlogp, dentropy, gradients, rows, vocabulary, inverse];
    let name = format!("logit_gradients_{}{}_{}", input.way(), kind.name(), step(wide));
    let bytes = input.rows * ((4 + kind.size()) * input.vocabulary + 20);
    Launch::new(name, properties.blocks(input.rows as u64), 0, bytes, arguments)
}
