#!/usr/bin/env python3
"""Makes a small schema of a custom resource from its definition (a CustomResourceDefinition):

    derive.py DEFINITION.yaml VERSION SOURCE OUT.json

Templates of pods become `{"x-pod-template": true}`, since Kubernetes' own schema checks those; descriptions are dropped; and a property that the
definition does not have is refused, as the API server does with `--validate=strict`.
"""
import json
import sys

import yaml

KEPT = {"type", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "required", "anyOf", "oneOf", "allOf",
        "not", "format"}


def derived(schema):
    properties = schema.get("properties", {})
    if {"metadata", "spec"} <= set(properties) and "containers" in properties["spec"].get("properties", {}):
        return {"type": "object", "x-pod-template": True}
    out = {key: value for key, value in schema.items() if key in KEPT and key != "format"}
    if properties:
        out["properties"] = {key: derived(value) for key, value in properties.items()}
        out["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = derived(schema["additionalProperties"])
    if "items" in schema:
        out["items"] = derived(schema["items"])
    if schema.get("x-kubernetes-int-or-string"):
        out.pop("type", None)
        out.pop("anyOf", None)
        out["type"] = ["integer", "string"]
    return out


def main(definition, version, source, out):
    with open(definition) as file:
        resource = yaml.safe_load(file)
    found = next(entry for entry in resource["spec"]["versions"] if entry["name"] == version)
    schema = derived(found["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    schema = {"$comment": f"Derived by derive.py from {source}. Apache License 2.0, as in the file LICENSE of this repository.", **schema}
    with open(out, "w") as file:
        json.dump(schema, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
