"""Lengths beyond 2**31, where the interpreter's own functions ask for one that they cannot be told.

`len(range(10**12))` cannot be answered where lengths have 32 bits. The functions of `random` ask for it, and need not.
"""

import os
import random

_real_read = os.read
# A range that is longer has no length here.
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
    # As the original goes about many more than are asked for: it is the same sample.
    size, seen, result = _size(population), set(), []
    if k < 0:
        raise ValueError("Sample larger than population or is negative")
    for _ in range(k):
        place = self._randbelow(size)
        while place in seen:
            place = self._randbelow(size)
        seen.add(place)
        result.append(population[place])
    return result


def _read(fd, length, /):
    # The buffer is made before anything is read: as long as what is there, where more is asked for.
    if fd == 0 and type(length) is int and length > 1 << 16:
        length = min(length, max(1 << 16, os.fstat(0).st_size))
    return _real_read(fd, length)


_Random = random.Random
_real_choice, _real_choices, _real_sample = _Random.choice, _Random.choices, _Random.sample


def install() -> None:
    """Replaces the methods, and the functions of the module that are methods of its own generator."""
    for name, method in (("choice", _choice), ("choices", _choices), ("sample", _sample)):
        method.__name__, method.__qualname__ = name, f"Random.{name}"
        setattr(_Random, name, method)
        setattr(random, name, getattr(random._inst, name))
    _read.__name__ = _read.__qualname__ = "read"
    os.read = _read
