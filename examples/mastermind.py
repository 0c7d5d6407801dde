"""Mastermind: an environment of one's own with one tool, several turns, and a reward at the end.

    [data]
    files = ["codes.jsonl"]              # {"prompt": "Find the code of 3 digits from 1 to 6.", "answer": "264"}, or "length" instead of an answer
    environment = "examples/mastermind.py"
"""

import random

from evenkeel_environment import Environment, TaskError, ToolError, tool


class Mastermind(Environment):
    system_prompt = "Find the secret code with the tool `guess`."

    def reset(self, task, seed):
        if task.get("answer") is not None:
            self.code = str(task["answer"])
        else:
            draw = random.Random(seed)
            self.code = "".join(draw.choice("123456") for _ in range(int(task.get("length", 4))))
        if not self.code or set(self.code) - set("123456"):
            raise TaskError(f"`answer` is {self.code!r}, allowed: digits from 1 to 6")
        self.guesses, self.best = 0, 0

    @tool
    def guess(self, code: str) -> str:
        """Guesses the code. Says how many digits are right and in place, and how many are right elsewhere."""
        if len(code) != len(self.code) or set(code) - set("123456"):
            raise ToolError(f"`code` has {len(self.code)} digits from 1 to 6")
        self.guesses += 1
        placed = sum(a == b for a, b in zip(code, self.code))
        shared = sum(min(code.count(digit), self.code.count(digit)) for digit in "123456")
        self.best = max(self.best, placed)
        self.done = placed == len(self.code)
        return "right" if self.done else f"{placed} in place, {shared - placed} elsewhere"

    def step(self, action):
        if not action.calls:
            return "Call the tool `guess`."
        return super().step(action)

    def score(self):
        return {"reward": float(self.done), "in_place": self.best / len(self.code)}
