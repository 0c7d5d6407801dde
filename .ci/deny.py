#!/usr/bin/env python3
"""Enforces deny.toml: licences, bans and sources of every crate in Cargo.lock, and advisories where a database is given.

    .ci/deny.py                    licences, bans and sources
    .ci/deny.py --advisories DIR   and a checkout of https://github.com/rustsec/advisory-db

The rules are those of cargo-deny, as far as deny.toml uses them: where that is installed, `cargo deny check` says the same. This script
needs nothing but Python and cargo, and a second. Every violation is printed, and ends it with 1.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def packages():
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features"]
    found = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return json.loads(found.stdout)["packages"]


def allows(expression, allowed):
    """Whether an SPDX expression can be met by the allowed licences. AND binds tighter than OR; an old `/` is an OR."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    at = 0

    def joined(word, part):
        nonlocal at
        parts = [part()]
        while at < len(tokens) and tokens[at] == word:
            at += 1
            parts.append(part())
        return parts

    def either():
        return any(joined("OR", both))

    def both():
        return all(joined("AND", one))

    def one():
        nonlocal at
        if tokens[at] == "(":
            at += 1
            holds = either()
            at += 1
            return holds
        name = tokens[at]
        at += 1
        if at < len(tokens) and tokens[at] == "WITH":
            name += " WITH " + tokens[at + 1]
            at += 2
        return name in allowed

    holds = either()
    if at != len(tokens):
        raise ValueError(f"`{expression}` is no SPDX expression")
    return holds


def check_licences(rules, packages):
    exceptions = {entry["crate"]: entry["allow"] for entry in rules.get("exceptions", [])}
    for name in sorted(exceptions.keys() - {package["name"] for package in packages}):
        yield f"licences: the exception for {name} is for no crate of this build"
    for package in packages:
        name, licence = package["name"], package["license"]
        allowed = set(rules["allow"]) | set(exceptions.get(name, []))
        if not licence:
            yield f"licences: {name} {package['version']} states none"
        elif not allows(licence, allowed):
            yield f"licences: {name} {package['version']} is under `{licence}`, allowed: {', '.join(sorted(allowed))}"


def check_bans(rules, packages):
    banned = {entry["crate"] for entry in rules.get("deny", [])}
    for package in packages:
        if package["name"] in banned:
            yield f"bans: {package['name']} {package['version']} is banned"
        if package["source"] is None and rules.get("wildcards") == "deny":
            for dependency in package["dependencies"]:
                if dependency["req"] == "*" and "path" not in dependency:
                    yield f"bans: {package['name']} takes any version of {dependency['name']}"


def check_sources(rules, packages):
    registries = {f"registry+{url}" for url in rules.get("allow-registry", [])}
    gits = rules.get("allow-git", [])
    for package in packages:
        source = package["source"]
        if source is None or source in registries:
            continue
        if source.startswith("git+") and any(source[4:].startswith(url) for url in gits):
            continue
        yield f"sources: {package['name']} {package['version']} comes from {source}"


def version(text):
    """A version as something that orders: a release is above its candidates."""
    numbers, _, candidate = text.split("+")[0].partition("-")
    parts = [int(part) for part in numbers.split(".")]
    key = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in candidate.split(".")]
    return (*parts, *[0] * (3 - len(parts)), 0 if candidate else 1, key if candidate else [])


def satisfies(found, requirement):
    """Whether a version meets all of a comma-separated list of comparisons."""
    return all(meets(version(found), part.strip()) for part in requirement.split(","))


def meets(found, comparison):
    operator, text = re.fullmatch(r"(>=|<=|>|<|=|\^|~)?\s*([\w.+-]+)", comparison).groups()
    bound = version(text)
    given = len(text.split("-")[0].split("."))
    if operator in (">=", "<=", ">", "<", "="):
        return {">=": found >= bound, "<=": found <= bound, ">": found > bound, "<": found < bound, "=": found == bound}[operator]
    # A caret keeps the first number that is not 0, a tilde the second, or the first if only that is given.
    fixed = next((at for at, number in enumerate(bound[:3]) if number), min(given, 3) - 1) if operator != "~" else min(given, 2) - 1
    return found >= bound and found[: fixed + 1] == bound[: fixed + 1]


def check_advisories(rules, packages, database):
    ignored = {entry if isinstance(entry, str) else entry["id"] for entry in rules.get("ignore", [])}
    folder = database / "crates"
    if not folder.is_dir():
        sys.exit(f"{database} is no advisory database: it has no folder `crates`")
    for package in packages:
        for path in sorted((folder / package["name"]).glob("RUSTSEC-*.md")):
            block = re.search(r"```toml\n(.*?)```", path.read_text(encoding="utf-8"), re.S)
            entry = tomllib.loads(block.group(1))
            advisory, versions = entry["advisory"], entry.get("versions", {})
            safe = versions.get("patched", []) + versions.get("unaffected", [])
            if "withdrawn" in advisory or advisory["id"] in ignored or advisory.get("informational") == "notice":
                continue
            if not any(satisfies(package["version"], requirement) for requirement in safe):
                yield f"advisories: {package['name']} {package['version']} has {advisory['id']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--advisories", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    rules = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    crates = packages()
    found = [
        *check_licences(rules["licenses"], crates),
        *check_bans(rules["bans"], crates),
        *check_sources(rules["sources"], crates),
    ]
    if arguments.advisories:
        found += check_advisories(rules["advisories"], crates, arguments.advisories)
    for violation in found:
        print(violation)
    if found:
        sys.exit(1)
    print(f"{len(crates)} crates: " + ("no advisories, and " if arguments.advisories else "") + "licences, bans and sources as in deny.toml")


if __name__ == "__main__":
    main()
