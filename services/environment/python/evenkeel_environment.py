#!/usr/bin/env python3
"""Plays episodes of an environment in a Python file of one's own: `environment = "shop.py"` in the section `data` of a recipe.

The file has a subclass of `Environment`, of which an instance is made for every episode:

    from evenkeel_environment import Environment, tool

    class Shop(Environment):
        system_prompt = "Buy what the user asks for."

        def reset(self, task, seed):          # the columns of the row, and a number for whatever is drawn
            self.left, self.bought = task["money"], []

        @tool
        def buy(self, item: str, price: int) -> str:
            '''Buys an item.'''
            self.left -= price
            self.bought.append(item)
            return f"{self.left} left"

        def score(self):                      # 0 to 1; None: the verifier of the row judges the last turn
            return float(self.left >= 0)

Every method may be `async def`. It is trusted code. It runs in processes that the run starts, several episodes in each, one step at a time: a
step that takes too long ends its process. What is not the model's fault (an exception, a crash, a deadline) is no reward of 0: the episode is
played again or left out.
"""

import collections.abc
import contextvars
import dataclasses
import enum
import functools
import inspect
import itertools
import json
import math
import os
import re
import sys
import traceback
import types
import typing
import weakref

MAX_TEXT = 1 << 20
MAX_WORDS = 400
MAX_CANCEL_S = 5


class ToolError(Exception):
    """A call that cannot be carried out: the model reads why, and goes on."""


class TaskError(Exception):
    """Raised by `reset` for a task that cannot be done: the row is at fault, and another attempt would fail alike."""


class Call(typing.NamedTuple):
    """A call of a tool."""

    name: str
    arguments: dict
    id: str


class Action(str):
    """What the model said in a turn: its text, `calls` of tools, and `finish_reason` ("stop", "length")."""

    def __new__(cls, text, calls=(), finish_reason="stop"):
        self = super().__new__(cls, text)
        self.calls, self.finish_reason = list(calls), finish_reason
        return self


def tool(method):
    """Makes a method a tool: its name, its first paragraph of documentation and the types of its parameters are what the model reads."""
    method.is_tool = True
    return method


class Environment:
    """One episode."""

    system_prompt = ""
    user_speaks = True  # whether `step` may answer a turn that calls no tool
    done = False  # set it to end the episode with this turn
    _earned = None  # since the last turn that the run knows of

    def reset(self, task, seed):
        """Begins the episode of a row. What it gives, a text or messages of the user, is read by the model after the row's prompt."""

    def step(self, action):
        """Answers a turn: a text, or a list with one for each call; None ends the episode. As it is, calls go to methods that are tools."""
        return Answers.to(action.calls, self.call) or None

    def score(self):
        """The reward, from 0 to 1, or a dict with `reward` and further components. None: the sum of what was earned, from 0 to 1; where nothing
        was, not even 0, the verifier of the row judges the last turn."""

    def earn(self, reward):
        """Adds to the reward of this turn, in `step` or a tool: any finite number."""
        try:
            earned = math.fsum((self._earned or 0.0, reward))
        except (TypeError, ValueError, OverflowError):
            earned = math.nan
        if not math.isfinite(earned):
            raise ValueError(f"earn got {reward!r}, allowed: a finite number")
        self._earned = earned

    def close(self):
        """The episode is over, however it ended."""

    def call(self, call):
        """Carries out a call: what the tool answers, or a ToolError. Of an `async def` tool it is to be awaited; `step` may also give it as it is."""
        try:
            method = getattr(self, call.name)
            inspect.signature(method).bind(**call.arguments)
            arguments = arguments_of(type(self), call)
        except (TypeError, WrongArgument) as error:
            return ToolError(error)
        try:
            answer = method(**arguments)
        except ToolError as error:
            return error
        return awaited(answer) if inspect.isawaitable(answer) else answer


# ---- The process that plays.


def load(path):
    """The class of a file."""
    folder, file = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    import importlib.util

    spec = importlib.util.spec_from_file_location(os.path.splitext(file)[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = [value for value in vars(module).values()
             if isinstance(value, type) and issubclass(value, Environment) and value.__module__ == spec.name]
    # The last of a line of subclasses is the one that is meant.
    found = [one for one in found if not any(other is not one and issubclass(other, one) for other in found)]
    if len(found) != 1:
        names = ", ".join(one.__name__ for one in found) or "none"
        raise LookupError(f"it has {len(found)} subclasses of Environment ({names}), allowed: one")
    return found[0]


def description_of(kind):
    tools = [name for name in dir(kind) if not name.startswith("__") and getattr(getattr(kind, name), "is_tool", False)]
    for name in [*tools, "reset", "step", "score", "close"]:
        method = inspect.unwrap(getattr(kind, name))
        if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
            raise TypeError(f"{kind.__name__}.{name} is a generator (it has a `yield`), allowed: a function that returns its answer")
    notes = [note for name in tools for note in parameters_of(kind, name)[1]]
    tools = [schema_of(kind, name) for name in tools]
    return {"system_prompt": str(kind.system_prompt), "user_speaks": bool(kind.user_speaks), "tools": tools, "notes": notes}


def first_words(first):
    """The texts that the model reads after the row's prompt, from what `reset` gave."""
    allowed = "a text that the model reads after the row's prompt, one or more messages of the user with such a text, or None"
    if isinstance(first, tuple):
        raise TypeError(f"reset gave a tuple of {len(first)}, allowed: {allowed}")
    if first is None:
        return []
    messages = first if isinstance(first, list) else [first]
    if not any(map(is_message, messages)):
        return [text_of(first)]
    for one in messages:
        if not is_message(one):
            raise TypeError(f"reset gave a list of messages with a {type(one).__name__} in it, allowed: {allowed}")
        if one["role"] != "user" or not isinstance(one["content"], str):
            raise TypeError(f"reset gave a message of the role {one['role']!r} with {type(one['content']).__name__}, allowed: {allowed}")
    return [one["content"] for one in messages]


def is_message(value):
    return isinstance(value, dict) and "role" in value and "content" in value


def observed(answer, action, episode):
    """What `step` gave and what was earned, as the run reads it."""
    done = False
    if isinstance(answer, tuple):
        if len(answer) != 2:
            raise TypeError(f"step gave a tuple of {len(answer)}, allowed: an observation and whether the episode is over")
        answer, done = answer
    done = bool(done or episode.done or answer is None)
    if answer is None:
        answers = []
    elif isinstance(answer, list):
        answers = answer
    else:
        answers = [answer]
    if action.calls and answers and len(answers) != len(action.calls):
        raise TypeError(f"step gave {len(answers)} observations for {len(action.calls)} calls, allowed: a list with one for each")
    if not action.calls and not answers and not done:
        raise TypeError("step gave no observation and did not end the episode")
    errors = [isinstance(one, ToolError) for one in answers]
    texts = [text_of(f"error: {one}" if wrong else one) for one, wrong in zip(answers, errors)]
    reward, episode._earned = episode._earned, None
    return {"observations": texts, "done": done, "tool_errors": sum(errors), "reward": reward}


def scored(value):
    if value is None or not isinstance(value, dict):
        value = None if value is None else {"reward": value}
    if value is None:
        return {"score": None}
    numbers = {name: float(number) for name, number in value.items()}
    if "reward" not in numbers:
        raise KeyError("score gave a dict without `reward`")
    reward = numbers.pop("reward")
    if not 0.0 <= reward <= 1.0:
        raise ValueError(f"score gave {reward}, allowed: 0 to 1, or None")
    return {"score": {"reward": reward, "components": numbers}}


def require_nothing_earned(episode, where):
    # It would belong to no turn.
    if episode._earned is not None:
        raise RuntimeError(f"{where} called earn, allowed: in step and in tools")


def words_of(error):
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename != "<string>"), 0)
    where = f" (line {line})" if line else ""
    words = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_WORDS] + where
    return words.encode("utf-8", "replace").decode("utf-8")


def told(error, file):
    """An exception in one line, and behind it Python's traceback."""
    text = f"{words_of(error)}\n{traceback_of(error, file)}"  # noqa: F821, the program begins with it
    return text.strip().encode("utf-8", "replace").decode("utf-8")


def answer_to(request, kind, episodes):
    what, id = request["do"], request["episode"]
    LOOP.episode.set(id)
    if what == "open":
        episode = episodes[id] = kind()
        first = first_words(LOOP.finished(episode.reset(request["task"], request["seed"])))
        require_nothing_earned(episode, "reset")
        return {"first": first}
    if what == "close":
        episode = episodes.pop(id, None)
        try:
            if episode is not None:
                LOOP.finished(episode.close())
        finally:
            LOOP.end(id)
        return {}
    episode = episodes[id]
    if what == "score":
        score = scored(LOOP.finished(episode.score()))
        require_nothing_earned(episode, "score")
        return score
    calls = [Call(call["name"], call["arguments"], call["id"]) for call in request["calls"]]
    action = Action(request["text"], calls, request["finish_reason"])
    return observed(LOOP.finished(episode.step(action)), action, episode)


def main():
    pipe = Pipe()  # noqa: F821, the program begins with it
    path = pipe.settings()["path"]
    # The file imports this program by its name.
    sys.modules["evenkeel_environment"] = sys.modules["__main__"]
    try:
        kind = load(path)
        hello = description_of(kind)
    except BaseException as error:
        pipe.say(HELLO, {"error": in_one_line(error, path)[:MAX_WORDS]})  # noqa: F821
        sys.exit(1)
    pipe.say(HELLO, hello)  # noqa: F821
    episodes = {}

    def answer(request):
        try:
            return answer_to(request, kind, episodes)
        except TaskError as error:
            return {"task_error": words_of(error)}
        except Exception as error:  # the user's own code
            return {"error": told(error, path)}

    pipe.serve(answer)
