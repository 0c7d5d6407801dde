"""Finds the initial objects of the guest, which the linker makes immortal.

Counting references writes to an object's page without any lasting change: this affects half of the pages that a short program writes to. The
interpreter does not count references to immortal objects, and initial objects live as long as the instance anyway. The addresses are left in
an array, from which `link/immortal.rs` finds the counts in the guest's memory.
"""

import gc
from array import array
from itertools import count
from types import CodeType

# Marks the beginning of the array and occurs nowhere else: four words that count down.
MARK = (0xE7E2_0004, 0xE7E2_0003, 0xE7E2_0002, 0xE7E2_0001)
# Capacity of the array, in objects.
_CAPACITY = 1 << 18
# Upper bound of addresses.
_HIGHEST = 1 << 27
# Alignment of objects in bytes.
_ALIGNMENT = 8


def find() -> array:
    """The mark, the number of objects, and for each its address and that of its type."""
    found = array("I", [0]) * (len(MARK) + 1 + 2 * _CAPACITY)
    seen = bytearray(_HIGHEST // _ALIGNMENT // 8)
    at = len(MARK) + 1
    todo = gc.get_objects()
    while todo:
        thing = todo.pop()
        address = id(thing)
        bit = address // _ALIGNMENT
        if seen[bit >> 3] >> (bit & 7) & 1:
            continue
        seen[bit >> 3] |= 1 << (bit & 7)
        found[at], found[at + 1] = address, id(type(thing))
        at += 2
        todo += _parts(thing) if type(thing) is CodeType else gc.get_referents(thing)
    found[len(MARK)] = (at - len(MARK) - 1) // 2
    for index, word in enumerate(MARK):
        found[index] = word
    return found


def end(found: array) -> int:
    """The end address of the array."""
    address, words = found.buffer_info()
    return address + words * found.itemsize


def _parts(code: CodeType) -> tuple:
    # The garbage collector does not traverse code, but it refers to objects.
    texts = (code.co_name, code.co_qualname, code.co_filename)
    return (*code.co_consts, code.co_consts, *code.co_names, code.co_names, *_variables(code), *texts, code.co_linetable, code.co_exceptiontable)


def _variables(code: CodeType):
    # One by one: the code object would cache the tuple of all names.
    for index in count():
        try:
            yield code._varname_from_oparg(index)
        except IndexError:
            return
