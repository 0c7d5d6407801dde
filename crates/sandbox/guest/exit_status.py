"""How a program ended: the number that comes first in everything that the guest returns to the host.

The host decodes these numbers in `sandbox/exit_status.rs`.
"""

RETURNED = 0  # it completed; with a marshalled value, or captured text
RAISED = 1  # an uncaught exception; with its message
EXITED = 2  # SystemExit; with the exit code in decimal digits
COMPILE_ERROR = 3  # the source does not compile; with the error message
OUT_OF_MEMORY = 4  # an uncaught MemoryError
NO_SUCH_FUNCTION = 5  # the program does not define the function
LOAD_FAILED = 6  # an exception while loading the program, before any test
FATAL = 7  # an exception that the reference grader does not survive (BaseException)

# Error messages are truncated to this many bytes.
MESSAGE_BYTES = 4096


def message(error: BaseException) -> bytes:
    """The message of an exception. The program may have defined its methods, so anything can happen."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # the program's own __str__ may raise anything
        text = type(error).__name__
    return text[:MESSAGE_BYTES].encode("utf-8", "replace")
