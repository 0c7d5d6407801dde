//! Memory that kernels read and write, with a guard after it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use evenkeel_kernels::{Pointer, Type};

const GUARD: u8 = 0xa5;
/// Bytes of the guard.
const GUARD_BYTES: usize = 256;

/// Forbids uses of memory: what an address sanitizer calls `__asan_poison_memory_region`.
pub type Poison = unsafe extern "C" fn(*const std::ffi::c_void, usize);

static POISON: OnceLock<Poison> = OnceLock::new();

/// Has the guards of all later buffers forbidden to code that a sanitizer watches, so that it also finds what is only
/// read outside of them.
pub fn poison_guards(poison: Poison) {
    let _ = POISON.set(poison);
}

thread_local! {
    /// Address and bytes of every buffer of this thread, guards included.
    static LIVE: RefCell<BTreeMap<u64, usize>> = const { RefCell::new(BTreeMap::new()) };
}

/// The whole memory of a buffer, guards included: what a device needs a copy of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckedBlock {
    /// Address of the first byte, divisible by 16.
    pub address: u64,
    /// Size in bytes, with the guards.
    pub bytes: usize,
}

impl CheckedBlock {
    /// The block that a pointer of a launch leads into; none for a null pointer.
    pub fn of(pointer: Pointer) -> Option<Self> {
        LIVE.with_borrow(|live| {
            let (&address, &bytes) = live.range(..=pointer.0).next_back()?;
            (pointer.0 < address + bytes as u64).then_some(Self { address, bytes })
        })
    }

    /// A copy of its bytes.
    pub fn read(self) -> Vec<u8> {
        // SAFETY: a live buffer's memory, see `of`; buffers are no longer borrowed mutably once they have a pointer.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) }.to_vec()
    }

    /// Replaces its bytes by what a device made of them.
    ///
    /// # Panics
    /// If there are more or fewer.
    pub fn write(self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes);
        // SAFETY: a live buffer's memory, which is read anew after each launch.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address as *mut u8, self.bytes) };
    }
}

/// Memory that begins at an address divisible by 16, or just not.
pub struct Buffer {
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
        if let Some(poison) = POISON.get() {
            let first = buffer.memory.as_ptr().cast::<u8>();
            let behind = offset + bytes;
            // SAFETY: within the memory of this buffer. Only its own code reads the guards, which no sanitizer watches.
            unsafe {
                poison(first.cast(), offset);
                poison(first.add(behind).cast(), buffer.memory.len() * 16 - behind);
            }
        }
        LIVE.with_borrow_mut(|live| live.insert(buffer.memory.as_ptr() as u64, buffer.memory.len() * 16));
        buffer
    }

    /// A copy of bytes.
    pub fn bytes_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::new(bytes.len(), 0, 0);
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    /// A buffer of fp32 values.
    pub fn f32(values: &[f32]) -> Self {
        Self::values(Type::F32, values, 0)
    }

    /// Values of a type; not at an address divisible by 16 if `offset` (in values) is not 0.
    pub fn values(kind: Type, values: &[f32], offset: usize) -> Self {
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
    pub fn u32(values: &[u32]) -> Self {
        let mut buffer = Self::new(values.len() * 4, 0, 0);
        for (to, value) in buffer.bytes_mut().chunks_exact_mut(4).zip(values) {
            to.copy_from_slice(&value.to_ne_bytes());
        }
        buffer
    }

    /// Space for this many values of a type, NaN until they are written.
    pub fn blank(kind: Type, count: usize) -> Self {
        Self::new(count * kind.size(), 0xff, 0)
    }

    /// Space for fp32 values.
    pub fn blank_f32(count: usize) -> Self {
        Self::blank(Type::F32, count)
    }

    /// Space for fp64 values.
    pub fn blank_f64(count: usize) -> Self {
        Self::new(count * 8, 0xff, 0)
    }

    /// The address, for a launch. What is written there is read by the methods below.
    pub fn pointer(&self) -> Pointer {
        Pointer(self.memory.as_ptr() as u64 + self.offset as u64)
    }

    /// The values of a type, once the kernel has written them.
    pub fn read(&self, kind: Type) -> Vec<f32> {
        let each = self.bytes().chunks_exact(kind.size());
        match kind {
            Type::F32 => each.map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect(),
            Type::Bf16 => each
                .map(|bytes| f32::from_bits(u32::from(u16::from_ne_bytes(bytes.try_into().unwrap())) << 16))
                .collect(),
        }
    }

    /// fp32 values, once the kernel has written them.
    pub fn read_f32(&self) -> Vec<f32> {
        self.read(Type::F32)
    }

    /// Writes fp32 values at the beginning, as a copy to the device does.
    pub(crate) fn write_f32(&self, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        assert!(bytes.len() <= self.bytes);
        // SAFETY: memory of this buffer, which like that of kernels is written by address and read anew.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.pointer().0 as *mut u8, bytes.len()) };
    }

    /// fp64 values, once the kernel has written them.
    pub fn read_f64(&self) -> Vec<f64> {
        self.bytes().chunks_exact(8).map(|bytes| f64::from_ne_bytes(bytes.try_into().unwrap())).collect()
    }

    /// The bytes; the guards on both sides must be untouched.
    pub fn bytes(&self) -> &[u8] {
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
        let offset = self.offset;
        let bytes = self.bytes;
        &mut self.memory_mut()[offset..offset + bytes]
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        // SAFETY: the same memory as bytes.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.memory.len() * 16) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        LIVE.with_borrow_mut(|live| live.remove(&(self.memory.as_ptr() as u64)));
    }
}

/// Rounds to the nearest bf16, ties to even.
pub(crate) fn bf16_bits(value: f32) -> u16 {
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
