"""The imports that LiveCodeBench's grader puts before every program, executed once during the build."""

STARRED = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json builtins typing"
).split()

SOURCE = "".join(f"from {module} import *\n" for module in STARRED) + "".join(
    f"import {module}\n" for module in STARRED if module not in ("builtins", "typing")
)

# Also set by the header.
RECURSION_LIMIT = 50_000
# Limit of the grader's process on the digits of integers as text.
INT_DIGITS = 50_000


def names() -> dict[str, object]:
    """The names that the header defines, for the namespace of a module."""
    namespace: dict[str, object] = {}
    exec(SOURCE, namespace)
    for hidden in ("__builtins__", "__doc__", "__name__"):
        namespace.pop(hidden, None)
    return namespace
