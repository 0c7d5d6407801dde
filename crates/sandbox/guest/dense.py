"""Makes the heap dense before the memory is taken as every instance's beginning.

The interpreter allocates with the C library's allocator, which takes the best of the holes that the build left all over the heap: each
of the first few hundred objects of a program would lie on a page of its own, and every page that is written to for the first time costs
an instance more than the object. So the holes are filled, with objects that stay for ever, and one large one is left, which is empty.
"""

import gc

# A program that needs no more than this asks the host for no memory.
_ROOM = 4 << 20
# The largest hole that is filled, and the smallest that an object of bytes fills.
_LARGEST, _SMALLEST = 1 << 16, 32
# What an object of bytes has besides its content, with the allocator's own word.
_OVERHEAD = 21
# Holes come in steps of so many bytes.
_STEP = 16


class _Fillers:
    """Keeps what fills the holes, in lists that never grow: what a list leaves behind when it grows is another hole."""

    LENGTH = 1000

    def __init__(self) -> None:
        self.last = [None] * self.LENGTH
        self.used = 1

    def keep(self, filler) -> int:
        if self.used == self.LENGTH:
            full = self.last
            self.last = [None] * self.LENGTH
            self.last[0] = full
            self.used = 1
        self.last[self.used] = filler
        self.used += 1
        return id(filler)


_fillers = _Fillers()


def fill(end: int) -> None:
    """Fills every hole of the heap below the address `end`. Nothing that frees more than a few objects may come after it."""
    # Also empties the interpreter's own lists of objects to use again, which lie where they were freed.
    gc.collect()
    keep = _fillers.keep
    size = _LARGEST
    while size >= _SMALLEST:
        while keep(bytes(size - _OVERHEAD)) < end:
            pass
        size -= _STEP if size <= 2048 else max(_STEP, size // 16)
    while keep(object()) < end:
        pass
    # With something behind it, so that it is a hole like any other: what the allocator has left at the end of the heap it counts on when
    # it asks for more, and the stack lies between that and what it gets.
    room = bytes(_ROOM)
    keep(object())
    del room
