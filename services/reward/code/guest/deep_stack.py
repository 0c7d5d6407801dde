"""Room for a deep stack: a large empty array that the guest keeps, with a mark at its low end by which the build finds it.

The other half is `stack_patch.py`. Nothing of that may be in the guest's memory, where it looks for the interpreter's own numbers.
"""

SIZE = 48 << 20
MARK = 32


def reserve() -> bytearray:
    """An array that begins with a mark: bytes that rise and fall again. It must be kept as long as the guest lives."""
    stack = bytearray(SIZE)
    for index in range(MARK):
        stack[index] = 200 + index
        stack[2 * MARK - 1 - index] = 200 + index
    return stack
