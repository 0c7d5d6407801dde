"""A taskset of verifiers 0.4: the model writes a word backwards, and is rewarded for the letters that are in their place."""

import random

import verifiers.v1 as vf

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class WordData(vf.TaskData):
    answer: str


class WordTask(vf.Task[WordData]):
    @vf.reward
    async def in_place(self, trace) -> float:
        said = (trace.last_reply or "").strip()
        answer = self.data.answer
        return sum(a == b for a, b in zip(said, answer)) / max(len(said), len(answer))


class WordsConfig(vf.TasksetConfig):
    count: int = 200
    length: int = 4


class Words(vf.Taskset[WordTask, WordsConfig]):
    def load(self):
        draw = random.Random(0)
        for _ in range(self.config.count):
            word = "".join(draw.choices(LETTERS, k=self.config.length))
            data = WordData(prompt=f"Write {word} backwards.", answer=word[::-1])
            yield WordTask(data, self.config.task)


__all__ = ["Words"]
