"""verifiers as installed: a task takes the reward by its path, and an invalid verdict is an error of the trace."""

import asyncio

import pytest
import verifiers.v1 as vf
from verifiers.v1.configs.task import RewardFunctionConfig, TaskConfig
from verifiers.v1.trace import Trace


class Data(vf.TaskData):
    answer: str = ""


class Task(vf.Task[Data, vf.State, TaskConfig]):
    pass


class RecordedTrace:
    """A trace that has its last reply only; rewards are recorded as in the real one."""

    record_reward = Trace.record_reward

    def __init__(self, reply):
        self.last_reply, self.rewards, self.metrics = reply, {}, {}

    def record_metric(self, name, value):
        self.metrics[name] = value

    def record_metrics(self, values):
        self.metrics.update(values)


def score(reply, answer, prompt="2+2?"):
    config = TaskConfig(rewards={"math": RewardFunctionConfig(fn="evenkeel_rlvr.verifiers:math")})
    trace = RecordedTrace(reply)
    asyncio.run(Task(Data(prompt=prompt, answer=answer), config).score(trace, None))
    return trace.rewards


def recorded(rewards):
    return [reward if isinstance(reward, float) else reward.value for reward in rewards.values()]


@pytest.mark.shows("rewards")
def test_a_reply_has_the_reward_of_its_verdict():
    assert recorded(score("\\boxed{4}", "4")) == [1.0]
    assert recorded(score("\\boxed{5}", "4")) == [0.0]
    assert recorded(score("\\boxed{2+2}", "4")) == [0.0], "copied from the prompt"


@pytest.mark.shows("rewards")
def test_a_task_whose_prompt_is_messages_has_its_reward():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]
    assert recorded(score("\\boxed{4}", "4", messages)) == [1.0]
    assert recorded(score("\\boxed{2+2}", "4", messages)) == [0.0], "copied from the prompt"


@pytest.mark.shows("invalid")
def test_an_invalid_verdict_is_an_error_of_the_task():
    with pytest.raises(Exception, match="gold_empty") as raised:
        score("\\boxed{4}", "")
    assert type(raised.value).__name__ == "TaskError"
