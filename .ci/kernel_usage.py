#!/usr/bin/env python3
"""Holds the kernels to the registers that they may take, by what the assembler said of each when they were compiled.

    .ci/kernel_usage.py MESSAGES     what cargo build --message-format=json has printed
    .ci/kernel_usage.py --logs DIR   the folder of the .log files itself

Fails where a kernel spills, takes more registers than its architecture's limit or more shared memory than a block has, or where kernels are
missing. Prints a line for each architecture.
"""
import json
import pathlib
import re
import sys

# Registers of a thread, by architecture: with 48, five blocks of 256 threads are resident on a multiprocessor of 65,536 registers.
MOST_REGISTERS = {80: 48, 90: 48, 100: 48, 120: 48}
# Those that hold a row in registers between its two uses, which saves reading it twice: as many as leave enough of it on the way from memory.
HOLDING = {"rms_norm_backward_bf16_held1": 64, "rms_norm_backward_bf16_held2": 96, "norm_rotary_backward_bf16_256": 64}
# In the whole source.
KERNELS = 117
ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def usage(log):
    """(architecture, kernel) -> (registers, bytes of stack and spills) of what the assembler wrote."""
    found, current = {}, None
    for line in log.splitlines():
        if entry := ENTRY.search(line):
            current = (int(entry[2]), entry[1])
            found[current] = (0, 0)
        elif current and (spill := SPILL.search(line)):
            found[current] = (found[current][0], sum(map(int, spill.groups())))
        elif current and (used := USED.search(line)):
            found[current] = (int(used[1]), found[current][1])
    return found


def faults(found):
    """What is wrong, in words."""
    for architecture, most in MOST_REGISTERS.items():
        kernels = {name: use for (sm, name), use in found.items() if sm == architecture}
        if len(kernels) != KERNELS:
            yield f"sm_{architecture}: {len(kernels)} kernels, {KERNELS} are expected"
        for name, (registers, spilled) in sorted(kernels.items()):
            allowed = HOLDING.get(name, most)
            if not 0 < registers <= allowed:
                yield f"sm_{architecture}: {name} takes {registers} registers, allowed: 1 to {allowed}"
            if spilled:
                yield f"sm_{architecture}: {name} keeps {spilled} bytes outside of its registers"


def logs_of(messages):
    """The folder that the build of the kernels wrote to."""
    folders = [
        message["out_dir"]
        for message in map(json.loads, filter(None, messages.read_text().splitlines()))
        if message.get("reason") == "build-script-executed" and "kernels" in message["package_id"] and "evenkeel" in message["package_id"]
    ]
    folders = [folder for folder in map(pathlib.Path, folders) if list(folder.glob("*.log"))]
    if len(folders) != 1:
        sys.exit(f"{len(folders)} folders with compiled kernels")
    return folders[0]


def main():
    folder = pathlib.Path(sys.argv[2]) if sys.argv[1] == "--logs" else logs_of(pathlib.Path(sys.argv[1]))
    found = {}
    for log in sorted(folder.glob("*.cubin.log")):
        found |= usage(log.read_text())
    for architecture in MOST_REGISTERS:
        kernels = [(registers, name) for (sm, name), (registers, _) in found.items() if sm == architecture]
        if kernels:
            registers, name = max(kernels)
            print(f"sm_{architecture:<6}{len(kernels)} kernels, at most {registers} registers ({name})")
    wrong = list(faults(found))
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
