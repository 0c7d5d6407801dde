#!/usr/bin/env python3
"""Plants faults in rendered overlays: kubernetes.py has to find each, and nothing where there is none."""

import copy
import os
import unittest

import yaml

import kubernetes
import kubernetes_arrows as arrows
import kubernetes_program as program

TABLE = yaml.safe_load((kubernetes.HERE / "arrows.yaml").read_text())
KNOWN, MADE = kubernetes.reference(), kubernetes.secrets()
RENDERED = {name: kubernetes.render(name) for name in ("cpu", "many-nodes", "batch", "local-disks", "one-gpu-node", "one-gpu-node+7b")}


def document(documents, kind, name):
    return next(entry for entry in documents if entry["kind"] == kind and entry["metadata"]["name"] == name)


def pod(documents, kind, name):
    return document(documents, kind, name)["spec"]["template"]["spec"]


def container(documents, kind, name):
    return pod(documents, kind, name)["containers"][0]


def variable(documents, kind, name, key):
    return next(entry for entry in container(documents, kind, name)["env"] if entry["name"] == key)


def policy(documents, name):
    return document(documents, "NetworkPolicy", name)["spec"]


def leader(documents):
    return document(documents, "LeaderWorkerSet", "vllm")["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]


class Faults(unittest.TestCase):
    def found(self, plant, overlay, check=kubernetes.content_faults):
        documents = copy.deepcopy(RENDERED[overlay])
        plant(documents)
        return list(check(documents, overlay, TABLE, KNOWN, MADE))

    def finds(self, plant, word, overlay="many-nodes", check=kubernetes.content_faults):
        found = self.found(plant, overlay, check)
        self.assertTrue(any(word in fault for fault in found), (word, found))

    def test_what_is_committed_has_none(self):
        for overlay in RENDERED:
            self.assertEqual(self.found(lambda documents: None, overlay, kubernetes.faults), [])

    def test_an_arrow_too_many(self):
        extra = {"from": [{"podSelector": {"matchLabels": {arrows.NAME: "reward"}}}], "ports": [{"port": 8000, "protocol": "TCP"}]}
        self.finds(lambda d: policy(d, "engine")["ingress"].append(extra), "ingress: the policies allow reward -> engine on 8000/TCP")
        self.finds(lambda d: policy(d, "reward")["egress"].append({"to": [{"namespaceSelector": {}}]}), "egress: the policies allow reward -> unknown")
        self.finds(lambda d: policy(d, "learner")["ingress"].append({}), "ingress: the policies allow anybody -> learner on all")
        self.finds(lambda d: policy(d, "learner")["ingress"][0].pop("ports"), "allow orchestrator -> learner on all")

    def test_an_arrow_too_few(self):
        self.finds(lambda d: policy(d, "generation")["egress"].pop(0), "egress: the policies do not allow generation -> engine on 8000/TCP")
        self.finds(lambda d: policy(d, "engine-many-nodes")["ingress"].clear(), "ingress: the policies do not allow engine -> engine on all")

    def test_a_pod_that_no_policy_confines(self):
        for overlay in ("many-nodes", "batch"):
            self.finds(lambda d: d.remove(document(d, "NetworkPolicy", "default-deny")), "no network policy closes the ingress", overlay)
            self.finds(lambda d: policy(d, "default-deny")["policyTypes"].remove("Egress"), "no network policy closes the egress", overlay)
        self.finds(lambda d: policy(d, "default-deny").update(podSelector={"matchLabels": {arrows.NAME: "reward"}}), "closes the ingress")
        self.finds(lambda d: policy(d, "default-deny").update(egress=[{}]), "closes the egress")
        self.finds(lambda d: d.remove(document(d, "NetworkPolicy", "gateway")), "ingress: the policies do not allow client -> gateway on 50052/TCP")

    def test_clients_in_the_namespace_that_reach_too_little_or_too_much(self):
        self.finds(lambda d: d.remove(document(d, "NetworkPolicy", "client")), "egress: the policies do not allow client -> orchestrator on 50054/TCP")
        extra = {"to": [{"podSelector": {"matchLabels": {arrows.NAME: "learner"}}}], "ports": [{"port": 50053, "protocol": "TCP"}]}
        self.finds(lambda d: policy(d, "client")["egress"].append(extra), "egress: the policies allow client -> learner on 50053/TCP")

    def test_another_table_is_seen_in_what_is_written(self):
        table = copy.deepcopy(TABLE)
        table["arrows"].append({"from": "reward", "to": "learner", "ports": [1], "why": "none"})
        self.assertNotEqual(arrows.policies(table), arrows.policies(TABLE))
        self.assertNotEqual(arrows.page(table), arrows.page(TABLE))

    def test_a_container_without_limits(self):
        self.finds(lambda d: container(d, "Deployment", "reward")["resources"]["limits"].pop("memory"), "reward: container evenkeel has no memory in limits")
        self.finds(lambda d: leader(d)["containers"][0]["resources"]["requests"].pop("cpu"), "vllm (leaderTemplate): container vllm has no cpu in requests")

    def test_a_pod_that_is_not_restricted(self):
        self.finds(lambda d: container(d, "StatefulSet", "learner")["securityContext"]["capabilities"].update(add=["NET_ADMIN"]), "has capabilities")
        self.finds(lambda d: pod(d, "StatefulSet", "learner")["securityContext"].pop("seccompProfile"), "learner: without a seccomp profile")
        self.finds(lambda d: leader(d)["securityContext"].update(runAsNonRoot=False), "may run as root")
        self.finds(lambda d: pod(d, "Deployment", "reward")["volumes"].append({"name": "node", "hostPath": {"path": "/"}}), "volume node is none")
        self.finds(lambda d: pod(d, "StatefulSet", "learner")["initContainers"][0].pop("securityContext"), "container model may gain privileges")

    def test_a_wrong_series(self):
        def query(text):
            return lambda d: document(d, "ScaledObject", "reward")["spec"]["triggers"][0]["metadata"].update(query=text)
        self.finds(query("sum(evenkeel_queue_depth)"), "evenkeel_queue_depth is no series")
        self.finds(query('sum(evenkeel_queue_items{kind="verify"})'), "has no label `kind`")
        self.finds(query("vector(1)"), "names no series")
        self.finds(query('sum(evenkeel_queue_items{queue="verify"})'), "is not that of the namespace `evenkeel` alone")
        self.finds(query('sum(evenkeel_queue_items{namespace="other"})'), "is not that of the namespace `evenkeel` alone")

    def test_a_missing_key_of_a_secret(self):
        def drop(documents):
            pod(documents, "Deployment", "reward")["volumes"] = copy.deepcopy(pod(documents, "Deployment", "reward")["volumes"])
            secret = next(volume for volume in pod(documents, "Deployment", "reward")["volumes"] if "secret" in volume)
            secret["secret"]["items"] = [item for item in secret["secret"]["items"] if item["key"] != "key.pem"]
        self.finds(drop, "/certificates/key.pem is in no Secret that is mounted")
        def rename(documents):
            secret = next(volume for volume in pod(documents, "Deployment", "reward")["volumes"] if "secret" in volume)
            secret["secret"]["items"][0]["key"] = "authority.pem"
        self.finds(rename, "the Secret `tls-reward` has no key `authority.pem`")
        def other(documents):
            next(volume for volume in pod(documents, "Deployment", "reward")["volumes"] if "secret" in volume)["secret"]["secretName"] = "nothing"
        self.finds(other, "nothing makes the Secret `nothing`")
        def reference(documents):
            next(entry for entry in leader(documents)["containers"][0]["env"] if entry["name"] == "VLLM_API_KEY")["valueFrom"]["secretKeyRef"]["key"] = "key"
        self.finds(reference, "the Secret `tls-engine` has no key `key`")

    def test_an_invented_setting_or_flag(self):
        self.finds(lambda d: variable(d, "Deployment", "reward", "EVENKEEL__SERVER__SETTLE").update(name="EVENKEEL__SERVER__SETTEL"), "is no setting of `evenkeel serve reward`")
        self.finds(lambda d: variable(d, "StatefulSet", "learner", "EVENKEEL__WEIGHTS").update(name="EVENKEEL__RANKS"), "EVENKEEL__RANKS is no setting")
        self.finds(lambda d: container(d, "Deployment", "reward")["args"].append("--replicas"), "`--replicas` is no flag of `evenkeel serve`")
        self.finds(lambda d: leader(d)["containers"][0]["args"].append("--many-nodes"), "`--many-nodes` is no flag of vLLM")

    def test_a_probe_that_would_never_answer(self):
        self.finds(lambda d: container(d, "Deployment", "reward").pop("livenessProbe"), "reward: container evenkeel: its livenessProbe is not")
        def plain(documents):
            container(documents, "Deployment", "reward")["readinessProbe"] = {"exec": {"command": ["evenkeel", "health", "http://127.0.0.1:50052"]}}
        self.finds(plain, "readinessProbe is not `evenkeel health` over https")

    def test_a_volume_that_cannot_be_on_several_nodes(self):
        once = lambda d: document(d, "PersistentVolumeClaim", "weights")["spec"].update(accessModes=["ReadWriteOnce"])
        self.finds(once, "the volume `weights` is ReadWriteOnce and mounted by pods that may be on several nodes")
        self.finds(lambda d: pod(d, "StatefulSet", "learner").pop("affinity"), "the volume `weights` is ReadWriteOnce", overlay="cpu")
        self.finds(lambda d: d.remove(document(d, "PersistentVolumeClaim", "weights")), "there is no claim `weights`")
        def read_only(documents):
            next(mount for mount in container(documents, "StatefulSet", "learner")["volumeMounts"] if mount["name"] == "weights")["readOnly"] = True
        self.finds(read_only, "/data/weights is written to and mounted read-only")

    def test_weights_in_the_root_of_a_volume(self):
        self.finds(lambda d: variable(d, "StatefulSet", "learner", "EVENKEEL__WEIGHTS").update(value="/data/weights"), "EVENKEEL__WEIGHTS is the root of a volume")

    def test_pods_with_gpus_on_nodes_that_have_none(self):
        self.finds(lambda d: pod(d, "StatefulSet", "learner").pop("nodeSelector"), "learner: does not ask for a node with GPUs")
        self.finds(lambda d: leader(d).pop("tolerations"), "vllm (leaderTemplate): does not bear the taint of nodes with GPUs")
        self.finds(lambda d: pod(d, "Deployment", "reward").pop("nodeSelector"), "reward: does not ask for a node with GPUs, on which", "one-gpu-node")

    def test_volumes_and_memory_that_the_recipe_outgrows(self):
        def claim(documents, name):
            return document(documents, "PersistentVolumeClaim", name)["spec"]["resources"]["requests"]
        def checkpoints(documents):
            return document(documents, "StatefulSet", "learner")["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]
        small = "paper/qwen3-1.7b-dapo-balanced"
        self.finds(lambda d: checkpoints(d).update(storage="10Gi"), f"the claim `checkpoints` is 10Gi, and {small} takes 77Gi")
        self.finds(lambda d: claim(d, "weights").update(storage="15Gi"), f"the claim `weights` is 15Gi, and {small} takes 16Gi")
        self.finds(lambda d: claim(d, "start").update(storage="1Gi"), "the claim `start` is 1Gi")
        memory = lambda d: container(d, "StatefulSet", "learner")["resources"]["limits"].update(memory="64Gi")
        self.finds(memory, "learner: its limit of memory is 64Gi, and paper/qwen2.5-math-7b-dapo-balanced takes 118Gi", "one-gpu-node+7b")
        def copies(documents):
            next(volume for volume in pod(documents, "Deployment", "engine")["volumes"] if volume["name"] == "weights")["emptyDir"]["sizeLimit"] = "7Gi"
        self.finds(copies, "engine: the volume `weights` is 7Gi", "local-disks")
        self.finds(lambda d: claim(d, "runs").update(storage="1Gi"), "the claim `runs` is 1Gi, and arithmetic takes 3Gi", "batch")
        other = lambda d: document(d, "ConfigMap", next(e["metadata"]["name"] for e in d if e["kind"] == "ConfigMap"))["data"].update({"recipe.toml": 'base = "code"'})
        self.finds(other, "sizes.yaml does not say what code takes")

    def test_a_claim_that_cannot_be_changed_and_is_not_on_the_page(self):
        def template(documents, name):
            return document(documents, "StatefulSet", name)["spec"]["volumeClaimTemplates"][0]
        for name, claim in (("learner", "checkpoints-learner-0"), ("orchestrator", "runs-orchestrator-0")):
            larger = lambda d: template(d, name)["spec"]["resources"]["requests"].update(storage="500Gi")
            self.finds(larger, f"Upgrades: the claim {claim} is not there with 500Gi", "one-gpu-node+7b")
        self.finds(lambda d: template(d, "learner")["metadata"].update(name="moments"), "the claim moments-learner-0 is not there with 100Gi")

    def test_ranks_that_would_wait_for_ever(self):
        def spec(documents):
            return document(documents, "JobSet", "run")["spec"]
        def job(documents, number):
            return spec(documents)["replicatedJobs"][number]["template"]["spec"]
        def rank(documents, number):
            return job(documents, number)["template"]["spec"]["containers"][0]
        def finds(plant, word):
            self.finds(plant, word, overlay="batch")
        finds(lambda d: spec(d)["replicatedJobs"][1].update(replicas=3), "WORLD_SIZE is not 4, the number of Jobs")
        finds(lambda d: spec(d).pop("successPolicy"), "it does not end with rank 0")
        finds(lambda d: job(d, 0).update(backoffLimit=6), "rank 0 would be started again among ranks that are done")
        finds(lambda d: job(d, 1).pop("podFailurePolicy"), "others: a rank that is drained counts as a failure")
        finds(lambda d: rank(d, 1)["env"].pop(0), "others: RANK is not its number over all Jobs")
        finds(lambda d: rank(d, 1)["volumeMounts"].pop(1), "others: the recipe's learner.ranks.token_file is in no Secret that is mounted")
        finds(lambda d: rank(d, 0)["args"].remove("--continue"), "first: does not go on with its run")
        finds(lambda d: spec(d)["network"].update(publishNotReadyAddresses=False), "rank 0 has no name before it is ready")
        finds(lambda d: document(d, "JobSet", "run")["metadata"].update(name="mine"), "learner.ranks.address is not mine-first-0-0.mine:PORT")
        finds(lambda d: policy(d, "run-batch")["ingress"].clear(), "the policies do not allow run -> run on 29500/TCP")
        self.finds(lambda d: spec(d).update(completions=1), "completions", overlay="batch", check=kubernetes.faults)

    def test_agents_that_fetch_weights_for_nobody(self):
        def finds(plant, word):
            self.finds(plant, word, overlay="local-disks")
        def agent(documents, name):
            return next(entry for entry in pod(documents, "Deployment", name)["containers"] if entry["name"] == "weights")
        def listen(documents, name):
            return next(entry for entry in agent(documents, name)["env"] if entry["name"] == "EVENKEEL__SERVER__LISTEN")
        finds(lambda d: pod(d, "Deployment", "engine")["containers"].remove(agent(d, "engine")), "engine: 0 agents of weights, where generation.weights.source is pull")
        def folder(documents, name):
            return next(mount for mount in agent(documents, name)["volumeMounts"] if mount["name"] == "weights")
        finds(lambda d: folder(d, "engine").update(name="tmp"), "engine: what its agent fetches to /data/weights/copies is not what the service reads there")
        finds(lambda d: listen(d, "engine").update(value="127.0.0.1:50056"), "engine: its agent listens on 127.0.0.1:50056, where the generation service does not call it")
        finds(lambda d: folder(d, "generation").update(readOnly=True), "/data/weights is written to and mounted read-only")
        finds(lambda d: agent(d, "engine").pop("livenessProbe"), "engine: container weights: its livenessProbe is not")
        finds(lambda d: policy(d, "engine-pull")["egress"].pop(0), "egress: the policies do not allow engine -> learner on 50053/TCP")
        finds(lambda d: policy(d, "engine-pull")["ingress"].clear(), "ingress: the policies do not allow generation -> engine on 50056/TCP")
        self.finds(lambda d: pod(d, "Deployment", "engine")["containers"].append({"name": "weights", "args": ["serve", "weights"]}),
                   "engine: 1 agents of weights, where generation.weights.source is folder", overlay="cpu")

    def test_names_that_lead_nowhere(self):
        self.finds(lambda d: d.remove(document(d, "Service", "learner")), "EVENKEEL__ENDPOINTS__LEARNER names `learner`, which is no Service")
        self.finds(lambda d: document(d, "Service", "learner")["spec"]["ports"][0].update(port=1), "Service learner: no pod listens on 1")
        self.finds(lambda d: document(d, "Service", "learner")["spec"]["selector"].update({arrows.NAME: "trainer"}), "Service learner selects no pod")
        self.finds(lambda d: variable(d, "StatefulSet", "orchestrator", "EVENKEEL__ENDPOINTS__LEARNER").update(value="https://engine:8000"), "which is no arrow")
        self.finds(lambda d: document(d, "ScaledObject", "engine")["spec"]["scaleTargetRef"].update(name="vlm"), "scales `vlm`, which does not exist")
        self.finds(lambda d: document(d, "Deployment", "reward")["spec"].update(replicas=2), "reward has a number of replicas")
        self.finds(lambda d: document(d, "LeaderWorkerSet", "vllm")["spec"].update(replicas=1), "vllm has a number of replicas")

    def test_a_grace_that_is_too_short(self):
        self.finds(lambda d: pod(d, "StatefulSet", "orchestrator").update(terminationGracePeriodSeconds=60), "before settle and drain are over")

    def test_what_the_schemas_do_not_know(self):
        def finds(plant, word):
            self.finds(plant, word, check=lambda documents, *rest: kubernetes.schema_faults(documents))
        finds(lambda d: document(d, "Deployment", "reward")["spec"].update(replica=3), "Deployment reward, Kubernetes 1.31")
        finds(lambda d: document(d, "LeaderWorkerSet", "vllm")["spec"]["leaderWorkerTemplate"].update(size="two"), "LeaderWorkerSet vllm")
        finds(lambda d: leader(d).update(securityContent={}), "vllm (leaderTemplate)")
        finds(lambda d: document(d, "ScaledObject", "reward")["spec"].update(minReplicas=1), "ScaledObject reward")


class Program(unittest.TestCase):
    """With a program at hand (EVENKEEL), it says itself what it does not know."""

    @unittest.skipUnless(os.environ.get("EVENKEEL"), "EVENKEEL names no program")
    def test_an_unknown_setting_is_said_by_the_program(self):
        read = lambda environment: program.read_by(os.environ["EVENKEEL"], "reward", ["serve", "reward"], environment, "")
        self.assertIsNone(read({"EVENKEEL__SERVER__LISTEN": "127.0.0.1:0", "EVENKEEL__SERVER__SETTLE": "5s"}))
        self.assertIn("unknown key `server.settel`", read({"EVENKEEL__SERVER__LISTEN": "127.0.0.1:0", "EVENKEEL__SERVER__SETTEL": "5s"}))
        self.assertIn("server.settle", read({"EVENKEEL__SERVER__LISTEN": "127.0.0.1:0", "EVENKEEL__SERVER__SETTLE": "soon"}))


if __name__ == "__main__":
    unittest.main()
