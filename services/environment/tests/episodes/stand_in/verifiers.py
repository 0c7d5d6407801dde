"""What the bridge takes of verifiers, without the package: an environment that does what its tasks say, and asks the model at the URL that it is
given."""

import asyncio
import contextlib
import json
import os
import stat
import sys
import time
import types
import urllib.request
from types import SimpleNamespace

__version__ = "stand-in"
__path__ = []


class TaskData(SimpleNamespace):
    @classmethod
    def model_validate(cls, value):
        if not isinstance(value, dict) or "do" not in value:
            raise ValueError("do: Field required")
        return cls(**value)


class Task:
    def __init__(self, data, config):
        self.data = data

    @staticmethod
    def data_type():
        return TaskData


class Taskset:
    def __init__(self, config):
        self.config = config

    @staticmethod
    def task_type():
        return Task


class Env:
    def __init__(self, config):
        self.config, self.taskset = config, Taskset(config.taskset)

    @contextlib.asynccontextmanager
    async def serving(self):
        print("noise that is no answer")
        yield

    async def run_episode(self, task, context):
        assert context.client.api_key_var not in os.environ
        said = await asyncio.to_thread(ask, context.client.base_url, context.model, task.data.prompt)
        return await episode(task.data.do, said)


def ask(base_url, model, prompt):
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]}).encode()
    with urllib.request.urlopen(urllib.request.Request(base_url + "/chat/completions", body), timeout=60) as response:
        return json.load(response)["choices"][0]["message"]["content"]


async def episode(what, said):
    part = lambda score, weight=1.0: SimpleNamespace(score=score, weight=weight, value=score * weight)
    rewards, errors = {"right": part(float(said == "b"), 0.75), "short": part(1.0, 0.25)}, []
    match what:
        case "raise":
            raise RuntimeError("the shelf fell down")
        case "error":
            errors = [SimpleNamespace(type="HarnessError", message="harness 'null' exited 1")]
        case "unscored":
            rewards = {"right": None}
        case "high":
            rewards = {"right": part(7.0)}
        case "hang":
            await asyncio.sleep(1000)
        case "fork":
            os.fork()  # both return
        case "stray":
            for pipe in (fd for fd in range(3, 200) if is_pipe(fd)):
                with contextlib.suppress(OSError):
                    os.write(pipe, b'{"episode": "none"}\n')
        case "block":
            time.sleep(1000)
        case "exit":
            print("out of shelves", file=sys.stderr, flush=True)
            os._exit(3)
    reward = sum(reward.value for reward in rewards.values() if reward)
    trace = SimpleNamespace(ok=not errors, errors=errors, rewards=rewards, reward=reward, agent=SimpleNamespace(trainable=True))
    return SimpleNamespace(ok=not errors, errors=[], traces=[trace])


def is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


def resolve_env_config(env):
    if env["agent"].get("max_turns") == 0:
        raise ValueError("agent.max_turns: Input should be greater than 0")
    taskset = SimpleNamespace(task=None, **env["taskset"])
    return SimpleNamespace(taskset=taskset, model_dump=lambda mode: env)


def module(name, **values):
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(values)
    sys.modules[name] = made


named = lambda **values: SimpleNamespace(**values)
module("verifiers.v1")
module("verifiers.v1.configs")
module("verifiers.v1.configs.agent", agent_config_fields=lambda config: {"agent": None})
module("verifiers.v1.configs.client", EvalClientConfig=named)
module("verifiers.v1.clients", ModelContext=named)
module("verifiers.v1.types", SamplingConfig=named)
module("verifiers.v1.utils")
module(
    "verifiers.v1.utils.loaders", default_harness_id=lambda taskset: "bash", env_config_type=lambda taskset, env: dict,
    load_environment=Env, resolve_env_config=resolve_env_config,
)
