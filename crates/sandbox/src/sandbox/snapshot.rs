//! Snapshots of a memory, restored byte for byte at the cost of the pages that were written to.
//!
//! Private pages (those that were written to before the snapshot) are saved and copied back. All other pages still
//! showed the memory image; if such a page becomes private, it is discarded, so that it shows the image again. It is
//! then saved as well: the next test will probably write to the same page, and copying costs less than another page
//! fault.

use std::io;

use super::pages::{PAGE, Pages};

/// Most bytes of saved pages. Further pages are discarded every time.
const MAX_SAVED_BYTES: usize = 8 << 20;

/// The index of a page that is not saved.
const NOT_SAVED: u32 = u32::MAX;

/// The content of a memory at one point in time.
pub(super) struct Snapshot {
    /// For every page of the memory, its index among the saved pages.
    indices: Vec<u32>,
    saved: Vec<u8>,
}

impl Snapshot {
    /// Takes a snapshot.
    ///
    /// # Errors
    ///
    /// The kernel does not report the private pages, or there are too many.
    pub(super) fn take(pages: &Pages, memory: &[u8]) -> io::Result<Self> {
        let private = pages.private(memory)?;
        if private.iter().map(|range| range.len()).sum::<usize>() > MAX_SAVED_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut snapshot = Self { indices: vec![NOT_SAVED; memory.len() / PAGE], saved: Vec::new() };
        for at in private.into_iter().flat_map(|range| range.step_by(PAGE)) {
            snapshot.save(memory, at);
        }
        Ok(snapshot)
    }

    /// Restores the memory.
    ///
    /// # Errors
    ///
    /// The memory has grown, or the kernel does not report the private pages. The memory must not be used then.
    pub(super) fn restore(&mut self, pages: &Pages, memory: &mut [u8]) -> io::Result<()> {
        if memory.len() != self.indices.len() * PAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for range in pages.private(memory)? {
            let mut at = range.start;
            while at < range.end {
                match self.saved_page(at) {
                    Some(page) => {
                        memory[at..at + PAGE].copy_from_slice(page);
                        at += PAGE;
                    }
                    None => at = self.discard(memory, at, range.end)?,
                }
            }
        }
        Ok(())
    }

    /// Discards the pages from `at` up to the next saved one, and returns where that begins.
    fn discard(&mut self, memory: &mut [u8], at: usize, end: usize) -> io::Result<usize> {
        let end = (at..end).step_by(PAGE).find(|at| self.saved_page(*at).is_some()).unwrap_or(end);
        Pages::discard(&mut memory[at..end])?;
        for at in (at..end).step_by(PAGE) {
            if self.saved.len() + PAGE <= MAX_SAVED_BYTES {
                self.save(memory, at);
            }
        }
        Ok(end)
    }

    fn saved_page(&self, at: usize) -> Option<&[u8]> {
        let index = self.indices[at / PAGE];
        (index != NOT_SAVED).then(|| &self.saved[index as usize * PAGE..][..PAGE])
    }

    fn save(&mut self, memory: &[u8], at: usize) {
        self.indices[at / PAGE] = (self.saved.len() / PAGE) as u32;
        self.saved.extend_from_slice(&memory[at..at + PAGE]);
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "helpers of tests are not #[test] functions")]
mod tests {
    use std::io::Write as _;
    use std::ptr;

    use proptest::prelude::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

    use super::*;

    const PAGES: usize = 64;

    /// A private mapping like a memory of wasmtime: its first half is backed by a file, its second is anonymous.
    struct Mapping(&'static mut [u8]);

    impl Mapping {
        fn new() -> Self {
            let mut file = tempfile::tempfile().unwrap();
            let content: Vec<u8> = (0..PAGES / 2 * PAGE).map(|at| (at / 7) as u8).collect();
            file.write_all(&content).unwrap();
            let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: new mappings, the second over the first half of the first, with no other references.
            #[allow(unsafe_code)]
            unsafe {
                let base = mmap_anonymous(ptr::null_mut(), PAGES * PAGE, access, private).unwrap();
                mmap(base, PAGES / 2 * PAGE, access, private | MapFlags::FIXED, &file, 0).unwrap();
                Self(std::slice::from_raw_parts_mut(base.cast(), PAGES * PAGE))
            }
        }
    }

    impl Mapping {
        /// Memory without any private page, which an allocator would not guarantee.
        fn anonymous(bytes: usize) -> Self {
            // SAFETY: a new mapping with no other references.
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
        fn a_snapshot_is_restored_byte_for_byte(
            before in proptest::collection::vec((0..PAGES * PAGE, any::<u8>()), 0..40),
            rounds in proptest::collection::vec(proptest::collection::vec((0..PAGES * PAGE, any::<u8>()), 0..40), 1..5),
        ) {
            // Without support by the kernel there are no snapshots.
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
                snapshot.restore(&pages, mapping.0).unwrap();
                prop_assert!(*mapping.0 == *expected);
            }
        }
    }

    #[test]
    fn a_memory_that_has_grown_is_not_restored() {
        let Some(pages) = Pages::open() else { return };
        let mapping = Mapping::new();
        let (half, _) = mapping.0.split_at_mut(PAGES / 2 * PAGE);
        let mut snapshot = Snapshot::take(&pages, half).unwrap();
        assert!(snapshot.restore(&pages, mapping.0).is_err());
    }

    #[test]
    fn pages_beyond_the_limit_of_saved_ones_are_restored_as_well() {
        let Some(pages) = Pages::open() else { return };
        let mapping = Mapping::anonymous(MAX_SAVED_BYTES * 2);
        let memory = &mut *mapping.0;
        memory[5] = 7;
        let mut snapshot = Snapshot::take(&pages, memory).unwrap();
        for _ in 0..2 {
            memory.fill(3);
            snapshot.restore(&pages, memory).unwrap();
            assert!(memory.iter().enumerate().all(|(at, byte)| *byte == if at == 5 { 7 } else { 0 }));
        }
    }
}
