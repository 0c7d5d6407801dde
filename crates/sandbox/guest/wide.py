"""Ranges and sizes beyond 2**31 in functions of the library that do not depend on a 32-bit length.

`len(range(10**12))` raises if lengths have 32 bits. The functions of `random` call it, but work without it.
"""

import os
import random

_real_read = os.read
# Longest range with a length.
_LONGEST = 2**31 - 1


def _size(population: range) -> int:
    step = population.step
    return max(0, (population.stop - population.start + step - (1 if step > 0 else -1)) // step)


def _is_long(population) -> bool:
    return type(population) is range and _size(population) > _LONGEST


def _choice(self, seq):
    if _is_long(seq):
        return seq[self._randbelow(_size(seq))]
    return _real_choice(self, seq)


def _choices(self, population, weights=None, *, cum_weights=None, k=1):
    if _is_long(population) and weights is None and cum_weights is None:
        size = _size(population) + 0.0
        return [population[int(self.random() * size)] for _ in range(k)]
    return _real_choices(self, population, weights, cum_weights=cum_weights, k=k)


def _sample(self, population, k, *, counts=None):
    if not _is_long(population) or counts is not None:
        return _real_sample(self, population, k, counts=counts)
    # The algorithm of the original for small samples, so that the result is the same.
    size, seen, result = _size(population), set(), []
    if k < 0:
        raise ValueError("Sample larger than population or is negative")
    for _ in range(k):
        index = self._randbelow(size)
        while index in seen:
            index = self._randbelow(size)
        seen.add(index)
        result.append(population[index])
    return result


def _read(fd, length, /):
    # The buffer is allocated in advance: limit it to the size of the input.
    if fd == 0 and type(length) is int and length > 1 << 16:
        length = min(length, max(1 << 16, os.fstat(0).st_size))
    return _real_read(fd, length)


_Random = random.Random
_real_choice, _real_choices, _real_sample = _Random.choice, _Random.choices, _Random.sample


def install() -> None:
    """Replaces the methods, and the functions of the module, which are methods of its generator."""
    for name, method in (("choice", _choice), ("choices", _choices), ("sample", _sample)):
        method.__name__, method.__qualname__ = name, f"Random.{name}"
        setattr(_Random, name, method)
        setattr(random, name, getattr(random._inst, name))
    _read.__name__ = _read.__qualname__ = "read"
    os.read = _read
