#!/usr/bin/env python3
"""The licences of the crates that are compiled into the wheel, with their copyright lines: python/THIRD_PARTY_LICENSES.txt.

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
# Where a crate may be used under several, the shortest.
CHOSEN = ["MIT", "Zlib", "Apache-2.0"]
NAMES = {"MIT": ["LICENSE-MIT", "LICENSE-MIT.md", "LICENSE", "LICENSE.md", "LICENSE.txt", "license-mit"], "Zlib": ["LICENSE", "LICENSE-ZLIB"]}
RULE = "\n" + "-" * 78 + "\n\n"


def crates():
    """(name, licence, folder) of every crate of another project in the wheel, macros and build scripts excluded."""
    metadata = json.loads(
        subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM], cwd=ROOT, text=True)
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    # What the wheel alone enables: the workspace's other crates ask for more of the same ones.
    tree = subprocess.check_output(
        ["cargo", "tree", "-p", "evenkeel-python", "-e", "normal", "--prefix", "none", "--format", "{p}", "--locked", "--target", PLATFORM],
        cwd=ROOT,
        text=True,
    )
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if "(proc-macro)" not in line}
    (root,) = [id for id, package in packages.items() if package["name"] == "evenkeel-python"]
    found, waiting = set(), [root]
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


def text(name, licence, folder):
    """The name of the licence that is chosen, and its text."""
    allowed = [word for word in CHOSEN if word in licence.replace("/", " ").split()]
    if not allowed:
        sys.exit(f"{name} has the licence {licence}, allowed: one of {', '.join(CHOSEN)}")
    for chosen in allowed:
        if chosen == "Apache-2.0":
            return chosen, "The text is that of LICENSE.\n"
        for path in (folder / file for file in NAMES[chosen]):
            if path.exists() and (chosen == "Zlib" or "Permission is hereby granted" in path.read_text()):
                return chosen, path.read_text().replace("\r\n", "\n").strip() + "\n"
    sys.exit(f"{name}: the text of none of its licences ({licence}) is in {folder}")


def whole():
    parts = ["The extension of this package contains code of the following crates, under the licences below, and of\nRust's standard library (MIT OR Apache-2.0).\n"]
    found = crates()
    for name, licence, folder in found:
        chosen, words = text(name, licence, folder)
        # Without the version: a newer one has the same text, or is found by its text.
        parts.append(f"{name}, {chosen}\n\n{words}")
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
