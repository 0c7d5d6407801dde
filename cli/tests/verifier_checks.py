"""What `evenkeel_verifier.py` makes of reward functions: each function here is a behaviour, which `custom_verifier.rs` runs.

    python verifier_checks.py NAME     (without a name: lists them)
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BRIDGE = pathlib.Path(__file__).resolve().parent.parent / "python/evenkeel_verifier.py"
sys.path.insert(0, str(BRIDGE.parent))
import evenkeel_verifier as bridge  # noqa: E402
import grpc  # noqa: E402

M = bridge.messages()


class Served:
    """The functions of a source text, served by a process of their own."""

    def __init__(self, source, *options, file="reward.py"):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / file
        self.path.write_text(source)
        listen = f"127.0.0.1:{free_port()}"
        command = [sys.executable, "-u", str(BRIDGE), str(self.path), f"--listen={listen}", "--timeout=1", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said = self.process.stdout.readline()
        self.channel = grpc.insecure_channel(listen)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def call(self, name, request, answer):
        method = self.channel.unary_unary(f"/evenkeel.v1.Reward/{name}", request_serializer=lambda value: value.SerializeToString(),
                                          response_deserializer=M[answer].FromString)
        return method(request, timeout=30)

    def judge(self, completion, row=None, ids=(1, 2), finish=1):
        request = M["VerifyOneRequest"]()
        fill(request.item, "a", completion, row, ids, finish)
        return self.call("VerifyOne", request, "VerifyOneResponse").verdict

    def stream(self, completions, row=None):
        method = self.channel.stream_stream("/evenkeel.v1.Reward/Verify", request_serializer=lambda value: value.SerializeToString(),
                                            response_deserializer=M["Verdict"].FromString)

        def requests():
            for index, completion in enumerate(completions):
                request = M["VerifyRequest"]()
                fill(request.item, str(index), completion, row)
                yield request

        return {verdict.id: verdict for verdict in method(requests(), timeout=30)}

    def components(self):
        return list(self.call("GetStatus", M["RewardGetStatusRequest"](), "RewardGetStatusResponse").components)


def fill(item, id, completion, row=None, ids=(1, 2), finish=1):
    item.id, item.completion, item.finish_reason = id, completion, finish
    item.token_ids.extend(ids)
    item.custom.verifier, item.custom.payload = "words", json.dumps(row or {"answer": "yes"}).encode()


def free_port():
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def no_reward(verdict, code):
    assert verdict.outcome == bridge.INVALID and not verdict.HasField("reward"), verdict
    assert verdict.reason_code == code and verdict.detail, verdict


def a_function_sees_the_text_its_tokens_why_it_ended_and_the_row():
    source = """
def reward(completion, row):
    assert isinstance(completion, str)
    return (completion == row["answer"]) * 0.5 + (completion.token_ids == [1, 2]) * 0.25 + (completion.finish_reason == "length") * 0.25
"""
    with Served(source) as served:
        assert served.judge("yes", finish=2).reward == 1.0 and served.judge("yes", finish=2).outcome == bridge.CORRECT
        half = served.judge("yes", ids=(3,))
        assert (half.reward, half.outcome) == (0.5, bridge.INCORRECT), half


def what_is_no_number_is_no_reward_and_never_a_zero():
    source = """
import os, time
def reward(completion, row):
    return {"none": lambda: None, "nan": lambda: float("nan"), "text": lambda: "yes", "raise": lambda: 1 / 0, "high": lambda: 7,
            "hang": lambda: time.sleep(60), "crash": lambda: os._exit(3), "memory": lambda: len(bytearray(1 << 40)),
            "no": lambda: 0}[str(completion)]()
"""
    with Served(source) as served:
        for word, code in [("none", "reward_none"), ("nan", "reward_not_a_number"), ("text", "reward_not_a_number"),
                           ("raise", "reward_exception"), ("high", "reward_out_of_range"), ("hang", "reward_timeout"),
                           ("crash", "reward_crashed"), ("memory", "reward_exception")]:
            no_reward(served.judge(word), code)
            # The next one is judged all the same.
            verdict = served.judge("no")
            assert (verdict.reward, verdict.outcome) == (0.0, bridge.INCORRECT), (word, verdict)
        assert "division by zero (line 4)" in served.judge("raise").detail, served.judge("raise").detail


def functions_of_trl_and_of_verl_load_as_they_are():
    trl = """
def reward(prompts, completions, answer, **kwargs):
    assert len(prompts) == len(completions) == len(answer) == len(kwargs["completion_ids"])
    texts = [c[0]["content"] if isinstance(c, list) else c for c in completions]
    return [1.0 if text == right else None if text == "skip" else 0.0 for text, right in zip(texts, answer)]
"""
    with Served(trl) as served:
        found = served.stream(["yes", "no", "skip"] * 5, {"prompt": "say yes", "answer": "yes"})
        assert len(found) == 15 and found["0"].reward == 1.0 and found["1"].reward == 0.0
        no_reward(found["2"], "reward_none")
        chat = {"prompt": [{"role": "user", "content": "say yes"}], "answer": "yes"}
        assert served.judge("yes", chat).reward == 1.0
    verl = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    assert data_source == "words" and extra_info["level"] == 3
    return {"score": float(solution_str == ground_truth), "brevity": 0.25, "pred": solution_str}
"""
    row = {"data_source": "words", "reward_model": {"ground_truth": "yes"}, "extra_info": {"level": 3}}
    with Served(verl) as served:
        verdict = served.judge("yes", row)
        assert verdict.reward == 1.0 and dict(verdict.components) == {"brevity": 0.25}, verdict


def several_functions_have_weights_and_are_components_and_none_leaves_one_out():
    source = """
def right(completion, row):
    return None if completion == "skip" else float(completion == row["answer"])
def short(completions, rows):
    return [None if c == "skip" and r.get("all") else 1.0 for c, r in zip(completions, rows)]
"""
    names = ["--function=right=3", "--function=short=1"]
    with Served(source, *names) as served:
        assert served.components() == ["right", "short"]
        verdict = served.judge("no")
        assert verdict.reward == 0.25 and dict(verdict.components) == {"right": 0.0, "short": 1.0}, verdict
        verdict = served.judge("skip")
        assert verdict.reward == 1.0 and dict(verdict.components) == {"short": 1.0}, verdict
        no_reward(served.judge("skip", {"all": True, "answer": "x"}), "reward_none")
    with Served(source, "--require-all", *names) as served:
        no_reward(served.judge("skip"), "reward_none")


def rewards_of_another_range_count_from_zero_to_one():
    with Served("def reward(completion, row):\n    return float(completion)\n", "--range=-1.0,1.0") as served:
        assert [served.judge(text).reward for text in ("-1", "0", "1")] == [0.0, 0.5, 1.0]
        no_reward(served.judge("1.5"), "reward_out_of_range")


def a_file_that_fails_ends_the_program_with_its_reason_before_anything_is_judged():
    for source, words in [("def reward(completion, row)\n", "SyntaxError"), ("import nowhere_to_be_found\n", "nowhere_to_be_found"),
                          ("def score(x):\n    pass\n", "has none of reward, reward_batch, compute_score, it has: score"),
                          ("async def reward(completion, row):\n    return 1\n", "coroutine")]:
        with Served(source) as served:
            said = served.said + served.process.stdout.read()
            assert served.process.wait(30) != 0 and words in said, (words, said)


def a_file_that_changes_meanwhile_is_not_mixed_with_what_it_was():
    source = "import os\ndef reward(completion, row):\n    return os._exit(1) if completion == 'crash' else 1.0\n"
    with Served(source) as served:
        assert served.judge("a").reward == 1.0
        served.path.write_text(source.replace("1.0", "0.0"))
        assert served.judge("a").reward == 1.0, "the process has the file as it was"
        no_reward(served.judge("crash"), "reward_crashed")
        no_reward(served.judge("a"), "reward_file_changed")


def what_functions_print_is_no_answer():
    with Served("import sys\ndef reward(completion, row):\n    print('{}')\n    sys.stdout.flush()\n    return 1.0\n") as served:
        assert served.judge("a").reward == 1.0


def a_program_serves_itself_where_the_run_says_and_ends_with_it():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "mine.py"
        path.write_text(f"import sys\nsys.path.insert(0, {str(BRIDGE.parent)!r})\nfrom evenkeel_verifier import serve\n"
                        "def reward(completion, row):\n    return 1.0\nserve(reward)\n")
        listen = f"127.0.0.1:{free_port()}"
        process = subprocess.Popen([sys.executable, "-u", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=os.environ | {"EVENKEEL_VERIFIER_LISTEN": listen})
        assert "listening" in process.stdout.readline()
        served = Served.__new__(Served)
        served.channel = grpc.insecure_channel(listen)
        assert served.judge("a").reward == 1.0
        process.stdin.close()
        began = time.monotonic()
        assert process.wait(20) == 0 and time.monotonic() - began < 10


CHECKS = [
    a_function_sees_the_text_its_tokens_why_it_ended_and_the_row,
    what_is_no_number_is_no_reward_and_never_a_zero,
    functions_of_trl_and_of_verl_load_as_they_are,
    several_functions_have_weights_and_are_components_and_none_leaves_one_out,
    rewards_of_another_range_count_from_zero_to_one,
    a_file_that_fails_ends_the_program_with_its_reason_before_anything_is_judged,
    a_file_that_changes_meanwhile_is_not_mixed_with_what_it_was,
    what_functions_print_is_no_answer,
    a_program_serves_itself_where_the_run_says_and_ends_with_it,
]

if __name__ == "__main__":
    checks = {check.__name__: check for check in CHECKS}
    if len(sys.argv) < 2:
        print("\n".join(checks))
    else:
        checks[sys.argv[1]]()
