"""Room for a deep stack: a large empty array that the guest keeps, with a mark at each end by which the build finds it.

The other half is `stack_patch.py`. Nothing of that may be in the guest's memory, where it looks for the interpreter's own numbers.
"""

SIZE = 48 << 20
MARK = 32


def reserve() -> bytearray:
    """An array with a mark at each end. It must be kept as long as the guest lives."""
    stack = bytearray(SIZE)
    for index in range(MARK):
        stack[index] = 200 + index
        stack[SIZE - 1 - index] = 200 + index
    return stack
