"""Makes the heap dense before the memory image is taken.

The interpreter uses the C library's allocator, whose best-fit strategy would use the holes that the build leaves all over the heap: each of
the first few hundred objects of a program would be on a different page, and the first write to a page costs an instance more than the object.
The holes are therefore filled with permanent objects, and one large hole is left.
"""

import gc

# A program that needs no more than this does not grow its memory.
_FREE = 4 << 20
# The largest hole to fill, and the smallest that a bytes object fills.
_LARGEST, _SMALLEST = 1 << 16, 32
# Overhead of a bytes object, including that of the allocator.
_OVERHEAD = 21
# Sizes of holes are multiples of this.
_STEP = 16


class _Fillers:
    """Keeps the fillers in lists that never grow: a growing list leaves another hole behind."""

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
    """Fills all holes of the heap below the address `end`. Hardly anything may be freed afterwards."""
    # Also empties the free lists of the interpreter.
    gc.collect()
    keep = _fillers.keep
    size = _LARGEST
    while size >= _SMALLEST:
        while keep(bytes(size - _OVERHEAD)) < end:
            pass
        size -= _STEP if size <= 2048 else max(_STEP, size // 16)
    while keep(object()) < end:
        pass
    # An object after it makes it a hole like any other. The allocator would extend free memory at the end of the heap, but the stack lies
    # between that and any new memory.
    free = bytes(_FREE)
    keep(object())
    del free
