//! Matrix products, as values: a library computes them.

use crate::launch::{Pointer, Type};
use evenkeel_errors::FieldError;

/// A matrix in memory, or one for each element of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub at: Pointer,
    /// The type of its values.
    pub kind: Type,
    /// Values between two rows in memory.
    pub stride: usize,
    /// Values between two matrices of the batch; 0 if they share one.
    pub batch_stride: usize,
    /// Whether memory holds the transpose.
    pub transposed: bool,
}

impl Operand {
    /// A single matrix with rows of `stride` values.
    pub fn rows(at: Pointer, kind: Type, stride: usize) -> Self {
        Self { at, kind, stride, batch_stride: 0, transposed: false }
    }

    pub fn every(self, batch_stride: usize) -> Self {
        Self { batch_stride, ..self }
    }

    pub fn t(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }
}

/// to = factor * a b + add, with a (rows, inner), b (inner, columns) and the others (rows, columns), accumulated in
/// fp32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Rows of a and of the result.
    pub rows: usize,
    /// Columns of b and of the result.
    pub columns: usize,
    /// Columns of a and rows of b.
    pub inner: usize,
    pub batch: usize,
    pub a: Operand,
    /// The right factor, of the same type.
    pub b: Operand,
    /// The result: the factors' type, or fp32.
    pub to: Operand,
    /// What is added, in the result's type and strides; may be the result's own memory. [`Pointer::NULL`] for nothing.
    pub add: Pointer,
    pub factor: f32,
}

impl Product {
    /// One product, to which nothing is added.
    pub fn new([rows, inner, columns]: [usize; 3], a: Operand, b: Operand, to: Operand) -> Self {
        Self { rows, columns, inner, batch: 1, a, b, to, add: Pointer::NULL, factor: 1.0 }
    }

    /// Sizes (rows × inner × columns) and types of the product, for people.
    pub fn name(&self) -> String {
        let type_name = |kind| if kind == Type::F32 { "fp32" } else { "bf16" };
        let Self { rows, inner, columns, batch, .. } = self;
        let each = if *batch == 1 { String::new() } else { format!("{batch} times ") };
        format!(
            "product {each}{rows} × {inner} × {columns} of {} in {}",
            type_name(self.a.kind),
            type_name(self.to.kind)
        )
    }

    pub fn plus(self, add: Pointer) -> Self {
        Self { add, ..self }
    }

    /// A batch of such products.
    pub fn batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// Refuses what no library computes.
    ///
    /// # Errors
    /// Factors of different types, a result narrower than they are or transposed, rows that overlap.
    pub fn validate(&self) -> Result<(), FieldError> {
        let size = self.a.kind.size();
        if self.b.kind != self.a.kind {
            return Err(FieldError::new("bytes of a right factor's value", self.b.kind.size(), format!("{size}")));
        }
        if self.to.kind.size() < size {
            return Err(FieldError::new("bytes of a product's value", self.to.kind.size(), format!("{size} or more")));
        }
        if self.to.transposed {
            return Err(FieldError::new("transposed results", 1, "none"));
        }
        let shapes =
            [(self.a, self.rows, self.inner), (self.b, self.inner, self.columns), (self.to, self.rows, self.columns)];
        for (operand, rows, columns) in shapes {
            let least = if operand.transposed { rows } else { columns };
            if operand.stride < least {
                return Err(FieldError::new("values between rows", operand.stride, format!("{least} or more")));
            }
        }
        Ok(())
    }

    pub fn flops(&self) -> u64 {
        2 * [self.rows, self.columns, self.inner, self.batch].iter().map(|&size| size as u64).product::<u64>()
    }

    /// Bytes of the factors and of the result, each once.
    pub fn bytes(&self) -> u64 {
        let bytes = |operand: Operand, rows: usize, columns: usize| {
            let matrices = if operand.batch_stride == 0 { 1 } else { self.batch };
            (matrices * rows * columns * operand.kind.size()) as u64
        };
        let passes = if self.add == Pointer::NULL { 1 } else { 2 };
        bytes(self.a, self.rows, self.inner)
            + bytes(self.b, self.inner, self.columns)
            + passes * bytes(self.to.every(1), self.rows, self.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product() -> Product {
        let operand = |stride| Operand::rows(Pointer(16), Type::Bf16, stride);
        Product::new([3, 5, 7], operand(5), operand(5).t(), operand(7))
    }

    #[test]
    fn operations_and_bytes_are_counted_once() {
        let product = product();
        assert_eq!((product.flops(), product.bytes()), (2 * 3 * 5 * 7, 2 * (15 + 35 + 21)));
        assert_eq!(product.plus(Pointer(16)).bytes(), 2 * (15 + 35 + 42));
        // Eight products that share the right factor.
        let mut batch = product.batch(8);
        batch.a = batch.a.every(15);
        batch.to = batch.to.every(21);
        assert_eq!((batch.flops(), batch.bytes()), (8 * 210, 2 * (120 + 35 + 168)));
    }

    #[test]
    fn rows_that_overlap_and_results_that_lose_precision_are_refused() {
        assert!(product().validate().is_ok());
        let mut narrow = product();
        narrow.to.stride = 6;
        assert_eq!(narrow.validate().unwrap_err().to_string(), "values between rows is 6, allowed: 7 or more");
        let mut rounded = product();
        (rounded.a.kind, rounded.b.kind) = (Type::F32, Type::F32);
        assert_eq!(rounded.validate().unwrap_err().to_string(), "bytes of a product's value is 2, allowed: 4 or more");
    }
}
