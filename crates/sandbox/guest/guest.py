"""The exports of `wit/sandbox.wit`, and the initialisation of the guest during the build."""

import gc
import random
import sys

import wit_world

import platform64

# Before any module imports a standard stream or `open` by name.
platform64.install()

import dense
import foreign
import grader
import immortal
import library
import maps
import process
import threads
import warm
import wide

# Modules that are imported in advance, in addition to those of LiveCodeBench's header, so that no test pays for them.
_USED = (
    "abc array ast atexit base64 binascii cmath contextlib dataclasses decimal enum fileinput fractions graphlib hashlib inspect "
    "linecache locale logging numbers os pickle pprint queue resource secrets shutil signal string struct subprocess tempfile textwrap "
    "threading time timeit traceback types unicodedata unittest.mock uuid warnings weakref zlib"
).split()


class WitWorld(wit_world.WitWorld):
    """The exported functions."""

    def compile(self, source: bytes) -> tuple[int, bytes]:
        return process.compiled(source)

    def process(self, source: bytes, code: bytes, stdin_bytes: int) -> tuple[int, bytes]:
        platform64.has_input(stdin_bytes)
        return process.run(source, code)

    def call(self, source: bytes, code: bytes, name: str, input: bytes) -> tuple[int, bytes]:
        return process.call(source, code, name, input)

    def prepare(self, source: bytes, code: bytes, called: bool) -> tuple[int, bytes]:
        return process.prepare(source, code, called)

    def resume(self, stdin_bytes: int, name: str, input: bytes) -> tuple[int, bytes]:
        if process.Prepared.called:
            return process.resume_call(name, input)
        platform64.has_input(stdin_bytes)
        return process.resume()

    def load(self, source: bytes, name: str) -> tuple[int, bytes]:
        return grader.load(source, name)

    def grade(self, input: bytes) -> tuple[int, bytes]:
        return grader.grade(input)


def _build() -> None:
    for name in _USED:
        try:
            __import__(name)
        except ImportError:  # not part of a WASI build; a program that imports it gets the same error
            pass
    # Replacements of modules that WASI lacks. Files with these names would also shadow the modules of the Python that runs the build.
    for name, module in (("ctypes", foreign), ("mmap", maps)):
        module.__name__ = name
        sys.modules[name] = module
    sys.meta_path.append(library.Library("/python"))
    threads.install()
    wide.install()
    platform64.forget_files()
    warm.run(WitWorld())


def _settle(name: str):
    """Called when the builder looks up `random.seed`, its last action before it takes the memory image. Every new instance calls the result.

    That is a function that does nothing, since the generator starts in the same state in every instance. Programs find the real function.
    """
    if name != "seed":
        raise AttributeError(f"module 'random' has no attribute {name!r}")
    del random.__getattr__
    random.seed = random._inst.seed
    # The same state in every build.
    random.seed(0)
    global _immortal
    _immortal = immortal.find()
    dense.fill(immortal.end(_immortal))
    # Collections ignore initial objects and therefore do not write to their pages.
    gc.freeze()
    return _nothing


def _nothing() -> None:
    pass


_build()
del random.seed
random.__getattr__ = _settle
