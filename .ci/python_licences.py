#!/usr/bin/env python3
"""The licences of what is in the wheel besides this project, with their copyright lines: python/THIRD_PARTY_LICENSES.txt.

    .ci/python_licences.py            whether the file is what it should be
    .ci/python_licences.py --write    writes it
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "python/THIRD_PARTY_LICENSES.txt"
PLATFORM = "x86_64-unknown-linux-gnu"
# The extension, and the program that the wheel has for the sandbox.
PARTS = ["evenkeel-python", "evenkeel-guest"]
LLVM = "Apache-2.0 WITH LLVM-exception"
# Where a crate may be used under several, the shortest; and of each the files that may have its text, with words that it has.
NAMES = {
    "MIT": (["LICENSE-MIT", "LICENSE-MIT.md", "LICENSE", "LICENSE.md", "LICENSE.txt", "license-mit"], "Permission is hereby granted"),
    "Zlib": (["LICENSE", "LICENSE-ZLIB"], ""),
    "BSD-3-Clause": (["LICENSE.BSD-3-Clause", "LICENSE-WHATWG", "LICENSE"], "Redistribution and use"),
    "BSD-2-Clause": (["LICENSE.BSD-2-Clause", "LICENSE"], "Redistribution and use"),
    "Unicode-3.0": (["LICENSE-UNICODE"], "UNICODE"),
    LLVM: ([], ""),
    "Apache-2.0": ([], ""),
}
RULE = "\n" + "-" * 78 + "\n\n"
INTERPRETER = """The sandbox's interpreter, evenkeel_rlvr/_sandbox/guest-*.wasm.zst, is CPython 3.14 compiled to WebAssembly and linked by
componentize-py (Apache-2.0 WITH LLVM-exception) with wasi-libc (Apache-2.0 WITH LLVM-exception, MIT). The licence of CPython
follows; the software that is incorporated in it is listed with its licences in its documentation,
https://docs.python.org/3.14/license.html."""


def crates():
    """(name, licence, folder) of every crate of another project in the wheel, macros and build scripts excluded."""
    metadata = json.loads(
        subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM], cwd=ROOT, text=True)
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    # What the wheel alone enables: the workspace's other crates ask for more of the same ones.
    packages_of = [argument for part in PARTS for argument in ("-p", part)]
    tree = subprocess.check_output(
        ["cargo", "tree", *packages_of, "-e", "normal", "--prefix", "none", "--format", "{p}", "--locked", "--target", PLATFORM],
        cwd=ROOT,
        text=True,
    )
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if "(proc-macro)" not in line}
    found, waiting = set(), [id for id, package in packages.items() if package["name"] in PARTS]
    while waiting:
        id = waiting.pop()
        package = packages[id]
        is_macro = any("proc-macro" in target["kind"] for target in package["targets"])
        if id in found or is_macro or (package["name"], f"v{package['version']}") not in linked:
            continue
        found.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    others = [packages[id] for id in found if packages[id]["source"]]
    return sorted((p["name"], p["license"], pathlib.Path(p["manifest_path"]).parent) for p in others)


def chosen(name, expression, folder):
    """The licences of a crate with their texts: of each alternative the first whose text there is."""
    found = {}
    for part in expression.replace("/", " OR ").split(" AND "):
        offered = [word.strip("() ") for word in part.split(" OR ")]
        texts = ((licence, text(licence, folder)) for licence in NAMES if licence in offered)
        licence, words = next(((licence, words) for licence, words in texts if words), (None, None))
        if licence is None:
            sys.exit(f"{name} has the licence {expression}, allowed: {', '.join(NAMES)}, with the text in {folder}")
        found[licence] = words
    return found


def text(licence, folder):
    """The text of a licence in a crate, if it has it."""
    if licence == "Apache-2.0":
        return "The text is that of LICENSE.\n"
    if licence == LLVM:
        return "The text is that of LICENSE with the LLVM exception, at the end of this file.\n"
    files, words = NAMES[licence]
    for path in (folder / file for file in files):
        if path.exists() and words in path.read_text():
            return path.read_text().replace("\r\n", "\n").strip() + "\n"
    return None


def llvm_exception(found):
    """The exception, of the licence of wasmtime."""
    folder = next(folder for name, _, folder in found if name == "wasmtime")
    _, _, exception = (folder / "LICENSE").read_text().partition("--- LLVM Exceptions")
    if not exception:
        sys.exit("wasmtime's licence has no LLVM exception")
    return "LLVM exception\n\n" + exception.lstrip("- \n").strip() + "\n"


def whole():
    parts = [
        "The extension of this package, and the program evenkeel_rlvr/_sandbox/evenkeel-guest, contain code of the following crates, under the\n"
        "licences below, and of Rust's standard library (MIT OR Apache-2.0).\n"
    ]
    found = crates()
    for name, expression, folder in found:
        licences = chosen(name, expression, folder)
        # Without the version: a newer one has the same text, or is found by its text.
        words = "\n".join(licences.values())
        parts.append(f"{name}, {' AND '.join(licences)}\n\n{words}")
    parts.append(llvm_exception(found))
    parts.append(f"{INTERPRETER}\n\n{(ROOT / 'python/licences/CPython.txt').read_text().strip()}\n")
    return len(found), RULE.join(parts)


def main():
    count, made = whole()
    if "--write" in sys.argv[1:]:
        FILE.write_text(made)
    elif not FILE.exists() or FILE.read_text() != made:
        sys.exit(f"{FILE.relative_to(ROOT)} is not what the wheel contains: run .ci/python_licences.py --write")
    print(f"licences of {count} crates in the wheel")


if __name__ == "__main__":
    main()
