//! Memory that kernels read and write, with a guard behind it.

use evenkeel_kernels::{Pointer, Type};

const GUARD: u8 = 0xa5;
/// Bytes of the guard.
const GUARD_BYTES: usize = 256;

/// Bytes that begin at an address divisible by 16, or just not.
pub(crate) struct Buffer {
    memory: Vec<u128>,
    offset: usize,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: usize, fill: u8, offset: usize) -> Self {
        let mut buffer = Self { memory: vec![0; (offset + bytes + GUARD_BYTES).div_ceil(16)], offset, bytes };
        let memory = buffer.memory_mut();
        memory.fill(GUARD);
        memory[offset..offset + bytes].fill(fill);
        buffer
    }

    /// fp32 values.
    pub(crate) fn f32(values: &[f32]) -> Self {
        Self::values(Type::F32, values, 0)
    }

    /// Values of a type; not at an address divisible by 16 if `offset` (in values) is not 0.
    pub(crate) fn values(kind: Type, values: &[f32], offset: usize) -> Self {
        let mut buffer = Self::new(values.len() * kind.size(), 0, offset * kind.size());
        for (to, &value) in buffer.bytes_mut().chunks_exact_mut(kind.size()).zip(values) {
            match kind {
                Type::F32 => to.copy_from_slice(&value.to_ne_bytes()),
                Type::Bf16 => to.copy_from_slice(&bf16_bits(value).to_ne_bytes()),
            }
        }
        buffer
    }

    /// Numbers of rows, ids or positions.
    pub(crate) fn u32(values: &[u32]) -> Self {
        let mut buffer = Self::new(values.len() * 4, 0, 0);
        for (to, value) in buffer.bytes_mut().chunks_exact_mut(4).zip(values) {
            to.copy_from_slice(&value.to_ne_bytes());
        }
        buffer
    }

    /// Space for so many values of a type, NaN until they are written.
    pub(crate) fn blank(kind: Type, count: usize) -> Self {
        Self::new(count * kind.size(), 0xff, 0)
    }

    /// Space for fp32 values.
    pub(crate) fn blank_f32(count: usize) -> Self {
        Self::blank(Type::F32, count)
    }

    /// Space for fp64 values.
    pub(crate) fn blank_f64(count: usize) -> Self {
        Self::new(count * 8, 0xff, 0)
    }

    /// The address, for a launch. What is written there is read by the methods below.
    pub(crate) fn pointer(&self) -> Pointer {
        Pointer(self.memory.as_ptr() as u64 + self.offset as u64)
    }

    /// The values of a type, once the kernel has written them.
    pub(crate) fn read(&self, kind: Type) -> Vec<f32> {
        let each = self.bytes().chunks_exact(kind.size());
        match kind {
            Type::F32 => each.map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect(),
            Type::Bf16 => {
                each.map(|bytes| f32::from_bits(u32::from(u16::from_ne_bytes(bytes.try_into().unwrap())) << 16)).collect()
            }
        }
    }

    pub(crate) fn read_f32(&self) -> Vec<f32> {
        self.read(Type::F32)
    }

    pub(crate) fn read_f64(&self) -> Vec<f64> {
        self.bytes().chunks_exact(8).map(|bytes| f64::from_ne_bytes(bytes.try_into().unwrap())).collect()
    }

    /// The bytes; the guards on both sides must be untouched.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the same memory as bytes; kernels have written to it by address, so it is read anew.
        let memory = unsafe {
            std::slice::from_raw_parts(std::hint::black_box(self.memory.as_ptr()).cast::<u8>(), self.memory.len() * 16)
        };
        let (before, rest) = memory.split_at(self.offset);
        let (bytes, behind) = rest.split_at(self.bytes);
        assert!(before.iter().chain(behind).all(|&byte| byte == GUARD), "a write outside of the memory");
        bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let (offset, bytes) = (self.offset, self.bytes);
        &mut self.memory_mut()[offset..offset + bytes]
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        // SAFETY: the same memory as bytes.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.memory.len() * 16) }
    }
}

/// To the nearest, ties to even.
fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() { 0x7fff } else { ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16 }
}

/// A value as a type holds it.
pub(crate) fn rounded(kind: Type, value: f32) -> f32 {
    match kind {
        Type::F32 => value,
        Type::Bf16 => f32::from_bits(u32::from(bf16_bits(value)) << 16),
    }
}
