"""Gives the finished guest a deep stack.

componentize-py links its interpreter with a stack of 1 MiB, which ends a recursion through C (an `lru_cache`, an `__init__`) after
some 2,500 levels, where native CPython goes on. So the guest keeps a large empty array when it is built (`deep_stack.py`), and the built
component is changed so that the array is its stack: the initial value of the stack pointer, and the three bounds that the
interpreter remembers for its own check. If any of them is not found exactly where it belongs, the build fails.
"""

import struct

from deep_stack import MARK, SIZE

_OLD_TOP = 1 << 20
# From the lowest address: what the interpreter keeps free for itself (its own margins), as it had them in the old stack.
_OLD_BOUNDS = struct.pack("<III", _OLD_TOP, 0x4000, 0x2000)
# Besides those, room below the stack for C code that checks nothing.
_SPARE = 1 << 20


def install(path: str) -> None:
    """Makes the reserved array the stack of a component."""
    with open(path, "rb") as file:
        component = file.read()
    outer = list(_sections(component, 8, len(component)))
    # The first core module holds the memory that all others share, and what is in it at the beginning.
    start, at, size = next((start, at, size) for kind, start, at, size in outer if kind == 1)
    sections = [(kind, component[at : at + length]) for kind, _, at, length in _sections(component, at + 8, at + size)]
    if any(kind == 12 for kind, _ in sections):
        raise RuntimeError("the component counts its data segments beforehand, which was not expected")
    segments = list(_segments(dict(sections)[11]))
    low = _reserved(segments)
    top = (low + SIZE - 4096) & ~4095
    bounds = struct.pack("<III", top, low + _SPARE + 0x4000, low + _SPARE + 0x2000)
    changed = {
        6: _with_stack_pointer(dict(sections)[6], top),
        11: _with_segment(dict(sections)[11], _bounds(segments), bounds),
    }
    body = component[at : at + 8]
    for kind, content in sections:
        content = changed.get(kind, content)
        body += bytes([kind]) + _number(len(content)) + content
    with open(path, "wb") as file:
        file.write(component[:start] + b"\x01" + _number(len(body)) + body + component[at + size :])


def _with_stack_pointer(globals_section: bytes, top: int) -> bytes:
    # The first is the stack pointer; the second says where the stack was, for whoever asks.
    old = b"\x7f\x01\x41" + _signed(_OLD_TOP) + b"\x0b"
    if globals_section.count(old) != 2:
        raise RuntimeError("the component's stack pointer is not where it was expected")
    return globals_section.replace(old, b"\x7f\x01\x41" + _signed(top) + b"\x0b")


def _with_segment(data_section: bytes, address: int, content: bytes) -> bytes:
    # Segments are written in their order: the last one wins.
    count, at = _unsigned(data_section, 0)
    segment = b"\x00\x41" + _signed(address) + b"\x0b" + _number(len(content)) + content
    return _number(count + 1) + data_section[at:] + segment


def _segments(data_section: bytes):
    """The parts of the memory that are not zero: their addresses and contents."""
    count, at = _unsigned(data_section, 0)
    for _ in range(count):
        if data_section[at : at + 2] != b"\x00\x41":
            raise RuntimeError("a data segment of another kind than expected")
        address, at = _unsigned(data_section, at + 2)
        length, at = _unsigned(data_section, at + 1)
        yield address, data_section[at : at + length]
        at += length


def _reserved(segments: list[tuple[int, bytes]]) -> int:
    """The address of the reserved array, from the mark at its low end."""
    rising = bytes(200 + index for index in range(MARK))
    mark = rising + rising[::-1]
    [low] = [address + content.find(mark) for address, content in segments if mark in content]
    return low


def _bounds(segments: list[tuple[int, bytes]]) -> int:
    """The address of the interpreter's bounds of its old stack."""
    # A segment ends with its last byte that is not zero.
    padded = ((address, content + bytes(8)) for address, content in segments)
    found = [address + content.find(_OLD_BOUNDS) for address, content in padded if _OLD_BOUNDS in content]
    if len(found) != 1:
        raise RuntimeError(f"the interpreter's stack bounds were found {len(found)} times")
    return found[0]


def _sections(data: bytes, at: int, end: int):
    """The sections of a module or component: kind, where it starts, where its content starts, the content's length."""
    while at < end:
        start = at
        length, at = _unsigned(data, at + 1)
        yield data[start], start, at, length
        at += length


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _number(value: int) -> bytes:
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def _signed(value: int) -> bytes:
    # As wide as the linker writes it: four bytes, of which 27 bits are a number above zero.
    if not 0 <= value < 1 << 27:
        raise RuntimeError(f"the stack would end at {value}, which is too far up")
    return bytes([value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127 | 128, value >> 21])
