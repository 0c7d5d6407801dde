//! Memory accounting of a program: its own memory, the native stack beneath it, and what the host buffers for it.
//!
//! If instructions are counted, the native stack does not count towards the limit: its size depends on the processor,
//! and how deep it is seen to be on the moment. It is bounded by the interpreter's own stack.

use super::exit_status::Termination;

/// Bytes of native stack per byte of the interpreter's own stack, which is part of the initial memory. Measured with
/// recursion through C of 20,000 to 100,000 levels.
const NATIVE_TO_OWN: u64 = 8;

/// The memory use of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryUse {
    limit: u64,
    granted: u64,
    /// Whether the native stack counts towards the limit.
    counts_stack: bool,
    /// The initial memory of the interpreter, known once it grows.
    initial: Option<u64>,
    /// Bytes beyond the initial memory.
    grown: u64,
    /// Bytes that the host buffers for the program.
    host: u64,
    /// Native stack pointer when the program was called.
    stack_base: usize,
    peak: u64,
    /// Whether an allocation was refused.
    pub refused: bool,
}

impl MemoryUse {
    pub(super) fn new(limit: u64, granted: u64, deterministic: bool) -> Self {
        Self {
            limit,
            granted: granted.min(limit),
            counts_stack: !deterministic,
            initial: None,
            grown: 0,
            host: 0,
            stack_base: 0,
            peak: 0,
            refused: false,
        }
    }

    /// Peak use in bytes, above the interpreter's own.
    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    /// Whether the guest's memory is larger than initially.
    pub(super) fn has_grown(&self) -> bool {
        self.initial.is_some()
    }

    /// To be called on the program's thread immediately before the program is.
    pub(super) fn begin(&mut self) {
        self.stack_base = stack_pointer();
    }

    /// The host has freed its buffers.
    pub(super) fn release_host(&mut self) {
        self.host = 0;
    }

    /// Charges bytes that the host is about to buffer.
    pub(super) fn charge_host(&mut self, bytes: u64) -> Result<(), Termination> {
        self.host = self.host.saturating_add(bytes);
        self.check()
    }

    /// Checks the limit with the current depth of the native stack. To be called from within the program, on its
    /// thread.
    pub(super) fn check(&mut self) -> Result<(), Termination> {
        if self.limited(self.grown) > self.limit {
            self.refused = true;
            return Err(Termination::Memory);
        }
        self.record(self.used(self.grown))
    }

    /// Whether the memory may grow.
    pub(super) fn grow(&mut self, current: u64, desired: u64) -> Result<bool, Termination> {
        if current == 0 {
            // The initial memory of the instance.
            return Ok(true);
        }
        let grown = desired.saturating_sub(*self.initial.get_or_insert(current));
        if self.limited(grown) > self.limit {
            self.refused = true;
            return Ok(false);
        }
        self.record(self.used(grown))?;
        self.grown = grown;
        Ok(true)
    }

    fn record(&mut self, used: u64) -> Result<(), Termination> {
        if used > self.granted && self.granted < self.limit {
            return Err(Termination::NeedsMemory);
        }
        self.peak = self.peak.max(used);
        Ok(())
    }

    /// What counts towards the limit.
    fn limited(&self, grown: u64) -> u64 {
        if self.counts_stack { self.used(grown) } else { grown.saturating_add(self.host) }
    }

    fn used(&self, grown: u64) -> u64 {
        let native = self.stack_base.saturating_sub(stack_pointer()) as u64;
        grown.saturating_add(self.host).saturating_add(native + native / NATIVE_TO_OWN)
    }
}

/// The approximate native stack pointer. The stack grows downwards.
#[inline(never)]
fn stack_pointer() -> usize {
    let marker = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&marker)).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn guest_memory_and_host_buffers_share_a_limit() {
        let mut memory = MemoryUse::new(10 * MIB, 10 * MIB, false);
        assert_eq!(memory.grow(0, 80 * MIB), Ok(true));
        assert_eq!(memory.grow(80 * MIB, 86 * MIB), Ok(true));
        assert_eq!(memory.charge_host(3 * MIB), Ok(()));
        assert_eq!(memory.grow(86 * MIB, 88 * MIB), Ok(false));
        assert!(memory.refused);
        assert_eq!(memory.charge_host(2 * MIB), Err(Termination::Memory));
        assert_eq!(memory.peak(), 9 * MIB);
    }

    #[test]
    fn the_native_stack_counts() {
        fn deep(memory: &mut MemoryUse, levels: u32) -> Result<(), Termination> {
            let frame = std::hint::black_box([0_u8; 4096]);
            let result = if levels == 0 { memory.check() } else { deep(memory, levels - 1) };
            std::hint::black_box(frame);
            result
        }
        let mut memory = MemoryUse::new(MIB / 4, MIB / 4, false);
        memory.begin();
        assert_eq!(deep(&mut memory, 10), Ok(()));
        assert!(memory.peak() > 40_000, "{}", memory.peak());
        assert_eq!(deep(&mut memory, 100), Err(Termination::Memory));
        // If instructions are counted, only whether the machine has enough memory may depend on it.
        let mut memory = MemoryUse::new(MIB / 4, MIB / 4, true);
        memory.begin();
        assert_eq!(deep(&mut memory, 100), Ok(()));
        let mut memory = MemoryUse::new(MIB / 4, MIB / 8, true);
        memory.begin();
        assert_eq!(deep(&mut memory, 100), Err(Termination::NeedsMemory));
    }

    #[test]
    fn exceeding_the_grant_but_not_the_limit_is_no_fault_of_the_program() {
        let mut memory = MemoryUse::new(10 * MIB, 4 * MIB, false);
        assert_eq!(memory.grow(80 * MIB, 83 * MIB), Ok(true));
        assert_eq!(memory.grow(83 * MIB, 86 * MIB), Err(Termination::NeedsMemory));
        assert_eq!(memory.grow(83 * MIB, 99 * MIB), Ok(false));
    }
}
