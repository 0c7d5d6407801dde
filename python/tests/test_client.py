"""The client of reward services, against one in this process that misbehaves on demand, and against the real one where there is its program."""

import json
import os
import re
import subprocess
import sys
from concurrent import futures

import pytest

grpc = pytest.importorskip("grpc")

from evenkeel_rlvr import InvalidVerdict, errors, trl, verify_math, verl  # noqa: E402
from evenkeel_rlvr._messages import message, names_of  # noqa: E402
from evenkeel_rlvr.client import CodeItem, MathItem, RewardClient, ServiceVerdict, Tls  # noqa: E402

SUM = "```python\nprint(sum(map(int, input().split())))\n```"


class Service:
    """Judges mathematics by `verify_math`; a completion may say what goes wrong."""

    def __init__(self, token=None):
        self.token, self.calls, self.lost, self.seen = token, 0, set(), []
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        handlers = {
            "Verify": grpc.stream_stream_rpc_method_handler(
                self.verify, message("VerifyRequest").FromString, lambda verdict: verdict.SerializeToString()
            )
        }
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("evenkeel.v1.Reward", handlers)])
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def verify(self, requests, context):
        self.calls += 1
        if self.token and ("authorization", f"Bearer {self.token}") not in context.invocation_metadata():
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
        waiting = []
        for request in requests:
            item = request.item
            self.seen.append(item)
            if item.completion.startswith("lost") and item.completion not in self.lost:
                self.lost.add(item.completion)
                context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
            if item.completion == "always lost":
                context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
            verdict = message("Verdict")(id="7777" if item.completion == "another" else item.id, worker="stand-in")
            if item.completion == "no reward":
                verdict.outcome, verdict.reason_code = 1, "equal_integer"
            elif item.completion.startswith("overloaded") and item.completion not in self.lost:
                self.lost.add(item.completion)
                verdict.outcome, verdict.invalid_reason, verdict.reason_code = 11, 6, "overloaded"
            else:
                found = verify_math(item.completion, [item.math.gold, *item.math.alternatives])
                verdict.reason_code = found.reason
                verdict.outcome = {True: 1, False: 2, None: 11}[found.correct]
                if found.correct is None:
                    verdict.invalid_reason = 1
                else:
                    verdict.reward = found.reward
            waiting.append(verdict)
            # In another order than they came.
            if len(waiting) == 3:
                yield from reversed(waiting)
                waiting = []
        yield from reversed(waiting)


@pytest.fixture
def service():
    service = Service()
    yield service
    service.server.stop(None)


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    monkeypatch.setattr("evenkeel_rlvr.client.time.sleep", lambda _: None)


def test_verdicts_come_in_the_order_of_items(service):
    with RewardClient(service.address) as client:
        verdicts = client.verify(MathItem(rf"\boxed{{{n}}}", [str(n - n % 2), "-1"]) for n in range(1_000))
        assert [verdict.correct for verdict in verdicts] == [n % 2 == 0 for n in range(1_000)]
        assert verdicts[0].worker == "stand-in" and service.calls == 1
        assert client.verify([]) == []


def test_an_invalid_verdict_is_neither_true_nor_false(service):
    with RewardClient(service.address) as client:
        (verdict,) = client.verify([MathItem("x", "")])
    assert (verdict.outcome, verdict.invalid_reason, verdict.correct, verdict.reward) == ("invalid", "bad_gold", None, None)
    with pytest.raises(InvalidVerdict, match="bad_gold"):
        bool(verdict)


def test_lost_and_overloaded_items_are_sent_again(service):
    items = [MathItem(f"{word} {n}. \\boxed{{4}}", "4") for n in range(2) for word in ("lost", "overloaded", "fine")]
    with RewardClient(service.address) as client:
        assert [verdict.correct for verdict in client.verify(items)] == [True] * 6
    assert service.calls > 1


def test_a_second_address_takes_what_the_first_lost(service):
    with RewardClient(["127.0.0.1:1", service.address]) as client:
        assert all(verdict.correct for verdict in client.verify([MathItem(r"\boxed{4}", "4")] * 10))


def test_what_nobody_can_judge_is_invalid_and_not_wrong(service):
    with RewardClient([service.address, "127.0.0.1:1"]) as client:
        (verdict,) = client.verify([MathItem("always lost", "4")])
        assert verdict.invalid_reason == "worker_lost" and "unavailable" in verdict.detail
        (verdict,) = client.verify([MathItem("no reward", "4")])
        assert verdict.is_invalid and "no reward with the outcome correct" in verdict.detail


def test_an_item_above_the_limit_is_invalid_and_loses_no_other(service):
    with RewardClient(service.address) as client:
        large, small = client.verify([MathItem("x" * (33 << 20), "4"), MathItem(r"\boxed{4}", "4")])
    assert large.invalid_reason == "too_large" and small.correct


def test_an_answer_to_another_question_is_refused(service):
    with RewardClient(service.address) as client, pytest.raises(errors.ServiceError, match="'7777'.*not asked"):
        client.verify([MathItem("another", "4")])


def test_a_token_is_sent_and_a_wrong_one_raises():
    service = Service(token="secret")
    with RewardClient(service.address, token="secret") as client:
        assert client.verify([MathItem(r"\boxed{4}", "4")])[0].correct
    with RewardClient(service.address, token="other") as client:
        with pytest.raises(errors.ServiceError, match="unauthenticated: no token"):
            client.verify([MathItem(r"\boxed{4}", "4")])
    with pytest.raises(errors.ArgumentValueError, match="^token would be sent in clear to example.org:1"):
        RewardClient("example.org:1", token="secret")
    service.server.stop(None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"addresses": []}, "^addresses is empty"),
        ({"addresses": "localhost"}, "^addresses has 'localhost', allowed: HOST:PORT"),
        ({"addresses": "http://x"}, "^addresses has 'http://x'"),
        ({"addresses": "localhost:1", "timeout": 0}, "^timeout is 0"),
    ],
)
def test_addresses_and_times_are_checked(arguments, message):
    with pytest.raises(errors.ArgumentValueError, match=message):
        RewardClient(**arguments)


def test_a_closed_client_says_so(service):
    client = RewardClient(service.address)
    client.close()
    with pytest.raises(errors.ClientClosed):
        client.verify([MathItem("x", "4")])
    with pytest.raises(FileNotFoundError):
        RewardClient(service.address, tls=Tls("/nowhere.pem")).verify([MathItem("x", "4")])


def test_items_of_another_type_are_refused_by_name(service):
    client = RewardClient(service.address)
    for item, message_ in [
        ("x", "an item is of type str, allowed: MathItem, CodeItem"),
        (MathItem(b"x", "4"), "completion is of type bytes"),
        (CodeItem("x", []), "tests is of type list"),
        (CodeItem("x", {"a": 1}), r"tests has \['a'\], allowed: inputs and outputs"),
        (CodeItem("x", {"inputs": [], "outputs": []}, cpu_s=1e300), "cpu_s is 1e"),
        (CodeItem("x", {"inputs": [], "outputs": []}, memory_mb="64"), "memory_mb is of type str, allowed: a number"),
        (CodeItem("x", {"inputs": 5, "outputs": 5}), "inputs is of type int, allowed: a sequence"),
        (CodeItem("x", {"inputs": ["1"], "outputs": "1"}), "outputs is of type str, allowed: a sequence"),
        (CodeItem("x", {1: 2, "a": 3}), "tests has \\['1', 'a'\\]"),
        (MathItem("x", 4), "gold is of type int, allowed: a sequence"),
        (CodeItem("x", {"inputs": [], "outputs": []}, cpu_s=-1), "cpu_s is -1"),
    ]:
        with pytest.raises(errors.EvenkeelError, match=message_):
            client.verify([item])


def test_lists_of_tests_that_differ_in_length_are_a_fault_of_the_row(service):
    with RewardClient(service.address) as client:
        bad, good = client.verify([CodeItem("x", {"inputs": ["1"], "outputs": []}), MathItem("\\boxed{4}", "4")])
    assert (bad.invalid_reason, bad.detail) == ("bad_tests", "tests: length of outputs is 0, allowed: 1, the length of inputs")
    assert good.correct and len(service.seen) == 1


def test_lone_surrogates_are_sent_as_unreadable_characters(service):
    with RewardClient(service.address) as client:
        assert client.verify([MathItem("\ud800 \\boxed{4}", "4")])[0].correct


def test_tests_of_apps_and_livecodebench_become_messages(service):
    with RewardClient(service.address) as client:
        client.verify(
            [
                CodeItem(SUM, {"inputs": ["1 2\n", ["3", "4"]], "outputs": ["3", "7"]}, partial=True, cpu_s=0.5, memory_mb=64),
                CodeItem(SUM, {"inputs": [[1, [2]]], "outputs": [[[3]]], "fn_name": "f"}),
                CodeItem(SUM, {"public_test_cases": "[]", "private_test_cases": "", "metadata": "{}"}, question_id="q"),
            ]
        )
    by_stdin, by_function, published = (item.code for item in service.seen)
    assert [(test.kind, test.input, test.output) for test in by_stdin.tests.tests] == [(1, "1 2\n", "3"), (1, "3\n4", "7")]
    assert (by_stdin.reward, by_stdin.limits.cpu_ms, by_stdin.limits.memory_bytes) == (2, 500, 64 << 20)
    (test,) = json.loads(by_function.live_code_bench.public_test_cases)
    # APPS wraps a returned value in a list.
    assert test == {"input": "1\n[2]", "output": "[[3]]", "testtype": "functional", "alternatives": ["[3]"]}
    assert json.loads(by_function.live_code_bench.metadata) == {"func_name": "f"}
    assert published.live_code_bench.metadata == "{}" and published.question_id == "q"


def test_a_forked_process_opens_a_connection_of_its_own(service):
    program = f"""if True:
        import os
        from evenkeel_rlvr.client import MathItem, RewardClient
        client = RewardClient({service.address!r})
        child = os.fork()
        correct = all(v.correct for v in client.verify([MathItem(r"\\boxed{{4}}", "4")]))
        if child == 0:
            os._exit(0 if correct else 1)
        print(correct, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True 0\n", done.stderr


def test_names_of_outcomes_are_those_of_the_protocol():
    assert names_of("Outcome")[1] == "correct" and names_of("InvalidReason")[10] == "worker_lost"
    assert ServiceVerdict.read(message("Verdict")(outcome=99)).invalid_reason == "internal"


def test_tests_that_are_none_are_invalid_and_raise_or_count(monkeypatch, service):
    monkeypatch.setenv("EVENKEEL_REWARD", service.address)
    reward = trl.code_reward()
    assert reward(prompts=["", ""], completions=[SUM, SUM], tests=["{", None]) == [None, None]
    with pytest.raises(InvalidVerdict, match="bad_tests"):
        verl.compute_score_code("own", SUM, "[]")
    assert verl.compute_score_code("own", SUM, "[]", on_invalid=0.5)["score"] == 0.5


@pytest.fixture(scope="module")
def real():
    program = os.environ.get("EVENKEEL_PROGRAM")
    if not program:
        pytest.skip("EVENKEEL_PROGRAM is not set")
    started = subprocess.Popen(
        [program, "serve", "reward", "--set", "server.listen=127.0.0.1:0"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    address = None
    for line in started.stderr:
        found = re.search(r"serving .*address=(\S+)", line)
        if found:
            address = found.group(1)
            break
    assert address, "the service did not start"
    yield address
    started.terminate()
    started.wait(timeout=60)


def test_the_real_service_agrees_with_the_package(real):
    pairs = [(r"\boxed{0.75}", r"\frac{3}{4}"), (r"\boxed{5}", "4"), ("x", "4"), ("x", ""), (r"\boxed{x}", ["", "x"])]
    with RewardClient(real) as client:
        verdicts = client.verify(MathItem(completion, gold) for completion, gold in pairs)
        status = client.status()[real]
    here = [verify_math(completion, gold) for completion, gold in pairs]
    assert [(v.outcome, v.reason, v.reward, v.extracted, v.canonical) for v in verdicts] == [
        (v.outcome, v.reason, v.reward, v.extracted, v.canonical) for v in here
    ]
    assert status["math"] is True


def test_the_real_service_judges_programs(real):
    if os.environ.get("EVENKEEL_TEST_PROGRAMS") != "1":
        pytest.skip("EVENKEEL_TEST_PROGRAMS is not set: the interpreter may have to be built first")
    tests = {"inputs": ["1 2", "3 4"], "outputs": ["3", "8"]}
    function = "```python\nclass Solution:\n    def add(self, a, b):\n        return a + b\n```"
    with RewardClient(real) as client:
        wrong, half, right, whole, off, none = client.verify(
            [
                CodeItem(SUM, tests),
                CodeItem(SUM, tests, partial=True),
                CodeItem(function, {"inputs": [[1, 2]], "outputs": [[3]], "fn_name": "add"}),
                CodeItem(function, {"inputs": [[[1], [2]]], "outputs": [[1, 2]], "fn_name": "add"}),
                CodeItem(function, {"inputs": [[1, 2]], "outputs": [[4]], "fn_name": "add"}),
                CodeItem(SUM, {"inputs": [], "outputs": []}),
            ]
        )
        assert (whole.correct, off.correct, none.invalid_reason) == (True, False, "bad_tests")
    assert (wrong.outcome, wrong.reward, wrong.code.failing_test, wrong.code.total_tests) == ("wrong_answer", 0.0, 1, 2)
    assert half.reward == 0.5 and right.correct and right.code.passed_tests == 1
    assert verl.compute_score_code("own", SUM, tests, address=real, partial=True)["score"] == 0.5
    assert trl.code_reward(address=real)(prompts=[""], completions=[function], tests=['{"inputs": [[1, 2]], "outputs": [3], "fn_name": "add"}']) == [1.0]


def test_the_real_service_and_a_pool_say_the_same_of_a_program(real):
    if os.environ.get("EVENKEEL_TEST_PROGRAMS") != "1":
        pytest.skip("EVENKEEL_TEST_PROGRAMS is not set: the interpreter may have to be built first")
    from evenkeel_rlvr.code import Pool

    tests = {"inputs": ["1 2", "3 4"], "outputs": ["3", "8"]}
    programs = ["print(3)", "print(", "raise ValueError('no')", "while True: pass", "import numpy", "x = ' ' * 2**30", "import sys; sys.exit(3)", "print(4.0000001)"]
    items = [CodeItem(f"```python\n{program}\n```", tests, partial=partial, cpu_s=0.3, memory_mb=64) for program in programs for partial in (False, True)]
    items += [CodeItem("no program", tests), CodeItem("<think>", tests), CodeItem(SUM, {"inputs": [[1]], "outputs": [1], "fn_name": "f"})]
    with RewardClient(real) as client, Pool(2) as pool:
        remote, local = client.verify(items), pool.verify_batch(items)

    def shape(verdict):
        code = verdict.code
        counts = (code.passed_tests, code.run_tests, code.total_tests, code.failing_test, code.stdout, code.stderr)
        # How long it worked is in the detail of a time limit.
        detail = None if verdict.outcome == "time_limit" else verdict.detail
        return verdict.outcome, verdict.reason, verdict.reward, verdict.extracted, detail, verdict.invalid_reason, counts

    assert [shape(verdict) for verdict in local] == [shape(verdict) for verdict in remote]


def test_the_client_is_needed_by_nobody_else():
    program = """if True:
        import sys
        sys.modules["grpc"] = sys.modules["google.protobuf"] = None
        from evenkeel_rlvr import errors, verify_math
        from evenkeel_rlvr.client import MathItem, RewardClient
        try:
            RewardClient("localhost:1").verify([MathItem("x", "4")])
        except errors.MissingPackage as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "pip install evenkeel-rlvr[grpc]" in done.stdout, done.stderr


def test_a_child_that_was_forked_while_a_connection_was_opened_is_not_locked():
    with RewardClient("127.0.0.1:1") as client, client._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if client._lock.acquire(timeout=10) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
