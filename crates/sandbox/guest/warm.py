"""Programs that are run during the build as a warm-up.

The interpreter specialises the code of a function during its first calls, abstract classes cache subclass checks, and modules import others
on first use. After the warm-up all of this is part of the memory image, so that no instance has to write to these pages.
"""

import gc
import re
import sys

# Typical use of the library.
_PROGRAM = b"""
import bisect, functools, heapq, itertools, math, operator, re, string, sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any, Dict, List, Optional, Set, Tuple, Union

def parts(a: List[int], b: Dict[str, List[int]], c: Optional[Tuple[int, ...]] = None) -> Set[int]:
    return set(a)

for words in (["a", "b", "a"], ("a", "b"), "aba", {"a": 1}, {1, 2}, (x for x in "ab"), deque("ab"), range(3), b"ab"):
    count = Counter(words)
    count.most_common(1), count.most_common(), count.total(), count["z"]
    list(count.elements()), count + count, count - count
    count.update("ab")
    count.subtract("a")
table = defaultdict(list)
table[1].append(2)
OrderedDict(a=1).move_to_end("a")
heapq.nlargest(2, [3, 1, 2]), heapq.nsmallest(2, [3, 1, 2]), heapq.nlargest(1, [3, 1], key=lambda x: -x), list(heapq.merge([1, 3], [2]))
sorted("cab", key=lambda x: x), sorted([2, 1], key=functools.cmp_to_key(lambda x, y: x - y), reverse=True)
functools.reduce(operator.add, [1, 2]), math.gcd(4, 6), math.isqrt(9), bisect.bisect([1, 2], 1)

@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

fibonacci(10)
re.findall(r"(\\d+)", "a1b22"), re.sub(r"\\s+", " ", "a  b"), re.split(r"[,;]", "a,b;c"), re.match(r"(?P<x>a)*", "aa").group("x")
Fraction(1, 3) + Fraction(1, 6) < 1, Decimal("1.5") * 2
list(itertools.accumulate([1, 2])), list(itertools.permutations([1, 2, 3])), list(itertools.groupby("aab"))
Point = namedtuple("Point", "x y")
Point(1, 2)._replace(x=3)
"%05.2f %s" % (1.5, "a"), "{:>5} {}".format(1, "a"), f"{1.5:.3f} {10:,} {5:b}", "a b".split(), "a,b".split(","), " ".join(["a"]), " a ".strip()
print(*[], sep=" ", end="")
sys.stdout.write("")
sys.stdout.flush()
"""

_FUNCTION = b"""
class Solution:
    def f(self, a: List[int], b: str, c: Dict[str, float]) -> List[int]:
        return [x for x in a]
"""

# Runs until the interpreter has specialised the code.
_RUNS = 100


def run(world) -> None:
    """Runs programs with the exported functions of `world`."""
    limits = sys.getrecursionlimit(), sys.get_int_max_str_digits()
    before = set(sys.modules)
    for source in (b"import sys\nx = [int(v) for v in '1 2'.split()]\nprint(end='')", b"raise SystemExit", b"1 +", b"1 / 0"):
        world.process(source, b"", 0)
        world.process(source, world.compile(source)[1], 0)
    for _ in range(_RUNS):
        world.process(_PROGRAM, world.compile(_PROGRAM)[1], 0)
        world.process(b"print(end='')", b"", 0)
        world.call(_FUNCTION, b"", "f", b'[1, 2]\n"x"\n{"a": 1.5}')
        for source, name, given in ((_PROGRAM, "", b""), (_FUNCTION, "f", b'[1, 2]\n"x"\n{"a": 1.5}')):
            world.prepare(source, world.compile(source)[1], bool(name))
            world.resume(0, name, given)
    # Clean up.
    sys.setrecursionlimit(limits[0])
    sys.set_int_max_str_digits(limits[1])
    for name in ("__main__", "solution"):
        if name not in before:
            del sys.modules[name]
    del sys.tracebacklimit
    re.purge()
    gc.collect()
