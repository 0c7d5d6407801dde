#!/usr/bin/env python3
"""Renders every overlay of deploy/kubernetes and checks it: against the schemas of Kubernetes and of the custom resources, against the table of
who calls whom, and against the program's own reference. Needs `kubectl` or `kustomize`, and the packages of .ci/kubernetes.sh.

    .ci/kubernetes.sh                   check; with EVENKEEL=PROGRAM it also reads the settings of every container
    .ci/kubernetes.sh --write           write the policies and the table of docs/kubernetes.md from deploy/kubernetes/arrows.yaml first
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import jsonschema
import kubernetes_validate
import yaml

import kubernetes_arrows as arrows
import kubernetes_program as program
import kubernetes_rules as rules

ROOT = pathlib.Path(__file__).resolve().parents[1]
HERE = ROOT / "deploy" / "kubernetes"
# The newest that the package knows, and the oldest that the manifests are meant for.
VERSIONS = ("1.31", "1.37")
# A component that no overlay needs by itself, or that may be added to one.
COMBINATIONS = {"cpu": [], "one-gpu-node": [], "local-disks": [], "many-nodes": [], "batch": [], "cpu+tls": ["tls"], "one-gpu-node+tls": ["tls"],
                "cpu+pull": ["pull"], "one-gpu-node+pull+tls": ["pull", "tls", "pull-tls"], "one-gpu-node+7b": ["qwen2.5-math-7b"],
                "local-disks+7b": ["qwen2.5-math-7b"], "many-nodes+7b": ["qwen2.5-math-7b"]}
PAGE = ROOT / "docs" / "kubernetes.md"
MARK = ("<!-- arrows: written by .ci/kubernetes.sh --write -->\n\n", "\n<!-- end of arrows -->")


def renderer():
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    return ["kubectl", "kustomize"] if shutil.which("kubectl") else None


def render(combination):
    """The documents of an overlay, with further components after a `+`."""
    overlay = HERE / "overlays" / combination.partition("+")[0]
    with tempfile.TemporaryDirectory() as name:
        folder = overlay
        if COMBINATIONS[combination]:
            # As a user would: an overlay of one's own over ours.
            folder = pathlib.Path(name).resolve()
            relative = lambda path: os.path.relpath(path, folder)
            (folder / "kustomization.yaml").write_text(json.dumps({
                "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [relative(overlay)],
                "components": [relative(HERE / "components" / part) for part in COMBINATIONS[combination]]}))
        done = subprocess.run([*renderer(), str(folder)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{combination} cannot be rendered: {done.stderr.strip()}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def parts(combination):
    """The overlay and all components of a combination."""
    overlay = combination.partition("+")[0]
    own = yaml.safe_load((HERE / "overlays" / overlay / "kustomization.yaml").read_text()).get("components", [])
    return {overlay, *(pathlib.Path(component).name for component in own), *COMBINATIONS[combination]}


def schema_faults(documents):
    custom = {"LeaderWorkerSet": "leaderworkerset", "ScaledObject": "scaledobject", "JobSet": "jobset"}
    for document in documents:
        where = f"{document['kind']} {document['metadata']['name']}"
        for version in VERSIONS:
            if document["kind"] in custom:
                continue
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except Exception as error:
                yield f"{where}, Kubernetes {version}: {message(error)}"
        if document["kind"] in custom:
            schema = json.loads((HERE / "schemas" / f"{custom[document['kind']]}.json").read_text())
            for error in jsonschema.Draft202012Validator(schema).iter_errors(document):
                yield f"{where}: {message(error)}"
    # Pods within custom resources, by Kubernetes' own schema.
    for name, template, document in rules.templates(documents):
        if document["kind"] in custom:
            pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "any"}, "template": template}
            try:
                kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)
            except Exception as error:
                yield f"{name}: {message(error)}"


def message(error):
    path = ".".join(str(part) for part in getattr(error, "path", []))
    return f"{path}: {getattr(error, 'message', error)}"


def secrets():
    """The keys of each Secret that the commands at the heads of components/tls, of what deploy/certificates.sh writes, and of overlays/batch make."""
    head = "".join((HERE / part / "kustomization.yaml").read_text() for part in ("components/tls", "overlays/batch"))
    services = re.search(r"for service in ([a-z ]+);", head)[1].split()
    assert "create secret generic tls-$service --from-file=certificates/$service" in head
    found = {name: {file} for name, file in re.findall(r"create secret generic ([a-z]+) --from-file=([a-z]+)$", head, re.M)}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([str(ROOT / "deploy" / "certificates.sh"), folder], check=True, capture_output=True)
        for service in services:
            found[f"tls-{service}"] = {file.name for file in pathlib.Path(folder, service).iterdir()}
    return found


def reference():
    """What the generated pages say of the program."""
    docs = ROOT / "docs" / "reference"
    return {"settings": program.service_keys((docs / "settings.md").read_text()), "commands": program.flags((docs / "commands.md").read_text()),
            "series": program.series_labels((docs / "series.md").read_text()), "compose": (ROOT / "deploy" / "compose.gpu.yml").read_text(),
            "sizes": yaml.safe_load((HERE / "sizes.yaml").read_text()), "page": PAGE.read_text()}


def said_faults(documents, known):
    for name, template, _ in rules.templates(documents):
        for container, _ in rules.containers(template):
            where, arguments = f"{name}: container {container['name']}", container.get("args", [])
            if container.get("command") == ["vllm"]:
                yield from program.vllm_faults(where, arguments, known["compose"])
                continue
            yield from program.argument_faults(where, arguments, known["commands"])
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                if command := container.get(kind, {}).get("exec", {}).get("command"):
                    yield from program.argument_faults(f"{where}: {kind}", command[1:], known["commands"])
            if arguments[0] == "serve":
                yield from program.setting_faults(where, arguments[1], rules.environment(container), known["settings"])
    for document in documents:
        if document["kind"] == "ScaledObject":
            for trigger in document["spec"]["triggers"]:
                where, namespace = f"ScaledObject {document['metadata']['name']}", document["metadata"]["namespace"]
                yield from program.query_faults(where, trigger["metadata"].get("query", ""), known["series"], namespace)


def faults(documents, combination, table, known, made):
    yield from schema_faults(documents)
    yield from content_faults(documents, combination, table, known, made)


def content_faults(documents, combination, table, known, made):
    yield from rules.confinement(documents)
    yield from rules.probes(documents)
    yield from rules.storage(documents, made)
    yield from rules.names(documents, table)
    yield from rules.ranks(documents)
    yield from rules.agents(documents)
    yield from rules.gpus(documents)
    yield from rules.sizes(documents, known["sizes"])
    yield from rules.upgrades(documents, known["page"])
    yield from arrows.faults(documents, rules.workloads(documents), table, parts(combination))
    yield from said_faults(documents, known)


def program_faults(binary, documents, seen):
    """What the program itself says against each container, once for each kind of container."""
    recipe = next(document["data"]["recipe.toml"] for document in documents if document["kind"] == "ConfigMap")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "recipe.toml")
        path.write_text(recipe)
        done = subprocess.run([binary, "config", "--recipe", str(path)], capture_output=True, text=True)
        if done.returncode:
            yield f"recipe.toml: {done.stderr.strip()}"
        for name, template, _ in rules.templates(documents):
            for container, _ in rules.containers(template):
                values = rules.environment(container)
                key = json.dumps([container.get("args"), values, recipe], sort_keys=True)
                if container["args"][0] != "serve" or container.get("command") or key in seen:
                    continue
                seen.add(key)
                if said := program.read_by(binary, container["args"][1], container["args"], values, str(path)):
                    yield f"{name}: {said}"


def written(table):
    """What is written from the table: file, text."""
    yield HERE / "base" / "policies.yaml", arrows.policies(table)
    for part in sorted({arrow["only"] for arrow in table["arrows"] if "only" in arrow}):
        folder = next(found for kind in ("overlays", "components") if (found := HERE / kind / part).is_dir())
        yield folder / "policies.yaml", arrows.policies(table, part)
    text = PAGE.read_text()
    before, rest = text.split(MARK[0])
    yield PAGE, before + MARK[0] + arrows.page(table) + MARK[1] + rest.split(MARK[1])[1]


def main(arguments):
    table = yaml.safe_load((HERE / "arrows.yaml").read_text())
    found = []
    for file, text in written(table):
        if "--write" in arguments:
            file.write_text(text)
        elif file.read_text() != text:
            found.append(f"{file.relative_to(ROOT)} is not what arrows.yaml says: run .ci/kubernetes.sh --write")
    alone = [yaml.safe_load((HERE / "fill.yaml").read_text())]
    found += [f"fill.yaml: {fault}" for check in (schema_faults, rules.confinement) for fault in check(alone)]
    known, made, seen, binary = reference(), secrets(), set(), os.environ.get("EVENKEEL")
    for combination in COMBINATIONS:
        documents = render(combination)
        found += [f"{combination}: {fault}" for fault in faults(documents, combination, table, known, made)]
        if binary:
            found += [f"{combination}: {fault}" for fault in program_faults(binary, documents, seen)]
    print("\n".join(found) or f"kubernetes  {len(COMBINATIONS)} overlays and combinations hold"
          + (f", and the program read the settings of {len(seen)} containers" if binary else ""))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
