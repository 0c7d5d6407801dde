//! RMSNorm of the heads of queries or keys and their rotation, in one pass.

use evenkeel_errors::FieldError;

use crate::launch::{BLOCK, DeviceProperties, Launch, Pointer, Type, WARP, arguments, u32_of};

/// The widest head that a warp takes.
const WIDEST: usize = 512;
/// Values of shared memory before those of the weight's gradient.
const SCRATCH: usize = 16;
/// Heads that a block takes at a time.
const SLOTS: usize = (BLOCK / WARP) as usize;

/// Heads of rows: x (rows, heads * 2 * half).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormRotary {
    /// The type of x and y; weight, cosines and sines are fp32.
    pub kind: Type,
    pub rows: usize,
    /// Heads of a row.
    pub heads: usize,
    /// Half the width of a head.
    pub half: usize,
    /// Added to the mean of squares.
    pub epsilon: f32,
}

/// What both passes read besides activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadTables {
    /// The weight, (2 * half).
    pub weight: Pointer,
    /// Cosines of the rotation, (positions, half).
    pub cosines: Pointer,
    /// Sines of the rotation, (positions, half).
    pub sines: Pointer,
    /// The position of each row, u32.
    pub positions: Pointer,
}

impl NormRotary {
    /// Whether there is a kernel for heads of this width.
    pub fn takes(half: usize) -> bool {
        (1..=WIDEST / 2).contains(&half)
    }

    /// y from x.
    ///
    /// # Errors
    /// Heads that it does not take, or too many.
    pub fn forward(
        &self,
        properties: DeviceProperties,
        x: Pointer,
        tables: HeadTables,
        y: Pointer,
    ) -> Result<Launch, FieldError> {
        let HeadTables { weight, cosines, sines, positions } = tables;
        let [rows, heads, half] = self.sizes()?;
        let name = self.kernel("norm_rotary", &[x, weight, cosines, sines, y]);
        let arguments = arguments![x, weight, cosines, sines, positions, y, rows, heads, half, self.epsilon];
        Launch::new(name, self.blocks(properties), 0, self.bytes(2), arguments)
    }

    /// The gradient of x from that of y, which may be the same memory, and the blocks' parts of the weight's gradient.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn backward(
        &self,
        properties: DeviceProperties,
        [dy, x]: [Pointer; 2],
        tables: HeadTables,
        [dx, partial]: [Pointer; 2],
    ) -> Result<Launch, FieldError> {
        let HeadTables { weight, cosines, sines, positions } = tables;
        let [rows, heads, half] = self.sizes()?;
        let shared = 4 * (SCRATCH + SLOTS * 2 * self.half);
        let bytes = self.bytes(3) + 8 * self.half * self.partial_rows(properties);
        let name = self.kernel("norm_rotary_backward", &[dy, x, weight, cosines, sines, dx]);
        let arguments =
            arguments![dy, x, weight, cosines, sines, positions, dx, partial, rows, heads, half, self.epsilon];
        Launch::new(name, self.blocks(properties), shared, bytes, arguments)
    }

    /// Rows of 2 * half fp32 values whose column sums are the weight's gradient.
    pub fn partial_rows(&self, properties: DeviceProperties) -> usize {
        self.blocks(properties) as usize
    }

    /// Heads of the usual widths have kernels that hold them in registers, in the type that training computes in.
    fn kernel(&self, name: &str, pointers: &[Pointer]) -> String {
        let aligned = pointers.iter().all(|pointer| pointer.0.is_multiple_of(16));
        match self.half {
            32 | 64 | 128 if aligned && self.kind == Type::Bf16 => format!("{name}_bf16_{}", 2 * self.half),
            _ => format!("{name}_{}", self.kind.name()),
        }
    }

    fn blocks(&self, properties: DeviceProperties) -> u32 {
        properties.blocks((self.rows * self.heads).div_ceil(SLOTS) as u64)
    }

    /// Bytes that `arrays` arrays of activations and the angles of each row have.
    fn bytes(&self, arrays: usize) -> usize {
        self.rows * (arrays * self.heads * 2 * self.half * self.kind.size() + 8 * self.half + 4)
    }

    fn sizes(&self) -> Result<[u32; 3], FieldError> {
        if !Self::takes(self.half) {
            return Err(FieldError::new("half of a head", self.half, format!("1 to {}", WIDEST / 2)));
        }
        u32_of("heads of all rows", self.rows * self.heads)?;
        Ok([u32_of("rows", self.rows)?, u32_of("heads", self.heads)?, u32_of("half of a head", self.half)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_beyond_what_a_warp_takes_are_refused() {
        let heads = |half| NormRotary { kind: Type::Bf16, rows: 2, heads: 3, half, epsilon: 1e-6 };
        let at = Pointer(256);
        let tables = HeadTables { weight: at, cosines: at, sines: at, positions: at };
        let launch = |half: usize| heads(half).forward(DeviceProperties { multiprocessors: 132 }, at, tables, at);
        assert_eq!(launch(64).unwrap().kernel, "norm_rotary_bf16_128");
        assert_eq!(launch(48).unwrap().kernel, "norm_rotary_bf16");
        assert_eq!(launch(257).unwrap_err().to_string(), "half of a head is 257, allowed: 1 to 256");
        assert!(launch(0).is_err());
    }
}
