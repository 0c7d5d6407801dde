"""Finds the objects that the finished guest begins with, so that hardly one of them is ever counted again.

A reference that is taken and given back writes to the object's page, though nothing changes: half of the pages that a short program
writes to are such. The interpreter leaves the counts of immortal objects alone, and what is there from the beginning has no end before
the instance has. The addresses are left in an array, by which `link/immortal.rs` finds the counts in the guest's memory.
"""

import gc
from array import array
from itertools import count
from types import CodeType

# Begins the array, and is nowhere else: four words that count down.
MARK = (0xE7E2_0004, 0xE7E2_0003, 0xE7E2_0002, 0xE7E2_0001)
# Objects for which there is room.
_MOST = 1 << 18
# No object lies higher.
_HIGHEST = 1 << 27
# Objects lie at multiples of so many bytes.
_ALIGNMENT = 8


def find() -> array:
    """The mark, the number of objects, and for each its address and that of its type."""
    found = array("I", [0]) * (len(MARK) + 1 + 2 * _MOST)
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
    """The address behind the array."""
    address, words = found.buffer_info()
    return address + words * found.itemsize


def _parts(code: CodeType) -> tuple:
    # Collections do not look into code, but it holds objects.
    texts = (code.co_name, code.co_qualname, code.co_filename)
    return (*code.co_consts, code.co_consts, *code.co_names, code.co_names, *_variables(code), *texts, code.co_linetable, code.co_exceptiontable)


def _variables(code: CodeType):
    # One by one: asked for all of them, the code would keep the answer.
    for index in count():
        try:
            yield code._varname_from_oparg(index)
        except IndexError:
            return
