//! RMSNorm, forwards and backwards.

use evenkeel_errors::FieldError;

use crate::launch::{BLOCK, DeviceProperties, Launch, Pointer, Type, WARP, arguments, is_wide, step, u32_of};

/// Runs up to this width are taken by a warp.
const WARP_WIDTH: usize = 512;
/// Values of shared memory that sums over a block take.
const SCRATCH: usize = 16;

/// RMSNorm over runs of values: rows, or the heads of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// The type of x and y; the weight is fp32.
    pub kind: Type,
    pub runs: usize,
    /// Values in each, and in the weight.
    pub width: usize,
    /// Added to the mean of squares.
    pub epsilon: f32,
}

/// The addresses of a backward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormBackward {
    /// The gradient of y.
    pub dy: Pointer,
    /// The input of the forward pass.
    pub x: Pointer,
    pub weight: Pointer,
    /// What the gradient of x is added to, or [`Pointer::NULL`]; may be `dx`.
    pub into: Pointer,
    /// The gradient of x.
    pub dx: Pointer,
    /// [`Norm::partial_rows`] rows of `width` fp32 values; their column sums are the weight's gradient.
    pub partial: Pointer,
}

impl Norm {
    /// y from x.
    ///
    /// # Errors
    /// A width of 0.
    pub fn forward(
        &self,
        properties: DeviceProperties,
        x: Pointer,
        weight: Pointer,
        y: Pointer,
    ) -> Result<Launch, FieldError> {
        let wide = self.is_wide(&[x, weight, y]);
        let [runs, width] = self.sizes()?;
        let arguments = arguments![x, weight, y, runs, width, self.epsilon];
        let bytes = 2 * self.runs * self.width * self.kind.size();
        Launch::new(self.kernel("rms_norm", wide), self.blocks(properties), SCRATCH * 4, bytes, arguments)
    }

    /// Whether a block holds a row in registers, if it is aligned.
    pub fn holds_rows(&self) -> bool {
        self.kernel("", self.is_wide(&[])).contains("held")
    }

    /// The sum of two and its norm, where a block holds a row in registers; `None` for other widths, types and addresses.
    ///
    /// # Errors
    /// A width of 0.
    pub fn forward_of_sum(
        &self,
        properties: DeviceProperties,
        [x, residual]: [Pointer; 2],
        weight: Pointer,
        [sum, y]: [Pointer; 2],
    ) -> Result<Option<Launch>, FieldError> {
        let wide = self.is_wide(&[x, residual, weight, sum, y]);
        let [runs, width] = self.sizes()?;
        let kernel = self.kernel("add_norm", wide);
        if !kernel.contains("held") {
            return Ok(None);
        }
        let arguments = arguments![x, residual, weight, sum, y, runs, width, self.epsilon];
        let bytes = 4 * self.runs * self.width * self.kind.size();
        Launch::new(kernel, self.blocks(properties), SCRATCH * 4, bytes, arguments).map(Some)
    }

    /// The gradient of x, and the blocks' parts of the weight's gradient.
    ///
    /// # Errors
    /// A width of 0, or above 12,272.
    pub fn backward(&self, properties: DeviceProperties, at: NormBackward) -> Result<Launch, FieldError> {
        let wide = self.is_wide(&[at.dy, at.x, at.weight, at.into, at.dx]);
        let [runs, width] = self.sizes()?;
        let kernel = self.kernel("rms_norm_backward", wide);
        let own = if kernel.contains("held") { 0 } else { self.slots() * self.width };
        let shared = 4 * (SCRATCH + own);
        let arguments = arguments![at.dy, at.x, at.weight, at.into, at.dx, at.partial, runs, width, self.epsilon];
        let arrays = if at.into == Pointer::NULL { 3 } else { 4 };
        let bytes = self.width * (arrays * self.runs * self.kind.size() + 4 * self.partial_rows(properties));
        Launch::new(kernel, self.blocks(properties), shared, bytes, arguments)
    }

    /// Number of rows of [`NormBackward::partial`].
    pub fn partial_rows(&self, properties: DeviceProperties) -> usize {
        self.blocks(properties) as usize
    }

    fn sizes(&self) -> Result<[u32; 2], FieldError> {
        if self.width == 0 {
            return Err(FieldError::new("width of a norm", 0, "1 or more"));
        }
        Ok([u32_of("runs of a norm", self.runs)?, u32_of("width of a norm", self.width)?])
    }

    fn takes_warp(&self) -> bool {
        self.width <= WARP_WIDTH
    }

    /// Runs that a block takes at a time.
    fn slots(&self) -> usize {
        if self.takes_warp() { (BLOCK / WARP) as usize } else { 1 }
    }

    fn blocks(&self, properties: DeviceProperties) -> u32 {
        properties.blocks(self.runs.div_ceil(self.slots()) as u64)
    }

    fn is_wide(&self, pointers: &[Pointer]) -> bool {
        is_wide(self.kind, self.width, pointers)
    }

    fn kernel(&self, name: &str, wide: bool) -> String {
        // What a block takes at a time.
        let step_width = BLOCK as usize * 16 / self.kind.size();
        match self.width.div_ceil(step_width) {
            // Training computes in bf16: in fp32 there are the general kernels alone.
            steps @ (1 | 2) if wide && !self.takes_warp() && self.kind == Type::Bf16 => {
                format!("{name}_{}_held{steps}", self.kind.name())
            }
            _ => {
                let lanes = if self.takes_warp() { "warp" } else { "block" };
                format!("{name}_{}_{}_{lanes}", self.kind.name(), step(wide))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHIP: DeviceProperties = DeviceProperties { multiprocessors: 132 };

    #[test]
    fn heads_are_taken_by_warps_and_rows_by_blocks_that_hold_them_where_they_can() {
        let norm = |width| Norm { kind: Type::Bf16, runs: 1000, width, epsilon: 1e-6 };
        let kernel = |width| norm(width).forward(CHIP, Pointer(16), Pointer(16), Pointer(16)).unwrap().kernel;
        assert_eq!(kernel(128), "rms_norm_bf16_wide_warp");
        assert_eq!(
            [2048, 3584, 4096].map(kernel),
            ["rms_norm_bf16_held1", "rms_norm_bf16_held2", "rms_norm_bf16_held2"]
        );
        assert_eq!(kernel(4104), "rms_norm_bf16_wide_block");
        assert_eq!(kernel(2047), "rms_norm_bf16_single_block");
        assert_eq!((norm(128).partial_rows(CHIP), norm(2048).partial_rows(CHIP)), (125, 1000));
    }

    #[test]
    fn the_widest_norm_is_stated() {
        let backward = |width| {
            let norm = Norm { kind: Type::F32, runs: 1, width, epsilon: 1e-6 };
            let pointers = Pointer(16);
            let at = NormBackward {
                dy: pointers,
                x: pointers,
                weight: pointers,
                into: Pointer::NULL,
                dx: pointers,
                partial: pointers,
            };
            norm.backward(CHIP, at)
        };
        assert!(backward(12_272).is_ok());
        assert!(backward(12_273).is_err());
        assert_eq!(backward(0).unwrap_err().to_string(), "width of a norm is 0, allowed: 1 or more");
    }
}
