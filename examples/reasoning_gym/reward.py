"""reasoning-gym's own score of an answer, 0 to 1: what it accepts besides the one gold answer, and what it gives to parts of it.

The answer is what stands between <answer> and </answer>, the last of several.
"""

import functools
import json

from reasoning_gym import get_score_answer_fn
from reasoning_gym.utils import extract_answer


@functools.cache
def scorer(task):
    return get_score_answer_fn(task)


def reward(completion, row):
    answer = extract_answer(completion)
    if answer is None:
        return 0.0
    entry = json.loads(row["entry"])
    return float(scorer(row["data_source"].removeprefix("reasoning-gym/"))(answer=answer, entry=entry))
