"""Plays tasks of a taskset of verifiers 0.4: `environment = "verifiers:TASKSET"` in the section `data` of a recipe.

The worker starts it with an interpreter that has the package. The first frame of its input has the settings, each further one an episode to play,
or to cancel; each frame of its output is an episode that is over, with the reward that the taskset gives. The taskset's harness asks the model as it would ask any server, at the URL
of the episode (the client `eval`). What goes wrong is no reward of 0: the episode has none.
"""

import asyncio
import hashlib
import inspect
import json
import os
import sys
import traceback

MAX_WORDS = 400
# A variable that is not set: the URL of an episode is all that it needs.
NO_KEY = "EVENKEEL_NO_KEY"


def load(taskset, env):
    """The environment of a taskset: an installed package, or a Python file."""
    from verifiers.v1.configs.agent import agent_config_fields
    from verifiers.v1.utils.loaders import default_harness_id, env_config_type, load_environment, resolve_env_config

    ident = taskset
    if taskset.endswith(".py"):
        folder, file = os.path.split(os.path.abspath(taskset))
        sys.path.insert(0, folder)
        ident = os.path.splitext(file)[0]
    env = dict(env)
    env["taskset"] = {**env.get("taskset", {}), "id": ident}
    seats = agent_config_fields(env_config_type(ident, env.get("id", ""))())
    for name in seats:
        seat = dict(env.get(name, {}))
        # On this machine, and without a shell for the model, unless somebody says otherwise.
        seat.setdefault("runtime", {"type": "subprocess"})
        if default_harness_id(ident) == "bash":
            seat.setdefault("harness", {"id": "null"})
        env[name] = seat
    return load_environment(resolve_env_config(env))


def fingerprint(env):
    """What decides how episodes go: the version of the package, the settings, and the source of the taskset."""
    import verifiers

    digest = hashlib.sha256()
    module = sys.modules[type(env.taskset).__module__]
    source = inspect.getsourcefile(module)
    files = [source]
    if module.__spec__ and module.__spec__.submodule_search_locations:
        folder = os.path.dirname(source)
        files = sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".py"))
    for file in files:
        with open(file, "rb") as opened:
            digest.update(opened.read())
    return json.dumps([verifiers.__version__, env.config.model_dump(mode="json"), digest.hexdigest()], sort_keys=True, default=str)


def words_of(error):
    return "".join(traceback.format_exception_only(type(error), error)).strip()[:MAX_WORDS].encode("utf-8", "replace").decode("utf-8")


def failure_of(episode):
    """Why an episode has no reward, or nothing."""
    traces = [trace for trace in episode.traces if not trace.ok]
    errors = [*episode.errors, *(error for trace in traces for error in trace.errors)]
    if episode.ok and not traces:
        return ""
    if errors:
        return f"{errors[-1].type}: {errors[-1].message}"[:MAX_WORDS]
    return "the episode did not end well, and verifiers does not say why"


def score_of(episode, low, high):
    """The reward of an episode, from 0 to 1, with its parts: the mean over the agents that are trained."""
    traces = [trace for trace in episode.traces if trace.agent is None or trace.agent.trainable] or episode.traces
    rewards = [reward for trace in traces for reward in trace.rewards.values()]
    if not rewards or None in rewards:
        raise ValueError("the taskset has no reward for the episode")
    reward = sum(trace.reward for trace in traces) / len(traces)
    if not low <= reward <= high:
        raise ValueError(f"the reward of the episode is {reward}, allowed: {low} to {high} (environment.verifiers_range)")
    parts = {}
    for trace in traces:
        for name, part in trace.rewards.items():
            parts.setdefault(name, []).append(part.score)
    parts = {name: sum(values) / len(values) for name, values in parts.items()} if len(parts) > 1 else {}
    components = {name: value for name, value in parts.items() if -1.0 <= value <= 1.0}
    return {"reward": (reward - low) / (high - low), "components": components}


async def play(env, request, span):
    from verifiers.v1.clients import ModelContext
    from verifiers.v1.configs.client import EvalClientConfig
    from verifiers.v1.types import SamplingConfig

    kind = type(env.taskset).task_type()
    try:
        data = kind.data_type().model_validate(request["task"]["environment_task"])
    except KeyError:
        return {"task_error": "the row has no column `environment_task`, required: a task of the taskset"}
    except ValueError as error:
        return {"task_error": f"environment_task: {words_of(error)}"}
    client = EvalClientConfig(base_url=request["base_url"], api_key_var=NO_KEY)
    context = ModelContext(client=client, model="policy", sampling=SamplingConfig())
    episode = await env.run_episode(kind(data, env.config.taskset.task), context)
    failure = failure_of(episode)
    return {"error": failure} if failure else {"score": score_of(episode, *span)}


async def serve(env, span, pipe):
    running = {}

    async def run(id, request):
        try:
            answer = await play(env, request, span)
        except asyncio.CancelledError:
            answer = {"error": "cancelled"}
        except Exception as error:  # the taskset's own code
            traceback.print_exc()
            answer = {"error": words_of(error)}
        running.pop(id, None)
        pipe.say(id, answer)

    async with env.serving():
        while got := await asyncio.to_thread(pipe.next):
            id, request = got
            if request["do"] == "run":
                running[id] = asyncio.create_task(run(id, request))
            elif task := running.get(id):
                task.cancel()
        for task in [*running.values()]:
            task.cancel()


def main():
    pipe = Pipe()  # noqa: F821, the program begins with it
    options = pipe.settings()
    try:
        env = load(options["taskset"], options["env"])
        identity = fingerprint(env)
    except BaseException as error:
        pipe.say(HELLO, {"error": words_of(error)})  # noqa: F821
        sys.exit(1)
    pipe.say(HELLO, {"fingerprint": identity})  # noqa: F821
    asyncio.run(serve(env, options["range"], pipe))


if __name__ == "__main__":
    main()
