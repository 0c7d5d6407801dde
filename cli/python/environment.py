"""An environment of your own: `environment = "environment.py"` in the section `data` of a recipe. evenkeel_environment.py says what it may have."""

from evenkeel_environment import Environment, tool


class Riddle(Environment):
    system_prompt = "Answer with one word. Ask for letters of it with the tool `letter`, as few as you can."

    def reset(self, task, seed):
        self.answer, self.asked, self.is_right = str(task["answer"]), 0, False

    @tool
    def letter(self, number: int) -> str:
        """Gives a letter of the answer. The first one has the number 1."""
        self.asked += 1
        return self.answer[number - 1] if 1 <= number <= len(self.answer) else "it has no such letter"

    def step(self, action):
        if action.calls:
            return super().step(action)
        self.is_right = action.split()[-1:] == [self.answer]
        return None  # a turn without a call is the answer: the episode is over

    def score(self):
        return {"reward": float(self.is_right), "frugal": 1 / (1 + self.asked)}
