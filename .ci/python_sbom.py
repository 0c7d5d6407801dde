#!/usr/bin/env python3
"""Whether a bill of materials (CycloneDX) has every crate that .ci/python_licences.py finds in the wheel, each with a version and a licence.

    python_sbom.py evenkeel-python.cyclonedx.json
"""

import json
import sys

from python_licences import crates


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        bill = json.load(file)
    if bill.get("bomFormat") != "CycloneDX":
        sys.exit(f"{sys.argv[1]} is no CycloneDX document")
    listed = {component["name"]: component for component in bill["components"]}
    missing = sorted({name for name, _, _ in crates()} - listed.keys())
    if missing:
        sys.exit(f"{sys.argv[1]} has not {', '.join(missing)}, which the wheel contains")
    for name, component in listed.items():
        if not component.get("version") or not component.get("licenses"):
            sys.exit(f"{sys.argv[1]}: {name} has no version or no licence")
    print(f"{bill['bomFormat']} {bill['specVersion']}: {len(listed)} components, each with version and licence")


if __name__ == "__main__":
    main()
