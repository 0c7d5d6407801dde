"""How a piece of work in the guest ended: the first half of every answer to the host.

The numbers are those of `Ending` in the host's `sandbox/ending.rs`.
"""

RETURNED = 0  # it came to its end; the rest is a value in marshal's form, or the text that was captured
RAISED = 1  # an exception that nothing caught; the rest is its text
EXITED = 2  # SystemExit; the rest is the exit status in decimal digits
NOT_A_PROGRAM = 3  # the source does not compile; the rest is why
OUT_OF_MEMORY = 4  # MemoryError that nothing caught
NO_SUCH_FUNCTION = 5  # the program has no function of that name
NOT_LOADED = 6  # raised while the program was loaded, before any test
DIED = 7  # an exception that the reference grader does not survive (BaseException)

# An error's text is cut to this many bytes.
TEXT_BYTES = 4096


def text(error: BaseException) -> bytes:
    """What an exception says of itself. The program may have written that, so nothing is taken for granted."""
    try:
        said = f"{type(error).__name__}: {error}"
    except BaseException:  # the program's own __str__ may raise anything
        said = type(error).__name__
    return said[:TEXT_BYTES].encode("utf-8", "replace")
