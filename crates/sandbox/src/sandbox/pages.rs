//! Finds the pages of a memory that were written to, and discards them. Only Linux 6.7 and later reports them;
//! elsewhere there are no snapshots, and every test has its own instance.

use std::ops::Range;

/// Page size in bytes.
pub(super) const PAGE: usize = 4096;

#[cfg(target_os = "linux")]
pub(super) use linux::Pages;
#[cfg(not(target_os = "linux"))]
pub(super) use other::Pages;

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::c_void;
    use std::fs::File;
    use std::io;
    use std::ptr;

    use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
    use rustix::mm::{Advice, madvise};

    use super::{PAGE, Range};

    /// Ranges per system call.
    const RANGES: usize = 512;

    /// The kernel's page table of this process.
    pub(in crate::sandbox) struct Pages {
        pagemap: File,
    }

    impl Pages {
        /// `None` if the kernel does not support it.
        pub(in crate::sandbox) fn open() -> Option<Self> {
            if rustix::param::page_size() != PAGE {
                return None;
            }
            let pages = Self { pagemap: File::open("/proc/self/pagemap").ok()? };
            // A vector of three pages contains an aligned one.
            let mut written = vec![1_u8; 3 * PAGE];
            let skip = written.as_ptr().align_offset(PAGE);
            let found = pages.private(written.get_mut(skip..skip + PAGE)?).ok()?;
            matches!(found.as_slice(), [whole] if *whole == (0..PAGE)).then_some(pages)
        }

        /// The private ranges of a memory: pages that were written to and no longer show the memory image. Offsets in
        /// bytes, ascending.
        ///
        /// # Errors
        ///
        /// Those of the kernel, and a memory that is not page-aligned.
        pub(in crate::sandbox) fn private(&self, memory: &[u8]) -> io::Result<Vec<Range<usize>>> {
            let base = memory.as_ptr().addr();
            if !base.is_multiple_of(PAGE) || !memory.len().is_multiple_of(PAGE) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let mut found = Vec::new();
            let end = base + memory.len();
            let mut start = base;
            let mut ranges = [Region { start: 0, end: 0, categories: 0 }; RANGES];
            while start < end {
                let scan = Scan(Arguments {
                    size: size_of::<Arguments>() as u64,
                    flags: 0,
                    start: start as u64,
                    end: end as u64,
                    walk_end: 0,
                    ranges: ranges.as_mut_ptr().expose_provenance() as u64,
                    ranges_length: RANGES as u64,
                    most_pages: 0,
                    // Neither backed by a file nor the zero page; and present or swapped out.
                    inverted: FILE | ZERO,
                    all_of: FILE | ZERO,
                    any_of: PRESENT | SWAPPED,
                    returned: 0,
                });
                // SAFETY: the kernel reads the arguments, which outlive the call, and writes to them and to `ranges`,
                // whose length they contain.
                #[allow(unsafe_code)]
                let (count, walked) = unsafe { ioctl(&self.pagemap, scan) }?;
                found.extend(
                    ranges.iter().take(count).map(|range| range.start as usize - base..range.end as usize - base),
                );
                if walked as usize <= start {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                start = walked as usize;
            }
            Ok(found)
        }

        /// Discards private pages, so that they show the memory image again. The range must be one that
        /// [`Self::private`] returned.
        ///
        /// # Errors
        ///
        /// Those of the kernel.
        pub(in crate::sandbox) fn discard(pages: &mut [u8]) -> io::Result<()> {
            // SAFETY: the pages belong to a private mapping of wasmtime (of a file or anonymous) to which this is the
            // only reference. They read as what was mapped afterwards, as after any other write to them; wasmtime
            // resets memories in the same way.
            #[allow(unsafe_code)]
            unsafe {
                madvise(pages.as_mut_ptr().cast::<c_void>(), pages.len(), Advice::LinuxDontNeed)?;
            }
            Ok(())
        }
    }

    // Categories of pages, as the kernel numbers them.
    const FILE: u64 = 1 << 2;
    const PRESENT: u64 = 1 << 3;
    const SWAPPED: u64 = 1 << 4;
    const ZERO: u64 = 1 << 5;

    /// `struct page_region` of `linux/fs.h`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Region {
        start: u64,
        end: u64,
        categories: u64,
    }

    /// `struct pm_scan_arg` of `linux/fs.h`.
    #[repr(C)]
    struct Arguments {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walk_end: u64,
        ranges: u64,
        ranges_length: u64,
        most_pages: u64,
        inverted: u64,
        all_of: u64,
        any_of: u64,
        returned: u64,
    }

    /// `PAGEMAP_SCAN`: returns the number of ranges and where the walk ended.
    struct Scan(Arguments);

    // SAFETY: opcode and arguments are those of `PAGEMAP_SCAN`, which writes to its arguments.
    #[allow(unsafe_code)]
    unsafe impl Ioctl for Scan {
        type Output = (usize, u64);

        const IS_MUTATING: bool = true;

        fn opcode(&self) -> Opcode {
            opcode::read_write::<Arguments>(b'f', 16)
        }

        fn as_ptr(&mut self) -> *mut c_void {
            ptr::from_mut(&mut self.0).cast()
        }

        unsafe fn output_from_ptr(out: IoctlOutput, arguments: *mut c_void) -> rustix::io::Result<Self::Output> {
            // SAFETY: these are the arguments that `as_ptr` returned.
            let walk_end = unsafe { (*arguments.cast::<Arguments>()).walk_end };
            Ok((usize::try_from(out).unwrap_or(0), walk_end))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;

    use super::Range;

    pub(in crate::sandbox) struct Pages;

    impl Pages {
        pub(in crate::sandbox) fn open() -> Option<Self> {
            None
        }

        pub(in crate::sandbox) fn private(&self, _: &[u8]) -> io::Result<Vec<Range<usize>>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in crate::sandbox) fn discard(_: &mut [u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}
