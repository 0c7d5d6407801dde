//! What runs between the products of blocked attention.

use crate::launch::{BLOCK, DeviceProperties, Launch, Pointer, Type, WARP, arguments, is_wide, step, u32_of};
use evenkeel_errors::FieldError;

/// The scores of a block of queries of one sequence: fp32 (heads, queries, stride).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBlock {
    /// The type of probabilities and of the gradients of scores, which have the scores' shape.
    pub kind: Type,
    pub heads: usize,
    pub queries: usize,
    /// Keys that the last query sees.
    pub keys: usize,
    /// Keys before the first query.
    pub offset: usize,
    /// The factor on the scores.
    pub scale: f32,
}

impl ScoreBlock {
    /// Values between two rows of scores: the keys, and as many more as 16-byte steps need in every type.
    pub fn stride(&self) -> usize {
        self.keys.next_multiple_of(8)
    }

    /// Values of all rows.
    pub fn values(&self) -> usize {
        self.heads * self.queries * self.stride()
    }

    /// Probabilities, and the logarithms of their denominators, fp32 (queries, heads). In fp32 they may replace the
    /// scores.
    ///
    /// # Errors
    /// More keys than the last query sees, scores that are not aligned to 16 bytes, or too many rows.
    pub fn softmax(
        &self,
        properties: DeviceProperties,
        scores: Pointer,
        probabilities: Pointer,
        log_sum: Pointer,
    ) -> Result<Launch, FieldError> {
        let [heads, queries, keys, stride, offset] = self.sizes(&[scores, probabilities])?;
        let arguments = arguments![scores, probabilities, log_sum, heads, queries, keys, stride, offset, self.scale];
        let name = format!("attention_softmax_{}", self.kind.name());
        let bytes = self.values() * (4 + self.kind.size()) + self.heads * self.queries * 4;
        Launch::new(name, self.blocks(properties), (BLOCK / WARP) as usize * 8, bytes, arguments)
    }

    /// Probabilities and the gradients of the products of queries and keys, from the scores, the gradients of the
    /// probabilities (fp32), the logarithms of the denominators and the dots of [`HeadRows::dots`]. In fp32 they may
    /// replace the first two.
    ///
    /// # Errors
    /// As [`ScoreBlock::softmax`].
    pub fn gradients(
        &self,
        properties: DeviceProperties,
        [scores, dprobabilities]: [Pointer; 2],
        [log_sum, dots]: [Pointer; 2],
        [probabilities, dscores]: [Pointer; 2],
    ) -> Result<Launch, FieldError> {
        let [heads, queries, keys, stride, offset] = self.sizes(&[scores, dprobabilities, probabilities, dscores])?;
        let arguments = arguments![
            scores,
            dprobabilities,
            log_sum,
            dots,
            probabilities,
            dscores,
            heads,
            queries,
            keys,
            stride,
            offset,
            self.scale
        ];
        let name = format!("attention_gradients_{}", self.kind.name());
        let bytes = self.values() * (8 + 2 * self.kind.size()) + self.heads * self.queries * 8;
        Launch::new(name, self.blocks(properties), 0, bytes, arguments)
    }

    fn blocks(&self, properties: DeviceProperties) -> u32 {
        properties.blocks((self.heads * self.queries) as u64)
    }

    fn sizes(&self, pointers: &[Pointer]) -> Result<[u32; 5], FieldError> {
        if self.keys != self.offset + self.queries {
            let allowed = format!("the {} that the last query sees", self.offset + self.queries);
            return Err(FieldError::new("keys of a block of queries", self.keys, allowed));
        }
        if let Some(odd) = pointers.iter().find(|pointer| !pointer.0.is_multiple_of(16)) {
            return Err(FieldError::new("address of scores", odd.0 as usize, "a multiple of 16"));
        }
        u32_of("rows of scores", self.heads * self.queries)?;
        let [heads, queries] = [u32_of("heads", self.heads)?, u32_of("queries", self.queries)?];
        let [keys, stride] = [u32_of("keys", self.keys)?, u32_of("values between rows of scores", self.stride())?];
        Ok([heads, queries, keys, stride, u32_of("keys before a block", self.offset)?])
    }
}

/// Rows of heads, (rows, heads * dim).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRows {
    /// The type of the activations.
    pub kind: Type,
    pub rows: usize,
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`.
    pub kv_heads: usize,
    pub dim: usize,
}

impl HeadRows {
    /// The dot product of each query head of two matrices, fp32 (rows, heads).
    ///
    /// # Errors
    /// A width of 0, or too many rows.
    pub fn dots(
        &self,
        properties: DeviceProperties,
        x: Pointer,
        y: Pointer,
        to: Pointer,
    ) -> Result<Launch, FieldError> {
        self.validate()?;
        let wide = is_wide(self.kind, self.dim, &[x, y]);
        let runs = self.rows * self.heads;
        let arguments = arguments![x, y, to, u32_of("heads of all rows", runs)?, u32_of("width of a head", self.dim)?];
        let grid = properties.blocks(runs.div_ceil((BLOCK / WARP) as usize) as u64);
        let bytes = runs * (2 * self.dim * self.kind.size() + 4);
        Launch::new(self.kernel("dots", wide), grid, 0, bytes, arguments)
    }

    /// Keys or values, (rows, kv_heads * dim), as each query head reads them: (rows, heads * dim).
    ///
    /// # Errors
    /// A width of 0, heads that are not shared evenly, or too many rows.
    pub fn repeat(&self, properties: DeviceProperties, x: Pointer, y: Pointer) -> Result<Launch, FieldError> {
        let wide = is_wide(self.kind, self.dim, &[x, y]);
        let [rows, kv_heads, each, dim] = self.sizes()?;
        let grid = self.threads(properties, self.heads, wide);
        let bytes = self.rows * self.dim * (self.heads + self.kv_heads) * self.kind.size();
        Launch::new(self.kernel("repeat_heads", wide), grid, 0, bytes, arguments![x, y, rows, kv_heads, each, dim])
    }

    /// The transpose of [`HeadRows::repeat`]: sums of fp32 (rows, heads * dim) in the type of the activations.
    ///
    /// # Errors
    /// As [`HeadRows::repeat`].
    pub fn sum(&self, properties: DeviceProperties, x: Pointer, y: Pointer) -> Result<Launch, FieldError> {
        let wide = is_wide(self.kind, self.dim, &[x, y]);
        let [rows, kv_heads, each, dim] = self.sizes()?;
        let grid = self.threads(properties, self.kv_heads, wide);
        let bytes = self.rows * self.dim * (4 * self.heads + self.kind.size() * self.kv_heads);
        Launch::new(self.kernel("sum_heads", wide), grid, 0, bytes, arguments![x, y, rows, kv_heads, each, dim])
    }

    fn threads(&self, properties: DeviceProperties, heads: usize, wide: bool) -> u32 {
        let each = if wide { 16 / self.kind.size() } else { 1 };
        properties.blocks(((self.rows * heads * self.dim / each) as u64).div_ceil(u64::from(BLOCK)))
    }

    fn kernel(&self, name: &str, wide: bool) -> String {
        format!("{name}_{}_{}", self.kind.name(), step(wide))
    }

    fn validate(&self) -> Result<(), FieldError> {
        if self.dim == 0 {
            return Err(FieldError::new("width of a head", 0, "1 or more"));
        }
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(FieldError::new("key heads", self.kv_heads, format!("a divisor of {} heads", self.heads)));
        }
        Ok(())
    }

    fn sizes(&self) -> Result<[u32; 4], FieldError> {
        self.validate()?;
        let [rows, kv_heads] = [u32_of("rows", self.rows)?, u32_of("key heads", self.kv_heads)?];
        let each = u32_of("query heads of a key head", self.heads / self.kv_heads)?;
        Ok([rows, kv_heads, each, u32_of("width of a head", self.dim)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHIP: DeviceProperties = DeviceProperties { multiprocessors: 132 };

    #[test]
    fn scores_that_a_step_of_16_bytes_would_miss_are_refused() {
        let block = ScoreBlock { kind: Type::Bf16, heads: 2, queries: 3, keys: 10, offset: 7, scale: 1.0 };
        let at = Pointer(4096);
        assert!(block.softmax(CHIP, at, at, at).is_ok());
        let error = block.softmax(CHIP, Pointer(4100), at, at).unwrap_err().to_string();
        assert_eq!(error, "address of scores is 4100, allowed: a multiple of 16");
        let error = ScoreBlock { keys: 9, ..block }.softmax(CHIP, at, at, at).unwrap_err().to_string();
        assert_eq!(error, "keys of a block of queries is 9, allowed: the 10 that the last query sees");
    }

    #[test]
    fn heads_that_are_not_shared_evenly_are_refused() {
        let rows = HeadRows { kind: Type::F32, rows: 1, heads: 6, kv_heads: 4, dim: 8 };
        let error = rows.repeat(CHIP, Pointer(16), Pointer(16)).unwrap_err().to_string();
        assert_eq!(error, "key heads is 4, allowed: a divisor of 6 heads");
    }
}
