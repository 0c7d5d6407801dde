//! What memory a program has used: its own, the native stack that it stands on, and what the host holds for it.

use super::stop::Stop;

/// A call that takes so many bytes of the native stack takes about one of the interpreter's own stack, which lies in memory that the
/// program has from the beginning: measured over recursions through C of 20,000 to 100,000 levels.
const NATIVE_TO_OWN: u64 = 8;

/// The memory account of one instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryUse {
    limit: u64,
    granted: u64,
    /// What the interpreter begins with, once that is known.
    base: Option<u64>,
    /// Bytes above that.
    grown: u64,
    /// Bytes that the host holds for it.
    held: u64,
    /// Where the native stack stood when the program was called.
    foot: usize,
    peak: u64,
    /// A growth was refused.
    pub refused: bool,
}

impl MemoryUse {
    pub(super) fn new(limit: u64, granted: u64) -> Self {
        Self { limit, granted: granted.min(limit), base: None, grown: 0, held: 0, foot: 0, peak: 0, refused: false }
    }

    /// Most bytes above the interpreter's own.
    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    /// Whether the guest's own memory is larger than at the beginning.
    pub(super) fn has_grown(&self) -> bool {
        self.base.is_some()
    }

    /// To be called by what calls the program.
    pub(super) fn begin(&mut self) {
        self.foot = here();
    }

    /// The host holds nothing any more.
    pub(super) fn release(&mut self) {
        self.held = 0;
    }

    /// The host will hold so many bytes more.
    pub(super) fn hold(&mut self, bytes: u64) -> Result<(), Stop> {
        self.held = self.held.saturating_add(bytes);
        self.look()
    }

    /// Looks how deep the native stack is. To be called while the program is, on its thread.
    pub(super) fn look(&mut self) -> Result<(), Stop> {
        let used = self.used(self.grown);
        if used > self.limit {
            self.refused = true;
            return Err(Stop::Memory);
        }
        self.note(used)
    }

    /// Whether the memory may grow.
    pub(super) fn grow(&mut self, current: u64, desired: u64) -> Result<bool, Stop> {
        if current == 0 {
            // The instance's own beginning.
            return Ok(true);
        }
        let grown = desired.saturating_sub(*self.base.get_or_insert(current));
        let used = self.used(grown);
        if used > self.limit {
            self.refused = true;
            return Ok(false);
        }
        self.note(used)?;
        self.grown = grown;
        Ok(true)
    }

    fn note(&mut self, used: u64) -> Result<(), Stop> {
        if used > self.granted {
            return Err(Stop::Crowded);
        }
        self.peak = self.peak.max(used);
        Ok(())
    }

    fn used(&self, grown: u64) -> u64 {
        let native = self.foot.saturating_sub(here()) as u64;
        grown.saturating_add(self.held).saturating_add(native + native / NATIVE_TO_OWN)
    }
}

/// About where the native stack is now. It grows downwards.
#[inline(never)]
fn here() -> usize {
    let marker = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&marker)).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_grows_and_what_is_held_share_one_limit() {
        let mut memory = MemoryUse::new(10 * MIB, 10 * MIB);
        assert_eq!(memory.grow(0, 80 * MIB), Ok(true));
        assert_eq!(memory.grow(80 * MIB, 86 * MIB), Ok(true));
        assert_eq!(memory.hold(3 * MIB), Ok(()));
        assert_eq!(memory.grow(86 * MIB, 88 * MIB), Ok(false));
        assert!(memory.refused);
        assert_eq!(memory.hold(2 * MIB), Err(Stop::Memory));
        assert_eq!(memory.peak(), 9 * MIB);
    }

    #[test]
    fn the_native_stack_counts() {
        fn deep(memory: &mut MemoryUse, levels: u32) -> Result<(), Stop> {
            let room = std::hint::black_box([0_u8; 4096]);
            let seen = if levels == 0 { memory.look() } else { deep(memory, levels - 1) };
            std::hint::black_box(room);
            seen
        }
        let mut memory = MemoryUse::new(MIB / 4, MIB / 4);
        memory.begin();
        assert_eq!(deep(&mut memory, 10), Ok(()));
        assert!(memory.peak() > 40_000, "{}", memory.peak());
        assert_eq!(deep(&mut memory, 100), Err(Stop::Memory));
    }

    #[test]
    fn what_is_allowed_but_not_granted_is_no_fault() {
        let mut memory = MemoryUse::new(10 * MIB, 4 * MIB);
        assert_eq!(memory.grow(80 * MIB, 83 * MIB), Ok(true));
        assert_eq!(memory.grow(83 * MIB, 86 * MIB), Err(Stop::Crowded));
        assert_eq!(memory.grow(83 * MIB, 99 * MIB), Ok(false));
    }
}
