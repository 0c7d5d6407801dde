//! Arrays in the device's memory.

use evenkeel_kernels::{Operand, Pointer, Type};

/// A row-major matrix in a device's memory.
pub struct Matrix<M> {
    at: Pointer,
    memory: M,
    kind: Type,
    rows: usize,
    width: usize,
}

impl<M> Matrix<M> {
    pub(super) fn new(at: Pointer, memory: M, kind: Type, [rows, width]: [usize; 2]) -> Self {
        Self { at, memory, kind, rows, width }
    }

    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    pub(super) fn kind(&self) -> Type {
        self.kind
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn values(&self) -> usize {
        self.rows * self.width
    }

    pub(super) fn at(&self) -> Pointer {
        self.at
    }

    /// Address of the first value of a row.
    pub(super) fn row(&self, row: usize) -> Pointer {
        Pointer(self.at.0 + (row * self.width * self.kind.size()) as u64)
    }

    /// The matrix as a factor or a result of a product, from a row on.
    pub(super) fn operand(&self, first_row: usize) -> Operand {
        Operand::rows(self.row(first_row), self.kind, self.width)
    }
}

/// The sum of a parameter's gradient, fp32.
pub struct Gradient<M> {
    at: Pointer,
    memory: M,
    count: usize,
}

impl<M> Gradient<M> {
    pub(super) fn new(at: Pointer, memory: M, count: usize) -> Self {
        Self { at, memory, count }
    }

    pub(super) fn at(&self) -> Pointer {
        self.at
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn into_memory(self) -> M {
        self.memory
    }
}

/// Values of a type from their bytes.
pub(super) fn floats(kind: Type, bytes: &[u8]) -> Vec<f32> {
    match kind {
        Type::F32 => bytes.as_chunks().0.iter().map(|&bytes| f32::from_ne_bytes(bytes)).collect(),
        Type::Bf16 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| f32::from_bits(u32::from(u16::from_ne_bytes(bytes)) << 16))
            .collect(),
    }
}
