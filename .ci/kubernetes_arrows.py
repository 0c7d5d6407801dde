"""deploy/kubernetes/arrows.yaml, the one table of who calls whom: what is written from it, and what rendered policies allow beside it."""

import yaml

NAME = "app.kubernetes.io/name"
HEAD = "# Written from arrows.yaml by `.ci/kubernetes.py --write`. A pod may call and be called as the table says, and in no other way.\n"


def port_entry(port):
    number, _, protocol = str(port).partition("/")
    return {"port": int(number), "protocol": protocol or "TCP"}


def ports_entry(ports):
    return {} if ports == ["all"] else {"ports": [port_entry(port) for port in ports]}


def peer_entry(table, name):
    peer = table["peers"].get(name)
    if peer is None:
        return {"podSelector": {"matchLabels": {NAME: name}}}
    namespace = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": peer["namespace"]}}} if "namespace" in peer else {}
    return namespace | {"podSelector": {"matchLabels": dict(peer["pods"])}}


def services(table):
    """All that have policies: the services, and peers in the stack's own namespace, which is closed to them as well."""
    ends = {arrow[end] for arrow in table["arrows"] for end in ("from", "to")}
    return sorted(ends - {name for name, peer in table["peers"].items() if "namespace" in peer})


def labels_of(table, service):
    return dict(table["peers"][service]["pods"]) if service in table["peers"] else {NAME: service}


def policies(table, part=None):
    """The text of policies.yaml: those of the base, or what an overlay or a component adds to them."""
    documents = []
    for service in services(table):
        arrows = [arrow for arrow in table["arrows"] if arrow.get("only") == part]
        ingress = [{"from": [peer_entry(table, arrow["from"])]} | ports_entry(arrow["ports"]) for arrow in arrows if arrow["to"] == service]
        egress = [{"to": [peer_entry(table, arrow["to"])]} | ports_entry(arrow["ports"]) for arrow in arrows if arrow["from"] == service]
        if not ingress and not egress:
            continue
        documents.append({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": f"{service}-{part}" if part else service},
            "spec": {"podSelector": {"matchLabels": labels_of(table, service)}, "policyTypes": ["Ingress", "Egress"], "ingress": ingress, "egress": egress},
        })
    return HEAD + "---\n".join(yaml.safe_dump(document, sort_keys=False) for document in documents)


def page(table):
    """The table of the documentation. Arrows that differ in one end alone share a row."""
    rows = [
        {"from": [arrow["from"]], "to": [arrow["to"]], "port": [str(port) for port in arrow["ports"]], "for": arrow["why"], "only": arrow.get("only")}
        for arrow in table["arrows"]
    ]
    for end in ("from", "to"):
        merged = []
        for row in rows:
            same = [other for other in merged if all(other[key] == row[key] for key in row if key != end)]
            if same:
                same[0][end] += row[end]
            else:
                merged.append(row)
        rows = merged
    lines = ["| from | to | port | for |", "|---|---|---|---|"]
    for row in rows:
        only = f" (`{row['only']}`)" if row["only"] else ""
        lines.append("| " + " | ".join(", ".join(row[key]) for key in ("from", "to", "port")) + f" | {row['for']}{only} |")
    return "\n".join(lines) + "\n"


def expected(table, parts):
    """Arrows as (from, to, port/protocol), for an overlay with its components."""
    return {(arrow["from"], arrow["to"], label(port)) for arrow in expected_arrows(table, parts) for port in arrow["ports"]}


def expected_arrows(table, parts):
    return [arrow for arrow in table["arrows"] if arrow.get("only") in (None, *parts)]


def label(port):
    if port == "all":
        return "all"
    entry = port_entry(port)
    return f"{entry['port']}/{entry['protocol']}"


def selects(selector, labels):
    """Whether a label selector takes these labels; one with expressions is not understood and refused."""
    if "matchExpressions" in selector:
        raise ValueError("matchExpressions in a network policy")
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def peers_of(entry, table, workloads):
    """The names of what one `from` or `to` of a policy means."""
    for name in table["peers"]:
        if entry == peer_entry(table, name):
            return [name]
    if set(entry) == {"podSelector"}:
        return sorted({name for name, labels in workloads if selects(entry["podSelector"], labels)}) or [f"nobody ({entry})"]
    return [f"unknown ({entry})"]


def allowed(documents, workloads, table, direction):
    """What the policies allow in one direction, as arrows. `workloads`: (service, labels of its pods)."""
    side, end = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    found = set()
    for policy in documents:
        spec = policy["spec"]
        if direction not in spec.get("policyTypes", ["Ingress"]):
            continue
        own = {name for name, labels in workloads if selects(spec["podSelector"], labels)}
        for rule in spec.get(side) or []:
            others = [name for entry in rule.get(end) or [] for name in peers_of(entry, table, workloads)] or ["anybody"]
            ports = [f"{port['port']}/{port.get('protocol', 'TCP')}" for port in rule.get("ports") or []] or ["all"]
            for service in own:
                found |= {(other, service, port) if side == "ingress" else (service, other, port) for other in others for port in ports}
    return found


def closes(policy, direction):
    """Whether a policy closes every pod of the namespace in a direction."""
    spec = policy["spec"]
    return spec["podSelector"] == {} and direction in spec.get("policyTypes", []) and not spec.get(direction.lower())


def faults(documents, workloads, table, parts):
    """How rendered policies differ from the table, a sentence each."""
    policies_ = [document for document in documents if document["kind"] == "NetworkPolicy"]
    for direction in ("Ingress", "Egress"):
        if not any(closes(policy, direction) for policy in policies_):
            yield f"no network policy closes the {direction.lower()} of pods that no other one names"
    # Peers in the stack's namespace that call something which is there.
    there = {name for name, _ in workloads}
    callers = {arrow["from"] for arrow in expected_arrows(table, parts) if arrow["to"] in there} & set(services(table))
    workloads = workloads + [(name, labels_of(table, name)) for name in sorted(callers - there)]
    names = {name for name, _ in workloads}
    for direction, own in (("Ingress", 1), ("Egress", 0)):
        wanted = {arrow for arrow in expected(table, parts) if arrow[own] in names}
        found = allowed(policies_, workloads, table, direction)
        for verb, arrows in (("allow", found - wanted), ("do not allow", wanted - found)):
            for source, target, port in sorted(arrows):
                yield f"{direction.lower()}: the policies {verb} {source} -> {target} on {port}, against arrows.yaml"
