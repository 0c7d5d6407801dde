"""Replaces the entropy of a build of the guest.

The interpreter draws the seed of its string hashes during the build and keeps it, so that with guests from different builds the same set
would iterate in different orders. componentize-py does not pass PYTHONHASHSEED through. Its sources of entropy are therefore replaced during
the build: the slots of `getrandom`, `syscall` and `dlsym` in its table of imported functions are pointed at code that fills the buffer with a
constant byte. On Linux on x86-64 only; elsewhere the build reports that its seed is specific to it.
"""

import ctypes
import mmap
import platform
import struct
import sys

FILL = 0x5A
SYS_GETRANDOM = 318
R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT = 6, 7
DT_NULL, DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_JMPREL = 0, 2, 5, 6, 7, 8, 23

# Fills RCX bytes at RDI with AL and returns RDX.
_FILL = bytes([0xB0, FILL, 0xF3, 0xAA, 0x48, 0x89, 0xD0, 0xC3])
# getrandom(buffer, length, flags)
_GETRANDOM = bytes.fromhex("4889f1 4889f2") + _FILL
# syscall(number, buffer, length, ...): calls the real one unless the number is that of getrandom.
_SYSCALL = bytes.fromhex("4881ff") + struct.pack("<i", SYS_GETRANDOM) + bytes.fromhex("750e 4889f7 4889d1") + _FILL
# dlsym(handle, name): calls the real one unless the name starts with "getrando".
_DLSYM = bytes.fromhex("48b8") + b"getrando" + bytes.fromhex("483906 750b")


def supported() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 2**32


def fix(library: str) -> None:
    """Replaces the sources of entropy of a library, which must be loaded."""
    base = _base(library)
    dynamic = _dynamic(library, base)
    libc = ctypes.CDLL(None)
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    fix.code = code  # kept until the process exits
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    parts = {
        b"getrandom": _GETRANDOM,
        b"syscall": _SYSCALL + _load(libc.syscall) + b"\xff\xe0",
        b"dlsym": _DLSYM + _load(address) + b"\xc3" + _load(libc.dlsym) + b"\xff\xe0",
    }
    replacements = {}
    for index, (name, instructions) in enumerate(parts.items()):
        code[64 * index : 64 * index + len(instructions)] = instructions
        replacements[name] = address + 64 * index
    replaced = set()
    for slot, name in _slots(base, dynamic):
        if name in replacements:
            page = slot & ~(mmap.PAGESIZE - 1)
            libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(2 * mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_WRITE)
            ctypes.c_uint64.from_address(slot).value = replacements[name]
            replaced.add(name)
    if replaced != set(replacements):
        raise RuntimeError(f"componentize-py imports {sorted(replaced)}, expected: {sorted(replacements)}")


def _load(address) -> bytes:
    """mov rax, address"""
    value = address if isinstance(address, int) else ctypes.cast(address, ctypes.c_void_p).value
    return b"\x48\xb8" + struct.pack("<Q", value)


def _base(library: str) -> int:
    with open("/proc/self/maps") as maps:
        return min(int(line.split("-", 1)[0], 16) for line in maps if line.rstrip().endswith(library))


def _dynamic(library: str, base: int) -> dict[int, int]:
    with open(library, "rb") as file:
        header = file.read(64)
        offset, size, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
        file.seek(offset)
        table = file.read(size * count)
    segments = [struct.unpack_from("<IIQQQQQQ", table, index * size) for index in range(count)]
    [address] = [segment[3] for segment in segments if segment[0] == 2]
    entries = {}
    for at in range(base + address, base + address + 16 * 256, 16):
        tag, value = struct.unpack("<QQ", ctypes.string_at(at, 16))
        if tag == DT_NULL:
            break
        entries[tag] = value
    return entries


def _slots(base: int, dynamic: dict[int, int]):
    # glibc relocates these pointers in place when it loads a library.
    symbols, strings = dynamic[DT_SYMTAB], dynamic[DT_STRTAB]
    for table, size in ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)):
        if table not in dynamic:
            continue
        raw = ctypes.string_at(dynamic[table], dynamic[size])
        for offset, info, _ in struct.iter_unpack("<QQq", raw):
            if info & 0xFFFFFFFF in (R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT):
                [name] = struct.unpack("<I", ctypes.string_at(symbols + 24 * (info >> 32), 4))
                yield base + offset, ctypes.string_at(strings + name)
