"""Verdicts on programs by a pool of this process: the same shape as a service's, in order, for whatever a model writes."""

import asyncio
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from evenkeel_rlvr import InvalidVerdict, errors, nemo, openrlhf_code, trl, verifiers, verl
from evenkeel_rlvr._native import program_reason_codes
from evenkeel_rlvr.code import CodeItem, Pool, default_pool, verify_code

SUM = "```python\nprint(sum(map(int, input().split())))\n```"
TESTS = {"inputs": ["1 2", "3 4"], "outputs": ["3", "7"]}
HALF = {"inputs": ["1 2", "3 4"], "outputs": ["3", "8"]}


@pytest.fixture(scope="module")
def pool():
    with Pool(2) as pool:
        yield pool


def test_a_right_program_is_correct_and_a_wrong_one_says_where(pool):
    right, wrong = pool.verify(SUM, TESTS), pool.verify(SUM, HALF)
    assert (bool(right), right.outcome, right.reason, right.reward) == (True, "correct", "pass", 1.0)
    assert right.extracted == "print(sum(map(int, input().split())))\n"
    assert (right.code.passed_tests, right.code.total_tests, right.code.failing_test) == (2, 2, None)
    assert (bool(wrong), wrong.outcome, wrong.reason, wrong.reward) == (False, "wrong_answer", "line_differs", 0.0)
    assert (wrong.code.failing_test, wrong.code.stdout) == (1, "7\n") and wrong.code.cpu_s > 0
    assert pool.verify(SUM, HALF, partial=True).reward == 0.5


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("raise ValueError(4)", "runtime_error"),
        ("print(", "compile_error"),
        ("while True: pass", "time_limit"),
        ("x = ' ' * 2**30", "memory_limit"),
        ("import numpy", "runtime_error"),
        ("import os; os._exit(0)", "wrong_answer"),
    ],
)
def test_outcomes_are_those_of_a_service(pool, program, outcome):
    verdict = pool.verify(f"```python\n{program}\n```", TESTS, cpu_s=0.5, memory_mb=64)
    assert (verdict.outcome, verdict.reward, verdict.is_invalid) == (outcome, 0.0, False)
    assert verdict.reason in program_reason_codes()


def test_a_text_without_a_program_has_no_answer(pool):
    verdict = pool.verify("I do not know", TESTS)
    assert (verdict.outcome, verdict.reward, verdict.extracted) == ("no_answer", 0.0, None)
    # Code without a fence is a program.
    assert pool.verify("import numpy\n", TESTS).outcome == "runtime_error"
    assert pool.verify("```python\nimport numpy\n```", TESTS).reason == "unsupported"


def test_functions_and_rows_of_livecodebench_are_read(pool):
    add = "```python\nclass Solution:\n    def add(self, a, b):\n        return a + b\n```"
    assert pool.verify(add, {"inputs": [[1, 2]], "outputs": [[3]], "fn_name": "add"}).correct
    assert pool.verify(add, {"inputs": ["1\n2"], "outputs": [3], "fn_name": "add"}).correct
    assert pool.verify(add, {"inputs": [[[1], [2]]], "outputs": [[1, 2]], "fn_name": "add"}).correct
    row = {
        "public_test_cases": json.dumps([{"input": "1 2", "output": "3", "testtype": "stdin"}]),
        "private_test_cases": "[]",
        "metadata": "{}",
    }
    assert pool.verify(SUM, row).correct


@pytest.mark.parametrize(
    ("tests", "function"),
    [
        ({"inputs": [["ab"]], "outputs": ["AB"]}, "def f(x): return x.upper()"),
        ({"inputs": ["ab"], "outputs": [["AB"]]}, "def f(x): return x.upper()"),
        ({"inputs": [[1], [2]], "outputs": ["1", "2"]}, "def f(x): return str(x)"),
        ({"inputs": [[1], [2]], "outputs": ["1", "2"]}, "def f(x): return x"),
        ({"inputs": [[1]], "outputs": [["1"]]}, "def f(x): return str(x)"),
        ({"inputs": [[1]], "outputs": [["1"]]}, "def f(x): return x"),
        ({"inputs": ["1\n2"], "outputs": ["3"]}, "def f(x, y): return x + y"),
        ({"inputs": [3], "outputs": [4]}, "def f(x): return x + 1"),
    ],
)
def test_the_result_of_a_function_may_be_a_text_or_its_json(pool, tests, function):
    program = f"```python\n{function}\n```"
    assert pool.verify(program, {**tests, "fn_name": "f"}).correct
    assert not pool.verify("```python\ndef f(*x): return None\n```", {**tests, "fn_name": "f"}).correct


def test_what_a_program_reads_may_be_a_number_or_lines(pool):
    double = "```python\nimport sys\nprint(sum(int(line) for line in sys.stdin) * 2)\n```"
    assert pool.verify(double, {"inputs": [4], "outputs": [8]}).correct
    assert pool.verify(double, {"inputs": [[1, 2]], "outputs": [["6"]]}).correct
    assert pool.verify(double, {"inputs": [["1\n", "2\n"]], "outputs": [6]}).correct


@pytest.mark.parametrize(
    "tests",
    [
        {"inputs": [], "outputs": []},
        {"public_test_cases": "{", "private_test_cases": "", "metadata": "{}"},
        {"public_test_cases": "[]", "private_test_cases": "AAAA", "metadata": "{}"},
        {"inputs": ["1"], "outputs": []},
        {"inputs": [[1]], "outputs": [1, 2], "fn_name": "f"},
    ],
)
def test_tests_that_cannot_be_judged_are_a_fault_of_the_row(pool, tests):
    verdict = pool.verify(SUM, tests)
    assert (verdict.outcome, verdict.invalid_reason, verdict.reward) == ("invalid", "bad_tests", None)
    with pytest.raises(InvalidVerdict, match="bad_tests"):
        bool(verdict)


def test_verdicts_come_in_the_order_of_items(pool):
    def item(number):
        return CodeItem(f"```python\nprint({number})\n```", {"inputs": [""], "outputs": [str(number - number % 2)]})

    # More than the pool holds at a time, and of a generator.
    verdicts = pool.verify_batch(item(number) for number in range(300))
    assert [verdict.correct for verdict in verdicts] == [number % 2 == 0 for number in range(300)]
    assert pool.verify_batch([]) == []
    assert pool.usage()["programs"] == 0


def test_a_faulty_row_takes_no_place_of_another(pool):
    verdicts = pool.verify_batch([CodeItem(SUM, TESTS), CodeItem(SUM, {"inputs": [], "outputs": []}), CodeItem(SUM, HALF)])
    assert [verdict.correct for verdict in verdicts] == [True, None, False]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"completion": b"x"}, errors.ArgumentTypeError, "^completion is of type bytes, allowed: str"),
        ({"completion": None}, errors.ArgumentTypeError, "^completion is of type NoneType"),
        ({"tests": []}, errors.ArgumentTypeError, "^tests is of type list, allowed: a mapping"),
        ({"tests": {"a": 1}}, errors.ArgumentValueError, r"^tests has \['a'\], allowed: inputs and outputs"),
        ({"tests": {"inputs": "1", "outputs": ["1"]}}, errors.ArgumentTypeError, "^inputs is of type str, allowed: a sequence"),
        ({"tests": {"inputs": [{"a": 1}], "outputs": ["1"]}}, errors.ArgumentTypeError, "^an input is of type dict, allowed: str"),
        ({"tests": {"inputs": [[{1}]], "outputs": ["1"], "fn_name": "f"}}, errors.ArgumentValueError, "^a test of a function has no"),
        ({"cpu_s": 0}, errors.ArgumentValueError, "^cpu_s is 0, allowed: 0.001 to 60"),
        ({"cpu_s": float("nan")}, errors.ArgumentValueError, "^cpu_s is nan"),
        ({"cpu_s": "1"}, errors.ArgumentTypeError, "^cpu_s is of type str, allowed: a number"),
        ({"memory_mb": 1}, errors.ArgumentValueError, "^memory_mb is 1, allowed: 16 to 3072"),
    ],
)
def test_arguments_are_refused_by_name(pool, arguments, kind, message):
    with pytest.raises(kind, match=message):
        pool.verify(**{"completion": SUM, "tests": TESTS, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"workers": 0}, "^workers is 0, allowed: 1 to 256"), ({"queue": 0}, "^queue is 0"), ({"memory_mb": 1}, "^memory_mb is 1"), ({"workers": 1.5}, "^workers is of type float")],
)
def test_settings_of_a_pool_are_refused_by_name(arguments, message):
    with pytest.raises(errors.EvenkeelError, match=message):
        Pool(**arguments)


def test_an_item_of_another_type_ends_the_batch_and_leaves_nothing_running(pool):
    with pytest.raises(errors.ArgumentTypeError, match="^an item is of type str, allowed: CodeItem"):
        pool.verify_batch([CodeItem("```python\nwhile True: pass\n```", TESTS), "x"])
    assert pool.verify(SUM, TESTS).correct


PIECES = st.sampled_from(
    ["```python\n", "```\n", "~~~", "<think>", "</think>", "print(1)\n", "import os\n", "def f(:\n", "\ud800", "\0", "\u2028", "'''", "while True: pass\n", "exit(3)\n", "[THINK]"]
)


@given(st.lists(PIECES | st.text(max_size=20), max_size=12).map("".join))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_model_writes_has_a_verdict(pool, completion):
    verdict = pool.verify(completion, {"inputs": [""], "outputs": ["1"]}, cpu_s=0.2)
    assert verdict.correct in (True, False) and verdict.reason in program_reason_codes()
    assert json.dumps(verdict.extracted) and len(verdict.detail.encode()) <= 1 << 16


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(st.dictionaries(st.sampled_from(["inputs", "outputs", "fn_name", "public_test_cases", "private_test_cases", "metadata"]), VALUES))
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_row_has_is_judged_or_refused_by_name(pool, tests):
    try:
        verdict = pool.verify(SUM, tests, cpu_s=0.2)
    except errors.EvenkeelError as error:
        assert isinstance(error, (errors.ArgumentTypeError, errors.ArgumentValueError))
    else:
        assert verdict.correct in (True, False, None)


def test_a_hundred_megabytes_have_a_verdict(pool):
    assert pool.verify("x" * (100 << 20), TESTS).outcome == "no_answer"
    assert pool.verify("```python\n" + "#" * (100 << 20) + "\n```", TESTS).outcome in ("compile_error", "no_answer")


def test_counted_instructions_give_the_same_verdict_every_time():
    loop = "```python\nfor _ in range(10**9): pass\n```"
    with Pool(1, deterministic=True) as pool:
        verdicts = [pool.verify(loop, TESTS, cpu_s=0.05) for _ in range(2)]
        assert pool.verify(SUM, TESTS).correct
    assert [verdict.outcome for verdict in verdicts] == ["time_limit"] * 2
    assert verdicts[0].code.cpu_s == verdicts[1].code.cpu_s


def test_rewards_of_trainers_need_no_service(monkeypatch):
    monkeypatch.delenv("EVENKEEL_REWARD", raising=False)
    assert trl.code_reward()(prompts=[""] * 3, completions=[SUM, "x", SUM], tests=[json.dumps(TESTS), TESTS, "{"]) == [1.0, 0.0, None]
    found = verl.compute_score_code("own", SUM, HALF, partial=True)
    assert (found["score"], found["acc"], found["invalid"]) == (0.5, 0.0, 0.0)
    with pytest.raises(InvalidVerdict, match="bad_tests"):
        verl.compute_score_code("own", SUM, "[]")


def test_the_reward_for_verifiers_is_asynchronous_and_raises_on_an_invalid_verdict(monkeypatch):
    monkeypatch.delenv("EVENKEEL_REWARD", raising=False)
    task = SimpleNamespace(tests=HALF, broken="{")
    assert asyncio.run(verifiers.code(task, SimpleNamespace(last_reply=SUM))) == 0.0
    assert asyncio.run(verifiers.code_reward(partial=True)(task, SimpleNamespace(last_reply=SUM))) == 0.5
    assert asyncio.run(verifiers.code(task, SimpleNamespace(last_reply=None))) == 0.0
    with pytest.raises(InvalidVerdict, match="bad_tests"):
        asyncio.run(verifiers.code_reward("broken")(task, SimpleNamespace(last_reply=SUM)))
    with pytest.raises(errors.ArgumentValueError, match="^field is 'gold'"):
        asyncio.run(verifiers.code_reward("gold")(task, SimpleNamespace(last_reply=SUM)))


def test_the_reward_for_openrlhf_cuts_the_prompt_and_counts_invalid_verdicts(monkeypatch):
    monkeypatch.delenv("EVENKEEL_REWARD", raising=False)
    monkeypatch.setenv("EVENKEEL_INVALID_REWARD", "-0.5")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(tensor=np.array))
    prompt = f"As in {SUM}, add. "
    result = openrlhf_code.reward_func([prompt + SUM, prompt + "no", prompt + SUM], [prompt] * 3, [json.dumps(TESTS)] * 2 + ["{"])
    assert result["rewards"].tolist() == [1.0, 0.0, -0.5] == result["scores"].tolist()
    assert result["extra_logs"]["invalid"].tolist() == [0.0, 0.0, 1.0]


def test_the_environment_for_nemo_judges_what_the_assistant_said(monkeypatch):
    monkeypatch.delenv("EVENKEEL_REWARD", raising=False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(tensor=np.array, ones_like=np.ones_like))
    interfaces = SimpleNamespace(EnvironmentReturn=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "nemo_rl.environments.interfaces", interfaces)
    logs = [[{"role": "user", "content": SUM}, {"role": "assistant", "content": reply}] for reply in (SUM, "no", SUM, SUM)]
    rows = [{"ground_truth": tests} for tests in (TESTS, TESTS, json.dumps(HALF), "{")]
    result = nemo.CodeJudge({"partial": True, "on_invalid": -0.5}).step(logs, rows)
    assert result.rewards.tolist() == [1.0, 0.0, 0.5, -0.5]
    assert [known["evenkeel_invalid"] for known in result.metadata] == [False, False, False, True]
    with pytest.raises(errors.ArgumentValueError, match=r"^metadata\[0\] has no ground_truth, required: the tests"):
        nemo.CodeJudge().step(logs[:1], [{}])
    with pytest.raises(errors.ArgumentValueError, match=r"\['profile'\], allowed: address, on_invalid, partial, workers"):
        nemo.CodeJudge({"profile": "exact"})


def test_the_pool_of_a_process_is_made_once_for_each_number_of_workers():
    assert verify_code(SUM, TESTS).correct
    assert default_pool() is default_pool() and default_pool(1) is not default_pool()
    default_pool(1).close()
    assert default_pool(1).verify(SUM, TESTS).correct
