#!/usr/bin/env python3
"""A verifier of your own: is the answer's last word the row's `answer`, and how short is the answer?

    pip install grpcio grpcio-tools
    python examples/custom_verifier.py 0.0.0.0:50060
"""
import json, os, pathlib, sys
from concurrent import futures
import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "proto"))
reward, service = grpc.protos_and_services("evenkeel/v1/reward.proto")


class Verifier(service.RewardServicer):
    def GetStatus(self, request, context):
        return reward.RewardGetStatusResponse(custom=True, components=["brevity"])

    def Verify(self, requests, context):  # a cancelled item is answered like any other
        context.send_initial_metadata(())  # at once, not with the first verdict: it says that the stream is open
        return (judge(request.item) for request in requests if request.HasField("item"))

    def VerifyOne(self, request, context):
        return reward.VerifyOneResponse(verdict=judge(request.item))


def judge(item):
    row = json.loads(item.custom.payload)  # what the data set has in the row
    words = item.completion.split()
    right = words[-1:] == [str(row["answer"])]
    verdict = reward.Verdict(id=item.id, reward=float(right), reason_code="last_word")
    verdict.outcome = reward.OUTCOME_CORRECT if right else reward.OUTCOME_INCORRECT
    verdict.components["brevity"] = 1 / (1 + len(words))
    return verdict


server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
service.add_RewardServicer_to_server(Verifier(), server)
# A run that starts it (`command`) says where.
listen = os.environ.get("EVENKEEL_VERIFIER_LISTEN", "127.0.0.1:50060")
port = server.add_insecure_port(sys.argv[1] if len(sys.argv) > 1 else listen)
server.start()
print(f"listening on port {port}", flush=True)
server.wait_for_termination()
