#!/usr/bin/env python3
"""Refuses cycles between crates and between sibling modules.

Cargo itself refuses cycles between crates, but not a library that depends on a service; that is checked here. For modules every
`crate::`, `super::` and `self::` path outside of tests is read, together with what `use` brings in from siblings. Two siblings that need
each other, directly or by way of others, are printed with the files and paths that say so.

    .ci/acyclic.py            checks the whole workspace
    .ci/acyclic.py DIR ...    checks these crates
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Packages that stand above the services and may depend on them, besides those in `bench/`: the program, and the library
# of recipes, which have a section of every service.
ABOVE_SERVICES = {"evenkeel", "evenkeel-recipe"}


def without_comments_and_texts(text):
    """The same text with comments and literals blanked, so that braces and paths in them do not count."""
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/|b?r(#*)\".*?\"\1|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\(?:u\{[0-9a-fA-F]+\}|x..|.)|[^\\'\n])'", re.S
    )
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)


def block_end(text, start):
    """The position after the brace that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)


def without_tests(text):
    """The text without items under `#[cfg(test)]`."""
    while found := re.search(r"#\[cfg\((?:all\()?test\b[^\]]*\]", text):
        rest = re.compile(r"[;{]").search(text, found.end())
        end = len(text) if rest is None else rest.end() if rest.group() == ";" else block_end(text, rest.start())
        text = text[: found.start()] + text[end:]
    return text


def split_uses(tree):
    """The paths of a use tree: `a::{b, c::{d, e}}` gives `a::b`, `a::c::d`, `a::c::e`."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        return [re.sub(r"\s+as\s+\w+$", "", tree)]
    paths, depth, part = [], 0, ""
    for char in tree[brace + 1 : block_end(tree, brace) - 1] + ",":
        if char == "," and depth == 0:
            if part.strip():
                paths += [tree[:brace] + path for path in split_uses(part)]
            part = ""
            continue
        depth += {"{": 1, "}": -1}.get(char, 0)
        part += char
    return paths


class Crate:
    """The modules of one crate, by their paths (tuples of names; the root is the empty one)."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}
        self.texts = {}
        self.reexports = {}
        root = folder / "src" / "lib.rs"
        self.collect((), root if root.exists() else folder / "src" / "main.rs", folder / "src")
        for module, path in self.files.items():
            text = without_tests(without_comments_and_texts(path.read_text(encoding="utf-8")))
            self.texts[module] = text
            for public, tree in re.findall(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", text):
                for used in split_uses(tree):
                    if public:
                        target = self.resolve(module, used.split("::"))
                        if target is not None:
                            self.reexports[(module, used.rsplit("::", 1)[-1].strip())] = target

    def collect(self, module, path, folder):
        self.files[module] = path
        text = without_tests(without_comments_and_texts(path.read_text(encoding="utf-8")))
        for name in re.findall(r"\bmod\s+(\w+)\s*;", text):
            beside, inside = folder / f"{name}.rs", folder / name / "mod.rs"
            child = beside if beside.exists() else inside
            if child.exists():
                self.collect((*module, name), child, folder / name)

    def resolve(self, module, names):
        """The module that a path leads to from inside `module`; none outside of this crate."""
        names = [name.strip() for name in names]
        if names[0] == "crate":
            at, names = (), names[1:]
        elif names[0] in ("self", "super"):
            at = module
            while names and names[0] in ("self", "super"):
                at, names = (at[:-1] if names[0] == "super" else at), names[1:]
        elif (*module, names[0]) in self.files:
            at = module
        else:
            return None
        for name in names:
            if (*at, name) in self.files:
                at = (*at, name)
            elif (at, name) in self.reexports:
                return self.reexports[(at, name)]
            else:
                break
        return at

    def uses(self):
        """Each module with the modules that its file needs, and the path that says so."""
        for module, text in self.texts.items():
            for tree in re.findall(r"\buse\s+([^;]+);", text):
                for used in split_uses(tree):
                    target = self.resolve(module, used.split("::"))
                    if target is not None:
                        yield module, target, used
            rest = re.sub(r"\buse\s+[^;]+;", "", text)
            for used in re.findall(r"\b(?:crate|super|self)(?:::\w+)+|\b[a-z_]\w*(?:::\w+)+", rest):
                target = self.resolve(module, used.split("::"))
                if target is not None:
                    yield module, target, used

    def cycles(self):
        """Cycles between siblings: lists of (module, needed module, where it says so)."""
        edges = {}
        for module, target, used in self.uses():
            common = 0
            while common < min(len(module), len(target)) and module[common] == target[common]:
                common += 1
            if common < len(module) and common < len(target):
                one, other = module[: common + 1], target[: common + 1]
                where = f"{self.files[module].relative_to(ROOT)}: {used}"
                edges.setdefault(one, {}).setdefault(other, where)
        found, done = [], set()

        def walk(node, path):
            if node in path:
                cycle = path[path.index(node) :] + [node]
                found.append([(a, b, edges[a][b]) for a, b in zip(cycle, cycle[1:])])
                return
            if node in done:
                return
            for other in sorted(edges.get(node, {})):
                walk(other, path + [node])
            done.add(node)

        for node in sorted(edges):
            walk(node, [])
        return found


def layers(crates):
    """Dependencies that point the wrong way: from a library to a service, or from a service to another."""
    places = {}
    for folder in crates:
        manifest = tomllib.loads((folder / "Cargo.toml").read_text())
        places[manifest["package"]["name"]] = (folder.relative_to(ROOT), manifest.get("dependencies", {}))
    for name, (folder, dependencies) in sorted(places.items()):
        for other in sorted(set(dependencies) & set(places)):
            target = places[other][0]
            is_above = name in ABOVE_SERVICES or folder.parts[0] == "bench"
            if not is_above and (target.parts[0] == "services" or other in ABOVE_SERVICES):
                allowed = ", ".join(sorted(ABOVE_SERVICES))
                yield f"{folder} depends on {target}: only {allowed} and bench stand above the services"


def main():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    crates = [ROOT / member for member in workspace if (ROOT / member / "src").is_dir()]
    problems = list(layers(crates))
    chosen = [Path(argument).resolve() for argument in sys.argv[1:]] or crates
    for folder in chosen:
        for cycle in Crate(folder).cycles():
            problems.append(f"{folder.relative_to(ROOT)}: a cycle of modules")
            problems += [f"    {'::'.join(a)} needs {'::'.join(b)} ({where})" for a, b, where in cycle]
    print("\n".join(problems) if problems else f"{len(chosen)} crates without cycles")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
