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
