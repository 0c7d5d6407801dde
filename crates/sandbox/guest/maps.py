"""The part of `mmap` that programs use: the whole of standard input as bytes, or anonymous memory."""

import io
import os

ACCESS_DEFAULT, ACCESS_READ, ACCESS_WRITE, ACCESS_COPY = range(4)
MAP_SHARED, MAP_PRIVATE, MAP_ANON, MAP_ANONYMOUS = 1, 2, 32, 32
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
PAGESIZE = ALLOCATIONGRANULARITY = 4096
error = OSError


def _content(fileno, length, offset):
    if fileno == -1:
        if length <= 0:
            raise ValueError("cannot mmap an empty file")
        return bytes(length)
    if fileno != 0:
        raise OSError(19, "No such device")
    with open(0, "rb", closefd=False) as file:
        content = file.read()
    if not content:
        raise ValueError("cannot mmap an empty file")
    if offset + length > len(content):
        raise ValueError("mmap length is greater than file size")
    return content[offset : offset + length if length else None]


class mmap(io.BytesIO):
    __module__ = "mmap"

    def __init__(self, fileno, length, flags=MAP_SHARED, prot=PROT_READ | PROT_WRITE, access=ACCESS_DEFAULT, offset=0):
        super().__init__(_content(fileno, length, offset))
        self._reads_only = access == ACCESS_READ or not prot & PROT_WRITE

    def __len__(self):
        return len(self.getbuffer())

    size = __len__

    def __getitem__(self, index):
        found = self.getbuffer()[index]
        return found if isinstance(found, int) else bytes(found)

    def __setitem__(self, index, value):
        if self._reads_only:
            raise TypeError("mmap can't modify a readonly memory map.")
        self.getbuffer()[index] = value

    def __iter__(self):
        # Bytes, not the lines of a file.
        return (bytes((byte,)) for byte in self.getvalue())

    def find(self, sub, start=None, end=None):
        return self.getvalue().find(sub, self.tell() if start is None else start, end)

    def rfind(self, sub, start=None, end=None):
        return self.getvalue().rfind(sub, self.tell() if start is None else start, end)

    def read_byte(self):
        byte = self.read(1)
        if not byte:
            raise ValueError("read byte out of range")
        return byte[0]

    def write(self, data):
        if self._reads_only:
            raise TypeError("mmap can't modify a readonly memory map.")
        if len(data) > len(self) - self.tell():
            raise ValueError("data out of range")
        return super().write(data)

    def flush(self, *args):
        pass

    def madvise(self, *args):
        pass
