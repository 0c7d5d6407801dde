#!/usr/bin/env python3
"""Whether bills of materials (CycloneDX) together have every crate that .ci/python_licences.py finds in the wheel, each with a version and a
licence.

    python_sbom.py FILE...
"""

import json
import sys

from python_licences import crates


def main():
    listed = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            bill = json.load(file)
        if bill.get("bomFormat") != "CycloneDX":
            sys.exit(f"{path} is no CycloneDX document")
        for component in bill["components"]:
            if not component.get("version") or not component.get("licenses"):
                sys.exit(f"{path}: {component['name']} has no version or no licence")
            listed[component["name"]] = component
    missing = sorted({name for name, _, _ in crates()} - listed.keys())
    if missing:
        sys.exit(f"{' and '.join(sys.argv[1:])}: without {', '.join(missing)}, which the wheel contains")
    print(f"CycloneDX: {len(listed)} components, each with version and licence")


if __name__ == "__main__":
    main()
