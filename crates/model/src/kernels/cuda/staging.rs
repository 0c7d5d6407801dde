//! Copies between the program's memory and a device, through page-locked memory that is kept.
//!
//! What a driver does with ordinary memory is not under control: it may copy at once or later, with or without waiting
//! for what the stream was given before. From page-locked memory a copy is always a piece of the stream's own work, and
//! never waits; so it must not be changed until the copy is done. Slots are used in turn, and each one again only after
//! the event behind its last copy.

use std::collections::VecDeque;

use evenkeel_kernels::Pointer;

use crate::error::Result;

/// Bytes of a slot: what a micro-batch uploads is smaller, or is sent in several.
#[cfg(feature = "cuda")]
pub(super) const SLOT: usize = 256 << 10;
/// Slots, so that the host may be some passes ahead of the device.
#[cfg(feature = "cuda")]
pub(super) const SLOTS: usize = 32;

/// A stream that copies from and to page-locked memory.
pub(super) trait CopyStream {
    /// A block of page-locked memory.
    type Slot;
    /// A point in the work of the stream.
    type Event;

    /// Page-locked memory of this many bytes.
    fn slot(&self, bytes: usize) -> Result<Self::Slot>;
    /// Bytes of a slot.
    fn bytes<'a>(&self, slot: &'a Self::Slot) -> &'a [u8];
    /// Bytes of a slot, mutable.
    fn bytes_mut<'a>(&self, slot: &'a mut Self::Slot) -> &'a mut [u8];
    /// Gives the stream a copy of the first bytes of a slot, which must stay as they are until it is done.
    fn send(&self, slot: &Self::Slot, bytes: usize, to: Pointer) -> Result<()>;
    /// Gives the stream a copy to the first bytes of a slot, which must not be read until it is done.
    fn receive(&self, from: Pointer, bytes: usize, slot: &mut Self::Slot) -> Result<()>;
    /// Marks what the stream was given so far.
    fn record(&self) -> Result<Self::Event>;
    /// Lets the host wait until that is done.
    fn wait(&self, event: &Self::Event) -> Result<()>;
}

/// The slots of a stream, the one that was used longest ago first.
pub(super) struct Staging<S: CopyStream> {
    stream: S,
    slots: VecDeque<(S::Slot, Option<S::Event>)>,
    /// Slots that may be made, and bytes of each.
    size: [usize; 2],
}

impl<S: CopyStream> Staging<S> {
    #[cfg(feature = "cuda")]
    pub(super) fn new(stream: S) -> Self {
        Self::of_size(stream, [SLOTS, SLOT])
    }

    fn of_size(stream: S, size: [usize; 2]) -> Self {
        Self { stream, slots: VecDeque::new(), size }
    }

    /// Gives the stream a copy of these bytes. They may be changed when this returns.
    pub(super) fn upload(&mut self, bytes: &[u8], to: Pointer) -> Result<()> {
        let mut at = to.0;
        for part in bytes.chunks(self.size[1]) {
            let mut slot = self.free_slot()?;
            self.stream.bytes_mut(&mut slot)[..part.len()].copy_from_slice(part);
            let sent = self.stream.send(&slot, part.len(), Pointer(at)).and_then(|()| self.stream.record());
            let (event, sent) = match sent {
                Ok(event) => (Some(event), Ok(())),
                Err(error) => (None, Err(error)),
            };
            self.slots.push_back((slot, event));
            sent?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Waits for what the stream was given before, and copies.
    pub(super) fn download(&mut self, from: Pointer, count: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            let part = (count - bytes.len()).min(self.size[1]);
            let mut slot = self.free_slot()?;
            let received = self.stream.receive(Pointer(from.0 + bytes.len() as u64), part, &mut slot);
            let done = received.and_then(|()| self.stream.record()).and_then(|event| self.stream.wait(&event));
            if done.is_ok() {
                bytes.extend_from_slice(&self.stream.bytes(&slot)[..part]);
            }
            self.slots.push_front((slot, None));
            done?;
        }
        Ok(bytes)
    }

    /// A slot that no copy uses.
    fn free_slot(&mut self) -> Result<S::Slot> {
        let [most, bytes] = self.size;
        match self.slots.pop_front() {
            Some((slot, None)) => Ok(slot),
            Some((slot, Some(event))) if self.slots.len() + 1 >= most => {
                self.stream.wait(&event)?;
                Ok(slot)
            }
            Some(used) => {
                self.slots.push_front(used);
                self.stream.slot(bytes)
            }
            None => self.stream.slot(bytes),
        }
    }
}

impl<S: CopyStream> Drop for Staging<S> {
    /// Copies must be done before their memory is given back. A stream that fails does nothing any more.
    fn drop(&mut self) {
        for (_, event) in &self.slots {
            let _ = event.as_ref().map(|event| self.stream.wait(event));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use super::*;

    /// A copy that a stream was given: the slot, its bytes, the address, and whether it is to the device.
    type Given = (Rc<RefCell<Vec<u8>>>, usize, u64, bool);

    /// A stream that copies as late as it may: when the host waits for an event behind the copy.
    #[derive(Default)]
    struct Late {
        memory: RefCell<BTreeMap<u64, u8>>,
        given: RefCell<Vec<Given>>,
        done: Cell<usize>,
        slots: Cell<usize>,
        /// Waits that do not wait.
        forgets: bool,
        fails: Cell<bool>,
    }

    struct Slot {
        shared: Rc<RefCell<Vec<u8>>>,
        /// What the host sees of it.
        view: Vec<u8>,
    }

    impl Late {
        fn settle(&self, until: usize) {
            for (slot, bytes, at, to_device) in &self.given.borrow()[self.done.get().min(until)..until] {
                let mut memory = self.memory.borrow_mut();
                let mut slot = slot.borrow_mut();
                for i in 0..*bytes {
                    if *to_device {
                        memory.insert(at + i as u64, slot[i]);
                    } else {
                        slot[i] = memory.get(&(at + i as u64)).copied().unwrap_or(0xff);
                    }
                }
            }
            self.done.set(self.done.get().max(until));
        }

        fn at(&self, first: u64, count: usize) -> Vec<u8> {
            self.settle(self.given.borrow().len());
            let memory = self.memory.borrow();
            (first..first + count as u64).map(|at| memory.get(&at).copied().unwrap_or(0xff)).collect()
        }
    }

    impl CopyStream for &Late {
        type Slot = Slot;
        type Event = usize;

        fn slot(&self, bytes: usize) -> Result<Slot> {
            self.slots.set(self.slots.get() + 1);
            Ok(Slot { shared: Rc::new(RefCell::new(vec![0; bytes])), view: vec![0; bytes] })
        }

        fn bytes<'a>(&self, slot: &'a Slot) -> &'a [u8] {
            &slot.view
        }

        fn bytes_mut<'a>(&self, slot: &'a mut Slot) -> &'a mut [u8] {
            &mut slot.view
        }

        fn send(&self, slot: &Slot, bytes: usize, to: Pointer) -> Result<()> {
            if self.fails.get() {
                return Err(crate::error::ModelError::input("copy", 1, "none"));
            }
            // What a slot holds when the copy is done counts, and the host may have changed it until then.
            slot.shared.borrow_mut().copy_from_slice(&slot.view);
            self.given.borrow_mut().push((Rc::clone(&slot.shared), bytes, to.0, true));
            Ok(())
        }

        fn receive(&self, from: Pointer, bytes: usize, slot: &mut Slot) -> Result<()> {
            self.given.borrow_mut().push((Rc::clone(&slot.shared), bytes, from.0, false));
            if !self.forgets {
                self.settle(self.given.borrow().len());
            }
            slot.view.copy_from_slice(&slot.shared.borrow());
            Ok(())
        }

        fn record(&self) -> Result<usize> {
            Ok(self.given.borrow().len())
        }

        fn wait(&self, event: &usize) -> Result<()> {
            if !self.forgets {
                self.settle(*event);
            }
            Ok(())
        }
    }

    /// Whether twenty uploads through three slots of eight bytes arrive, and come back.
    fn arrives(stream: &Late) -> bool {
        let mut staging = Staging::of_size(stream, [3, 8]);
        let parts: Vec<Vec<u8>> = (0..20u8).map(|number| vec![number; 1 + usize::from(number)]).collect();
        let mut at = 0;
        for part in &parts {
            staging.upload(part, Pointer(at)).unwrap();
            at += part.len() as u64;
        }
        let all = parts.concat();
        let back = staging.download(Pointer(0), all.len()).unwrap();
        drop(staging);
        stream.at(0, all.len()) == all && back == all
    }

    #[test]
    fn a_slot_is_used_again_only_when_its_last_copy_is_done() {
        let stream = Late::default();
        assert!(arrives(&stream));
        assert_eq!(stream.slots.get(), 3);
        // Without the waits the test sees slots that were overwritten.
        assert!(!arrives(&Late { forgets: true, ..Late::default() }));
    }

    #[test]
    fn memory_is_given_back_when_its_copies_are_done() {
        let stream = Late::default();
        let mut staging = Staging::of_size(&stream, [4, 8]);
        staging.upload(&[1, 2, 3], Pointer(0)).unwrap();
        assert_eq!(stream.done.get(), 0, "an upload waits for nothing");
        drop(staging);
        assert_eq!(stream.done.get(), 1);
    }

    #[test]
    fn a_copy_that_fails_is_reported_and_leaves_the_slots_usable() {
        let stream = Late::default();
        stream.fails.set(true);
        let mut staging = Staging::of_size(&stream, [2, 8]);
        assert!(staging.upload(&[1; 20], Pointer(0)).is_err());
        stream.fails.set(false);
        staging.upload(&[7; 20], Pointer(0)).unwrap();
        assert_eq!(staging.download(Pointer(0), 20).unwrap(), [7; 20]);
        assert_eq!(stream.slots.get(), 2);
    }

    #[test]
    fn nothing_is_copied_of_nothing() {
        let stream = Late::default();
        let mut staging = Staging::of_size(&stream, [2, 8]);
        staging.upload(&[], Pointer(0)).unwrap();
        assert!(staging.download(Pointer(0), 0).unwrap().is_empty());
        assert_eq!(stream.slots.get(), 0);
    }
}
