"""The reward of a completion: change it as you like, and run it without a model with `python reward.py`."""


def reward(completion, row):
    """Returns a value from 0 (wrong) to 1 (right), or None to abstain.

    completion: a str, with .token_ids and .finish_reason ("stop", or "length" if it was cut off)
    row: a dict of the columns of the data file
    """
    words = completion.split()
    return float(bool(words) and words[-1].strip(".") == str(row.get("answer")))


if __name__ == "__main__":
    print(reward("The answer is 4.", {"prompt": "2+2?", "answer": 4}))
