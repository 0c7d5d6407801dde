//! A memory as it was at one moment, to be put back as often as needed: byte for byte, at the cost of the pages that were written to.
//!
//! Pages that were this process's own at that moment are copied, and copied back. Any other still was what the memory was made from; where
//! such a page has become the process's own it is given back, which makes it that again, and then kept as a copy as well: what one test
//! writes to the next will write to, and a copy costs less than taking the page anew.

use std::io;

use super::pages::{PAGE, Pages};

/// Bytes that are kept as copies at most. What comes on top is given back to the system every time.
const MOST_BYTES: usize = 8 << 20;

/// No copy is kept of a page.
const NONE: u32 = u32::MAX;

/// A memory at one moment.
pub(super) struct Snapshot {
    /// For every page which of the copies is its own.
    places: Vec<u32>,
    copies: Vec<u8>,
}

impl Snapshot {
    /// Takes the memory as it is now.
    ///
    /// # Errors
    ///
    /// Where the kernel does not say what was written to, and where that is too much.
    pub(super) fn take(pages: &Pages, memory: &[u8]) -> io::Result<Self> {
        let own = pages.own(memory)?;
        if own.iter().map(|range| range.len()).sum::<usize>() > MOST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut snapshot = Self { places: vec![NONE; memory.len() / PAGE], copies: Vec::new() };
        for at in own.into_iter().flat_map(|range| range.step_by(PAGE)) {
            snapshot.keep(memory, at);
        }
        Ok(snapshot)
    }

    /// Makes the memory what it was.
    ///
    /// # Errors
    ///
    /// Where that cannot be done: the memory is then of no use. It has grown, or the kernel says no more.
    pub(super) fn put_back(&mut self, pages: &Pages, memory: &mut [u8]) -> io::Result<()> {
        if memory.len() != self.places.len() * PAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for range in pages.own(memory)? {
            let mut at = range.start;
            while at < range.end {
                match self.copy(at) {
                    Some(copy) => {
                        memory[at..at + PAGE].copy_from_slice(copy);
                        at += PAGE;
                    }
                    None => at = self.give_back(memory, at, range.end)?,
                }
            }
        }
        Ok(())
    }

    /// Gives back the pages from `at` on of which there is no copy; the first of which there is one.
    fn give_back(&mut self, memory: &mut [u8], at: usize, end: usize) -> io::Result<usize> {
        let end = (at..end).step_by(PAGE).find(|at| self.copy(*at).is_some()).unwrap_or(end);
        Pages::give_back(&mut memory[at..end])?;
        for at in (at..end).step_by(PAGE) {
            if self.copies.len() + PAGE <= MOST_BYTES {
                self.keep(memory, at);
            }
        }
        Ok(end)
    }

    fn copy(&self, at: usize) -> Option<&[u8]> {
        let place = self.places[at / PAGE];
        (place != NONE).then(|| &self.copies[place as usize * PAGE..][..PAGE])
    }

    fn keep(&mut self, memory: &[u8], at: usize) {
        self.places[at / PAGE] = (self.copies.len() / PAGE) as u32;
        self.copies.extend_from_slice(&memory[at..at + PAGE]);
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "helpers of tests stand outside of #[test] functions")]
mod tests {
    use std::io::Write as _;
    use std::ptr;

    use proptest::prelude::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

    use super::*;

    const PAGES: usize = 64;

    /// A private mapping: of a file for its first half, of nothing for its second, as wasmtime makes a memory.
    struct Mapping(&'static mut [u8]);

    impl Mapping {
        fn new() -> Self {
            let mut file = tempfile::tempfile().unwrap();
            let content: Vec<u8> = (0..PAGES / 2 * PAGE).map(|at| (at / 7) as u8).collect();
            file.write_all(&content).unwrap();
            let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: fresh mappings, the second over the first half of the first, that nobody else knows of.
            #[allow(unsafe_code)]
            unsafe {
                let base = mmap_anonymous(ptr::null_mut(), PAGES * PAGE, access, private).unwrap();
                mmap(base, PAGES / 2 * PAGE, access, private | MapFlags::FIXED, &file, 0).unwrap();
                Self(std::slice::from_raw_parts_mut(base.cast(), PAGES * PAGE))
            }
        }
    }

    impl Mapping {
        /// Memory that nobody has written to: what an allocator gives may have been written to before.
        fn of_nothing(bytes: usize) -> Self {
            // SAFETY: a fresh mapping that nobody else knows of.
            #[allow(unsafe_code)]
            unsafe {
                let access = ProtFlags::READ | ProtFlags::WRITE;
                let base = mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE).unwrap();
                Self(std::slice::from_raw_parts_mut(base.cast(), bytes))
            }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: mapped above with this length.
            #[allow(unsafe_code)]
            unsafe {
                munmap(self.0.as_mut_ptr().cast(), self.0.len()).unwrap();
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn what_is_put_back_is_what_was_taken_byte_for_byte(
            before in proptest::collection::vec((0..PAGES * PAGE, any::<u8>()), 0..40),
            rounds in proptest::collection::vec(proptest::collection::vec((0..PAGES * PAGE, any::<u8>()), 0..40), 1..5),
        ) {
            // Where the kernel does not tell there is nothing to put back.
            let Some(pages) = Pages::open() else { return Ok(()) };
            let mapping = Mapping::new();
            for (at, byte) in before {
                mapping.0[at] = byte;
            }
            let mut snapshot = Snapshot::take(&pages, mapping.0).unwrap();
            let expected = mapping.0.to_vec();
            for round in rounds {
                for (at, byte) in round {
                    mapping.0[at] = byte;
                }
                snapshot.put_back(&pages, mapping.0).unwrap();
                prop_assert!(*mapping.0 == *expected);
            }
        }
    }

    #[test]
    fn a_memory_that_has_grown_is_not_put_back() {
        let Some(pages) = Pages::open() else { return };
        let mapping = Mapping::new();
        let (half, _) = mapping.0.split_at_mut(PAGES / 2 * PAGE);
        let mut snapshot = Snapshot::take(&pages, half).unwrap();
        assert!(snapshot.put_back(&pages, mapping.0).is_err());
    }

    #[test]
    fn what_is_more_than_is_kept_is_put_back_as_well() {
        let Some(pages) = Pages::open() else { return };
        let mapping = Mapping::of_nothing(MOST_BYTES * 2);
        let memory = &mut *mapping.0;
        memory[5] = 7;
        let mut snapshot = Snapshot::take(&pages, memory).unwrap();
        for _ in 0..2 {
            memory.fill(3);
            snapshot.put_back(&pages, memory).unwrap();
            assert!(memory.iter().enumerate().all(|(at, byte)| *byte == if at == 5 { 7 } else { 0 }));
        }
    }
}
