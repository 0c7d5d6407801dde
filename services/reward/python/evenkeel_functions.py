# Calls the reward functions of a user's file: `[data.verifiers.NAME] path = "reward.py"`. It runs in a process that the reward service starts,
# behind the text of `pipe.py`, and needs nothing but Python.
import asyncio
import importlib.util
import inspect
import json
import linecache
import math
import os
import sys
import traceback

DEFAULTS = ("reward", "reward_batch", "compute_score")
STYLES = ("(completion, row), (completions, rows), (prompts, completions, **columns), (data_source, solution_str, ground_truth, extra_info) "
          "or, for verl's batches, (data_sources, solution_strs, ground_truths, extra_infos)")
# Styles of functions that take several completions in one call.
LISTS = ("rows", "trl", "verl batch")
# What verl passes for an answer, and for a batch.
OF_VERL = {"data_source": "data_sources", "solution_str": "solution_strs", "ground_truth": "ground_truths", "extra_info": "extra_infos"}
# What TRL 1.16 passes besides prompts, completions, completion_ids and columns, and nobody here could.
OF_TRL_ALONE = ("trainer_state", "log_extra", "log_metric", "environments")
MAX_DETAIL = 400
# Calls that are told in a line, the innermost ones.
MAX_FRAMES = 4


class Completion(str):
    """The text that the policy sampled, with its tokens and why it ended ("stop", "length")."""

    token_ids: list
    finish_reason: str

    def __new__(cls, text, token_ids=(), finish_reason=""):
        self = super().__new__(cls, text)
        self.token_ids, self.finish_reason = list(token_ids), finish_reason
        return self


class Function:
    """A function and how it is called, which its parameters say."""

    def __init__(self, name, call):
        self.name, self.call = name, call
        own = call if inspect.isroutine(call) else type(call).__call__
        self.is_async = inspect.iscoroutinefunction(own)
        if inspect.isgeneratorfunction(own) or inspect.isasyncgenfunction(own):
            raise TypeError(f"{name} has a `yield`, allowed: a function that returns its reward")
        parameters = inspect.signature(call).parameters
        self.takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        self.names = [name for name, parameter in parameters.items()
                      if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)]
        self.style = style_of(self.names)
        if self.style is None:
            raise TypeError(f"{name}{inspect.signature(call)} is no reward function, allowed: {STYLES}")
        if self.style == "trl":
            for other in OF_TRL_ALONE:
                if other in parameters and parameters[other].default is inspect.Parameter.empty:
                    raise TypeError(f"{name} requires `{other}`, which only TRL's trainer has, allowed: a default for it")
        # Functions that are awaited wait side by side.
        self.is_batch = self.style in LISTS or self.is_async

    def passed(self, given):
        return given if self.takes_all else {name: value for name, value in given.items() if name in self.names}

    def arguments(self, items):
        """The calls for these items, each as positional arguments and named ones."""
        completions, rows = [completion for completion, _ in items], [row for _, row in items]
        if self.style == "rows":
            return [((completions, rows), {})]
        if self.style == "trl":
            return [((), self.of_trl(completions, rows))]
        if self.style == "verl":
            return [((), self.passed(of_verl(completion, row))) for completion, row in items]
        if self.style == "verl batch":
            each = [of_verl(completion, row) for completion, row in items]
            return [((), self.passed({many: [given[one] for given in each] for one, many in OF_VERL.items()}))]
        return [((completion, row), {}) for completion, row in items]

    def of_trl(self, completions, rows):
        prompts = [first_of(row, PROMPT) for row in rows]
        # In a conversation an answer is a message.
        answers = [[{"role": "assistant", "content": str(completion)}] if isinstance(prompt, list) else completion
                   for completion, prompt in zip(completions, prompts)]
        names = {name for row in rows for name in row} - {"prompt", "completion", "completion_ids", "prompts", "completions"}
        columns = {name: [row.get(name) for row in rows] for name in sorted(names)}
        ids = [completion.token_ids for completion in completions]
        return self.passed(dict(prompts=prompts, completions=answers, completion_ids=ids, **columns))

    def values(self, items, timeout):
        """A value or an exception for each item."""
        calls = self.arguments(items)
        if self.is_async:
            results = LOOP.run_until_complete(gathered(self.call, calls, timeout))
        else:
            results = [attempted(lambda: self.call(*positional, **named)) for positional, named in calls]
        if self.style not in LISTS:
            return results
        [values] = results
        if isinstance(values, Exception):
            return [values] * len(items)
        values = list(values) if hasattr(values, "__iter__") and not isinstance(values, (str, dict)) else [values]
        if len(values) != len(items):
            return [ValueError(f"{self.name} gave {len(values)} rewards for {len(items)} completions")] * len(items)
        return values


LOOP = asyncio.new_event_loop()


async def gathered(call, calls, timeout):
    async def one(positional, named):
        return await asyncio.wait_for(call(*positional, **named), timeout)

    return await asyncio.gather(*(one(*arguments) for arguments in calls), return_exceptions=True)


def attempted(call):
    try:
        return call()
    except Exception as error:  # the user's own code
        return error


# Columns that hold a prompt and a gold answer, in the order in which they are looked for, after those that the settings name.
PROMPT = ["prompt", "problem", "question", "question_content", "question.question_content"]
GOLD = ["reward_model.ground_truth", "ground_truth", "gold", "final_answer", "answer", "label", "solution"]


def first_of(row, names):
    return next((value for value in (at(row, name) for name in names) if value is not None), None)


def at(row, name):
    """The value of a column, or of a part of one: dots lead into structures."""
    if not isinstance(row, dict):
        return None
    first, _, rest = name.partition(".")
    return row[name] if name in row else at(row.get(first), rest) if rest else None


def of_verl(completion, row):
    return dict(data_source=row.get("data_source", ""), solution_str=completion, ground_truth=first_of(row, GOLD),
                extra_info=row.get("extra_info") or {})


def style_of(names):
    if "solution_str" in names:
        return "verl"
    if "solution_strs" in names:
        return "verl batch"
    if "completions" in names:
        return "rows" if "rows" in names else "trl"
    return "one" if len(names) >= 2 else None


def load(path, names):
    """The functions of a file: those that are named, one of the usual names, or the only one that is a reward function."""
    folder, file = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(os.path.splitext(file)[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for name in names:
        if not callable(getattr(module, name, None)):
            raise LookupError(f"it has no function {name}")
    found = names or [name for name in DEFAULTS if callable(getattr(module, name, None))][:1] or own_functions(module, spec.name)
    if len(found) == 1 or names:
        return [Function(name, getattr(module, name)) for name in found]
    if not found:
        raise LookupError(f"it has no reward function, allowed: one or more with the arguments {STYLES}")
    lines = ", ".join(f"{name} = 1.0" for name in found)
    raise LookupError(f"it has {len(found)} reward functions: {', '.join(found)}; name those that count and their weights: "
                      f"functions = {{ {lines} }}")


def own_functions(module, name):
    def fits(value):
        return inspect.isfunction(value) and value.__module__ == name and style_of(list(inspect.signature(value).parameters))

    found = {key: fits(value) for key, value in vars(module).items() if not key.startswith("_") and fits(value)}
    # Beside a function of TRL or verl, any other one with two arguments is a helper.
    known = [key for key, style in found.items() if style != "one"]
    return known if len(known) == 1 else list(found)


def number(value):
    """A reward as a float; None where there is none; an error in words where it is neither."""
    if value is None:
        return None, None
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        value = float(value)
    except (TypeError, ValueError, OverflowError):
        return None, f"gave a {type(value).__name__}, allowed: a number or None"
    return (value, None) if math.isfinite(value) else (None, f"gave {value}, allowed: a finite number or None")


def told(error, file):
    """An exception and the lines of the user's code that led to it, the innermost first, in one line; and behind it Python's traceback."""
    frames = of_user(traceback.extract_tb(error.__traceback__), file)  # noqa: F821, the program begins with it
    words = " ".join(f"{type(error).__name__}: {error}".split())
    if frames:
        words += f" ({', '.join(line_of(frame, file) for frame in reversed(frames[-MAX_FRAMES:]))})"
    text = f"{words[:MAX_DETAIL]}\n{traceback_of(error, file)}"  # noqa: F821
    return text.strip().encode("utf-8", "replace").decode()


def line_of(frame, file):
    """A frame's line and its text, with the file's name where it is not `file`."""
    name = "" if frame.filename == file else f"{os.path.basename(frame.filename)} "
    return f"{name}line {frame.lineno}: {linecache.getline(frame.filename, frame.lineno).strip()}"


def judged(functions, items, timeout, file):
    """For each item and function a value, or why there is none; and further numbers."""
    results = [{"values": {}, "errors": {}, "extras": {}} for _ in items]
    for function in functions:
        for result, value in zip(results, function.values(items, timeout)):
            if isinstance(value, asyncio.TimeoutError):
                wrong = ["reward_timeout", f"{function.name} took longer than {timeout:g} s"]
            elif isinstance(value, BaseException):
                wrong = ["reward_exception", told(value, file)]
            else:
                if isinstance(value, dict) and "score" in value:
                    extras = {name: number(other)[0] for name, other in value.items() if name != "score"}
                    result["extras"].update({str(name): other for name, other in extras.items() if other is not None})
                    value = value["score"]
                value, why = number(value)
                wrong = why and ["reward_not_a_number", f"{function.name} {why}"]
            if wrong:
                result["errors"][function.name] = wrong
            else:
                result["values"][function.name] = value
    return results


def main():
    pipe = Pipe()  # noqa: F821, the program begins with it
    settings = pipe.settings()
    PROMPT[:0], GOLD[:0] = settings["prompt_fields"], settings["answer_fields"]
    try:
        functions = load(settings["path"], settings["functions"])
    except BaseException as error:
        pipe.say(HELLO, {"error": in_one_line(error, settings["path"])})  # noqa: F821
        sys.exit(1)
    batch = any(function.is_batch for function in functions)
    pipe.say(HELLO, {"functions": [function.name for function in functions], "batch": batch})  # noqa: F821

    def answer(request):
        items = [(Completion(item["text"], item["ids"], item["finish"]), item["row"]) for item in request["items"]]
        return judged(functions, items, request["timeout"], settings["path"])

    pipe.serve(answer)


if __name__ == "__main__":
    main()
