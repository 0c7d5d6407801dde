"""What has to hold for the documents of a rendered overlay, beside their schemas: confined pods, limits, probes, volumes, Secrets, names that
lead somewhere. Each rule yields a sentence for each fault."""

import re

import kubernetes_arrows as arrows

KINDS = {"Deployment", "StatefulSet", "DaemonSet", "Job"}
# What Pod Security's profile "restricted" lets a pod mount.
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
# Settings that name files, whose folders are Secrets.
SECRET_FILE = re.compile(r"_FILE$")
# The port of agents, as generation.weights.agents has it by default.
AGENT = "50056"
# Where a service writes.
WRITES = {"learner": {"/data/weights", "/data/checkpoints"}, "orchestrator": {"/data/runs"}}
# Settings that name a folder of weights, which the service refuses where others may write to it. The root of a volume belongs to root, and its
# group may write (fsGroup): the service makes a folder within.
PRIVATE = ("EVENKEEL__WEIGHTS", "EVENKEEL__FOLDER")
GPU = "nvidia.com/gpu"
GPU_NODE = {"nvidia.com/gpu.present": "true"}


def templates(documents):
    """(name, template of pods, document), of each template of a LeaderWorkerSet and a JobSet as well."""
    for document in documents:
        if document["kind"] in KINDS:
            yield document["metadata"]["name"], document["spec"]["template"], document
        elif document["kind"] == "Pod":
            yield document["metadata"]["name"], document, document
        elif document["kind"] == "LeaderWorkerSet":
            template = document["spec"]["leaderWorkerTemplate"]
            for part in ("leaderTemplate", "workerTemplate"):
                if part in template:
                    yield f"{document['metadata']['name']} ({part})", template[part], document
        elif document["kind"] == "JobSet":
            for job in document["spec"]["replicatedJobs"]:
                yield f"{document['metadata']['name']} ({job['name']})", job["template"]["spec"]["template"], document


def containers(template):
    return [(container, True) for container in template["spec"].get("initContainers", [])] + [(c, False) for c in template["spec"]["containers"]]


def workloads(documents):
    return [(template["metadata"]["labels"].get(arrows.NAME, name), template["metadata"]["labels"]) for name, template, _ in templates(documents)]


def environment(container):
    return {entry["name"]: entry.get("value", "") for entry in container.get("env", [])}


def confinement(documents):
    for name, template, _ in templates(documents):
        spec, pod = template["spec"], template["spec"].get("securityContext", {})
        if template["metadata"]["labels"].get("app.kubernetes.io/part-of") != "evenkeel":
            yield f"{name}: not labelled as part of evenkeel"
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name}: has a token of the API server"
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(key):
                yield f"{name}: {key}"
        if pod.get("runAsNonRoot") is not True or not pod.get("runAsUser"):
            yield f"{name}: may run as root"
        if pod.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: without a seccomp profile"
        for volume in spec.get("volumes", []):
            if not set(volume) - {"name"} <= VOLUMES:
                yield f"{name}: volume {volume['name']} is none that a restricted pod may have"
        for container, _ in containers(template):
            where, context = f"{name}: container {container['name']}", container.get("securityContext", {})
            if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
                yield f"{where} may gain privileges"
            if context.get("capabilities", {}).get("drop") != ["ALL"] or context.get("capabilities", {}).get("add"):
                yield f"{where} has capabilities"
            if context.get("readOnlyRootFilesystem") is not True:
                yield f"{where} may write to its image"
            if any("hostPort" in port for port in container.get("ports", [])):
                yield f"{where} takes a port of its node"
            for group in ("requests", "limits"):
                for resource in ("cpu", "memory"):
                    if resource not in container.get("resources", {}).get(group, {}):
                        yield f"{where} has no {resource} in {group}"


def probes(documents):
    for name, template, _ in templates(documents):
        for container, before in containers(template):
            where = f"{name}: container {container['name']}"
            arguments = container.get("args", [])
            if before or arguments[:1] != ["serve"]:
                continue
            vllm = container.get("command") == ["vllm"]
            if vllm and "--headless" in arguments:
                continue
            values = environment(container)
            address = values.get("EVENKEEL__SERVER__LISTEN", values.get("EVENKEEL__LISTEN", ""))
            scheme = "https" if "EVENKEEL__SERVER__TLS__CERTIFICATE_FILE" in values else "http"
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                probe = container.get(kind, {})
                if vllm:
                    if probe.get("httpGet", {}).get("path") != "/health":
                        yield f"{where} has no {kind} on /health"
                    continue
                command = probe.get("exec", {}).get("command", [])
                url = next((part for part in command if "://" in part), "")
                if command[:2] != ["evenkeel", "health"] or not url.startswith(f"{scheme}://127.0.0.1:{address.rpartition(':')[2]}"):
                    yield f"{where}: its {kind} is not `evenkeel health` over {scheme} on the port that it listens on"
            grace = template["spec"].get("terminationGracePeriodSeconds", 30)
            if grace <= seconds(values.get("EVENKEEL__SERVER__SETTLE", "0s")) + seconds(values.get("EVENKEEL__SERVER__DRAIN", "30s")):
                yield f"{where}: is killed after {grace} s, before settle and drain are over"


def seconds(text):
    return sum(int(number) * {"s": 1, "m": 60, "h": 3600}[unit] for number, unit in re.findall(r"(\d+)([smh])", text))


def mounted(template, container, extra=()):
    """Mounts of a container: (path, read-only, volume)."""
    volumes = {volume["name"]: volume for volume in template["spec"].get("volumes", [])} | {claim["metadata"]["name"]: {"claim": claim} for claim in extra}
    return [(mount["mountPath"], mount.get("readOnly", False), volumes.get(mount["name"])) for mount in container.get("volumeMounts", [])]


def storage(documents, secrets):
    """Volumes, Secrets and the paths that settings name. `secrets`: the keys that each Secret has."""
    claims = {document["metadata"]["name"]: document for document in documents if document["kind"] == "PersistentVolumeClaim"}
    maps = {document["metadata"]["name"]: document for document in documents if document["kind"] == "ConfigMap"}
    users = {}
    for name, template, document in templates(documents):
        extra = document["spec"].get("volumeClaimTemplates", [])
        for volume in template["spec"].get("volumes", []):
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                users.setdefault(claim, []).append((name, template))
                if claim not in claims:
                    yield f"{name}: there is no claim `{claim}`"
            if "configMap" in volume and volume["configMap"]["name"] not in maps:
                yield f"{name}: there is no ConfigMap `{volume['configMap']['name']}`"
            if "secret" in volume:
                secret = volume["secret"]
                keys = secrets.get(secret["secretName"])
                if keys is None:
                    yield f"{name}: nothing makes the Secret `{secret['secretName']}`"
                for item in secret.get("items", []):
                    if keys is not None and item["key"] not in keys:
                        yield f"{name}: the Secret `{secret['secretName']}` has no key `{item['key']}`"
                if not secret.get("items"):
                    yield f"{name}: the Secret `{secret['secretName']}` is mounted without naming its keys"
        for container, before in containers(template):
            where = f"{name}: container {container['name']}"
            mounts = mounted(template, container, extra)
            for entry in container.get("env", []):
                if (reference := entry.get("valueFrom", {}).get("secretKeyRef")) and reference["key"] not in secrets.get(reference["name"], ()):
                    yield f"{where}: the Secret `{reference['name']}` has no key `{reference['key']}`"
            for path, _, volume in mounts:
                if volume is None:
                    yield f"{where}: nothing is mounted at {path}"
            files = {value for key, value in environment(container).items() if SECRET_FILE.search(key)}
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                files |= {part for part in container.get(kind, {}).get("exec", {}).get("command", []) if part.startswith("/")}
            for file in sorted(files):
                held = [f"{path}/{item['path']}" for path, _, volume in mounts if volume and "secret" in volume for item in volume["secret"].get("items", [])]
                if file not in held:
                    yield f"{where}: {file} is in no Secret that is mounted"
            values = environment(container)
            named = {path for value in values.values() for path in re.findall(r"/data/[a-z]+", value)}
            for key in PRIVATE:
                if any(values.get(key) == path for path, _, _ in mounts):
                    yield f"{where}: {key} is the root of a volume, in which others may write: a folder within it is needed"
            writes = set() if before else {"/data/weights"} if is_agent(container) else WRITES.get(name, set())
            for path in sorted(named | writes):
                holders = [read_only for mount, read_only, _ in mounts if mount == path]
                # Roots of clients' recipes, and the like, must be there; only what is written to must be writable.
                if not holders:
                    yield f"{where}: {path} is named by a setting and not mounted"
                elif path in writes and holders[0]:
                    yield f"{where}: {path} is written to and mounted read-only"
    for claim, pods in users.items():
        modes = claims.get(claim, {}).get("spec", {}).get("accessModes", [])
        together = all("podAffinity" in template["spec"].get("affinity", {}) for _, template in pods)
        if len(pods) > 1 and modes != ["ReadWriteMany"] and not together:
            yield f"the volume `{claim}` is {', '.join(modes)} and mounted by pods that may be on several nodes: {', '.join(name for name, _ in pods)}"


GLOBAL_INDEX = "metadata.labels['jobset.sigs.k8s.io/job-global-index']"


def ranks(documents):
    """The ranks of a JobSet: numbered over all Jobs, as many as they are told; the run is over with rank 0, and whoever is taken away comes back."""
    recipe = next((document["data"].get("recipe.toml", "") for document in documents if document["kind"] == "ConfigMap"), "")
    for document in documents:
        if document["kind"] != "JobSet":
            continue
        name, spec = document["metadata"]["name"], document["spec"]
        jobs, network = spec["replicatedJobs"], spec.get("network", {})
        first, count = jobs[0], sum(job.get("replicas", 1) for job in jobs)
        if first.get("replicas", 1) != 1 or spec.get("successPolicy", {}).get("targetReplicatedJobs") != [first["name"]]:
            yield f"JobSet {name}: it does not end with rank 0, which is `{first['name']}`"
        if first["template"]["spec"].get("backoffLimit") != 0:
            yield f"JobSet {name}: rank 0 would be started again among ranks that are done"
        address = f"{name}-{first['name']}-0-0.{network.get('subdomain', name)}:"
        if f'address = "{address}' not in recipe:
            yield f"JobSet {name}: the recipe's learner.ranks.address is not {address}PORT"
        token = re.search(r'^token_file = "(.+)"$', recipe, re.M)
        if network.get("publishNotReadyAddresses") is not True or network.get("enableDNSHostnames") is not True:
            yield f"JobSet {name}: rank 0 has no name before it is ready"
        for job in jobs:
            where, pod = f"JobSet {name}: {job['name']}", job["template"]["spec"]
            container = pod["template"]["spec"]["containers"][0]
            own = {entry["name"]: entry for entry in container.get("env", [])}
            if own.get("RANK", {}).get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") != GLOBAL_INDEX:
                yield f"{where}: RANK is not its number over all Jobs"
            if own.get("WORLD_SIZE", {}).get("value") != str(count):
                yield f"{where}: WORLD_SIZE is not {count}, the number of Jobs"
            held = [f"{path}/{item['path']}" for path, _, volume in mounted(pod["template"], container) if volume and "secret" in volume
                    for item in volume["secret"].get("items", [])]
            if not token or token[1] not in held:
                yield f"{where}: the recipe's learner.ranks.token_file is in no Secret that is mounted"
            if "--continue" not in container["args"]:
                yield f"{where}: does not go on with its run when it is made again"
            ignores = [rule for rule in pod.get("podFailurePolicy", {}).get("rules", []) if rule["action"] == "Ignore"]
            if job is not first and not any(c["type"] == "DisruptionTarget" for rule in ignores for c in rule.get("onPodConditions", [])):
                yield f"{where}: a rank that is drained counts as a failure"


def gpus(documents):
    """Pods with GPUs ask for nodes that have some, and bear their taint; so do all pods that have to be on their node."""
    pods = [(name, template) for name, template, _ in templates(documents)]
    uses = {name for name, template in pods if any(GPU in container.get("resources", {}).get("limits", {}) for container, _ in containers(template))}
    for name, template in pods:
        spec = template["spec"]
        tied = "podAffinity" in spec.get("affinity", {}) and uses
        if name not in uses and not tied:
            continue
        if not GPU_NODE.items() <= spec.get("nodeSelector", {}).items():
            yield f"{name}: does not ask for a node with GPUs{'' if name in uses else ', on which the pods beside it have to be'}"
        if not any(entry.get("key") == GPU and entry.get("operator") == "Exists" for entry in spec.get("tolerations", [])):
            yield f"{name}: does not bear the taint of nodes with GPUs"


def gib(quantity):
    """GiB of a quantity of Kubernetes."""
    number, unit = re.fullmatch(r"(\d+)([A-Za-z]*)", str(quantity)).groups()
    return int(number) * {"Mi": 2**-10, "Gi": 1, "Ti": 2**10}[unit]


def sizes(documents, table):
    """Volumes and host memory hold what the recipe takes. `table`: GiB of each recipe, as `evenkeel plan` computes them."""
    recipe = next((document["data"].get("recipe.toml", "") for document in documents if document["kind"] == "ConfigMap"), "")
    base = re.search(r'^base = "([^"]+)"', recipe, re.M)
    if base is None or base[1] not in table:
        yield f"recipe.toml: deploy/kubernetes/sizes.yaml does not say what {base[1] if base else 'it'} takes"
        return
    needs = table[base[1]]
    claims = {document["metadata"]["name"]: document for document in documents if document["kind"] == "PersistentVolumeClaim"}
    held = []
    for name, template, document in templates(documents):
        claims |= {claim["metadata"]["name"]: claim for claim in document["spec"].get("volumeClaimTemplates", [])}
        held += [(f"{name}: the volume `weights`", volume["emptyDir"].get("sizeLimit", "1Ti"), "copies")
                 for volume in template["spec"].get("volumes", []) if volume["name"] == "weights" and "emptyDir" in volume]
        trains = any(container.get("args", [])[:2] == ["serve", "learner"] or container.get("args", [])[:1] == ["train"] for container, _ in containers(template))
        if trains:
            held.append((f"{name}: its limit of memory", template["spec"]["containers"][0]["resources"]["limits"]["memory"], "host"))
    # A run in one process has all of it in its directory.
    needs = needs | {"runs": needs["checkpoints"] + needs["weights"] + needs["rollouts"]}
    services = {"checkpoints": "checkpoints", "weights": "weights", "start": "start", "runs": "rollouts"}
    of_claims = services if "checkpoints" in claims else {"runs": "runs"}
    held += [(f"the claim `{claim}`", claims[claim]["spec"]["resources"]["requests"]["storage"], need)
             for claim, need in of_claims.items() if claim in claims]
    for what, quantity, need in held:
        if gib(quantity) < needs[need]:
            yield f"{what} is {quantity}, and {base[1]} takes {needs[need]}Gi"


def upgrades(documents, page):
    """Claims of templates, which `apply` cannot change, are in the page's table with their sizes."""
    rows = page.partition("### Upgrades\n")[2].partition("\n## ")[0]
    for _, _, document in templates(documents):
        for claim in document["spec"].get("volumeClaimTemplates", []):
            name, size = f"{claim['metadata']['name']}-{document['metadata']['name']}-0", claim["spec"]["resources"]["requests"]["storage"]
            if not re.search(rf"^\| `{name}` \|.*\b{size}\b", rows, re.M):
                yield f"docs/kubernetes.md, Upgrades: the claim {name} is not there with {size}"


def is_agent(container):
    return container.get("args", [])[:2] == ["serve", "weights"]


def agents(documents):
    """Where weights are pulled, an agent in every pod whose service reads them, with a folder that this service reads; elsewhere none."""
    pods = [(name, template["metadata"]["labels"][arrows.NAME], template) for name, template, _ in templates(documents)]
    settings = [environment(container) for _, _, template in pods for container, _ in containers(template)]
    pulls = any(values.get("EVENKEEL__WEIGHTS__SOURCE") == "pull" for values in settings)
    for name, service, template in pods:
        running = template["spec"]["containers"]
        found = [container for container in running if is_agent(container)]
        if len(found) != (pulls and service in ("engine", "generation")):
            yield f"{name}: {len(found)} agents of weights, where generation.weights.source is {'pull' if pulls else 'folder'}"
        for agent in found:
            folder, listen = (environment(agent).get(key, "") for key in ("EVENKEEL__FOLDER", "EVENKEEL__SERVER__LISTEN"))
            if listen not in (f"0.0.0.0:{AGENT}", *([f"127.0.0.1:{AGENT}"] if service == "generation" else [])):
                yield f"{name}: its agent listens on {listen}, where the generation service does not call it"
            held = [volume for container in running for path, _, volume in mounted(template, container) if folder.startswith(f"{path}/")]
            if len(held) != len(running) or any(volume != held[0] for volume in held):
                yield f"{name}: what its agent fetches to {folder} is not what the service reads there"


def names(documents, table):
    """Services have pods behind them, on a port that these open; endpoints in settings are Services; budgets and scalers select something."""
    services = {document["metadata"]["name"]: document for document in documents if document["kind"] == "Service"}
    pods = [(labels, template) for (_, labels), (_, template, _) in zip(workloads(documents), templates(documents))]
    index = "leaderworkerset.sigs.k8s.io/worker-index"
    for name, service in services.items():
        selector = {key: value for key, value in service["spec"]["selector"].items() if key != index}
        behind = [template for labels, template in pods if all(labels.get(key) == value for key, value in selector.items())]
        if not behind:
            yield f"Service {name} selects no pod"
        for port in service["spec"]["ports"]:
            opened = {entry["containerPort"] for template in behind for container, _ in containers(template) for entry in container.get("ports", [])}
            if behind and port.get("targetPort", port["port"]) not in opened:
                yield f"Service {name}: no pod listens on {port['port']}"
    called = {(arrow["from"], arrow["to"], port) for arrow in table["arrows"] for port in arrow["ports"]}
    for name, template, _ in templates(documents):
        own = template["metadata"]["labels"][arrows.NAME]
        for container, _ in containers(template):
            for key, value in environment(container).items():
                if "ENDPOINTS" not in key and key != "EVENKEEL__LEARNER":
                    continue
                for host, port in re.findall(r"://([a-z-]+):(\d+)", value):
                    if host not in services:
                        yield f"{name}: {key} names `{host}`, which is no Service"
                    if (own, host, int(port)) not in called:
                        yield f"{name}: {key} calls {host}:{port}, which is no arrow of arrows.yaml"
    targets = {document["metadata"]["name"] for _, _, document in templates(documents)}
    for document in documents:
        name = document["metadata"]["name"]
        if document["kind"] == "PodDisruptionBudget" and not any(arrows.selects(document["spec"]["selector"], labels) for labels, _ in pods):
            yield f"PodDisruptionBudget {name} selects no pod"
        if document["kind"] == "ScaledObject":
            target = document["spec"]["scaleTargetRef"]["name"]
            if target not in targets:
                yield f"ScaledObject {name} scales `{target}`, which does not exist"
            for workload in documents:
                if workload["kind"] in {*KINDS, "LeaderWorkerSet"} and workload["metadata"]["name"] == target and "replicas" in workload["spec"]:
                    yield f"ScaledObject {name}: {target} has a number of replicas, which every `apply` would set again"
