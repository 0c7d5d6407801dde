"""The imports that LiveCodeBench's grader writes before every program, made once while the guest is built."""

STARRED = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json builtins typing"
).split()

SOURCE = "".join(f"from {module} import *\n" for module in STARRED) + "".join(
    f"import {module}\n" for module in STARRED if module not in ("builtins", "typing")
)

# What the header sets besides.
RECURSION_LIMIT = 50_000
# The grader's own process allows integers of so many digits as text.
INT_DIGITS = 50_000


def names() -> dict[str, object]:
    """The names that the header binds, for a module's namespace."""
    namespace: dict[str, object] = {}
    exec(SOURCE, namespace)
    for hidden in ("__builtins__", "__doc__", "__name__"):
        namespace.pop(hidden, None)
    return namespace
