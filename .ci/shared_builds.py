#!/usr/bin/env python3
"""How many of the program's crates the tests compile again, because they need them, or what they are built on, with other features.

    .ci/shared_builds.py LIMIT     fails above LIMIT, naming the features

A test or a tool that turns on a feature of a crate far down has everything above it compiled twice. crates/workspace-hack turns such features on
for the program, too.
"""

import json
import subprocess
import sys


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments, "--locked"], check=True, capture_output=True, text=True).stdout


def with_features(*arguments):
    """Every crate as a line with its version and features."""
    lines = cargo("tree", "--format", "{p} {f}", "--prefix", "none", *arguments).splitlines()
    return {line.removesuffix(" (*)").strip() for line in lines if line.strip()}


def crate(line):
    name, version = line.split()[:2]
    return name, version.removeprefix("v")


def dependants(crates):
    """These, and all that are built on them."""
    metadata = json.loads(cargo("metadata", "--format-version", "1"))
    names = {package["id"]: (package["name"], package["version"]) for package in metadata["packages"]}
    built_on = {}
    for node in metadata["resolve"]["nodes"]:
        for dependency in node["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                built_on.setdefault(names[dependency["pkg"]], []).append(names[node["id"]])
    found, waiting = set(), list(crates)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += built_on.get(one, [])
    return found


def main():
    limit = int(sys.argv[1])
    program = with_features("--edges", "normal,build")
    different = program - with_features("--workspace", "--features", "evenkeel/full", "--edges", "normal,build,dev")
    again = dependants(map(crate, different)) & set(map(crate, program))
    print(f"{len(again)} of {len(set(map(crate, program)))} crates of the program are compiled again for the tests (limit {limit})")
    if len(again) > limit:
        print("other features than with the tests:", *sorted(different), sep="\n  ")
        sys.exit(1)


if __name__ == "__main__":
    main()
