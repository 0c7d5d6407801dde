"""The rest of the standard library: modules that are not imported in advance, stored as marshalled code in the memory of the guest.

The finished guest has no file system to import from. Importing everything in advance would run code with effects (`this` prints,
`antigravity` opens a browser).
"""

import importlib.abc
import importlib.machinery
import marshal
import os
import sys

import threads

# Not available to programs: tests, tools that need a display or a compiler, and their data. The guest has its own `ctypes`.
SKIPPED_PACKAGES = frozenset(("test", "idlelib", "tkinter", "turtledemo", "ensurepip", "venv", "lib2to3", "site-packages", "ctypes", "lib-dynload", "__pycache__"))
SKIPPED_MODULES = frozenset(("turtle",))


class Library(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from the code objects that were compiled during the build."""

    def __init__(self, root: str) -> None:
        self._codes: dict[str, tuple[bool, bytes]] = {}
        self._collect(root, "")

    def _collect(self, folder: str, prefix: str) -> None:
        for entry in sorted(os.listdir(folder)):
            path = f"{folder}/{entry}"
            if entry.endswith(".py"):
                self._add(path, prefix, entry[:-3])
            elif entry not in SKIPPED_PACKAGES and entry.isidentifier() and os.path.exists(f"{path}/__init__.py"):
                if entry != "tests":
                    self._collect(path, f"{prefix}{entry}.")

    def _add(self, path: str, prefix: str, stem: str) -> None:
        is_package = stem == "__init__"
        name = prefix[:-1] if is_package else prefix + stem
        if not name or name in sys.modules or name in SKIPPED_MODULES:
            return
        with open(path, "rb") as file:
            source = file.read()
        try:
            code = compile(source, path, "exec", dont_inherit=True)
        except SyntaxError:  # templates that ship with a .py ending
            return
        self._codes[name] = (is_package, marshal.dumps(code))

    def find_spec(self, name, path=None, target=None):
        found = self._codes.get(name)
        if found is None:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=found[0])

    def create_module(self, spec):
        return None

    def exec_module(self, module) -> None:
        name = module.__spec__.name
        exec(marshal.loads(self._codes[name][1]), module.__dict__)
        if name == "concurrent.futures.thread":
            threads.patch_executor(module)
