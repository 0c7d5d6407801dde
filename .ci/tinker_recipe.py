"""Runs a recipe of tinker-cookbook as it is, with data and a tokenizer from this machine in the place of the hub's.

    python tinker_recipe.py RECIPE TOKENIZER [SETTING=VALUE ...]

RECIPE is a module of tinker_cookbook.recipes: `sl_loop` and `rl_loop`, `chat_sl.train`, which is supervised/train.py, or `math_rl.train`, which
is rl/train.py. TOKENIZER is the folder of the served model. The settings are the recipe's own.
"""

import random
import runpy
import sys

import datasets
import transformers

ROWS = 64
# What rl_loop adds to each question, so that sl_loop teaches the form of its answers.
SUFFIX = " Provide a numerical answer without units, written inside \\boxed{}."


def examples():
    rng = random.Random(7)
    for _ in range(ROWS):
        a, b = rng.randrange(1, 6), rng.randrange(1, 5)
        yield f"What is {a} + {b}?", a + b


def load_dataset(name, *_, **__):
    """No Robots and GSM8K, as far as their columns go."""
    if name.endswith("no_robots"):
        boxed = "\\boxed{%d}"
        turns = [[("user", question + SUFFIX), ("assistant", boxed % answer)] for question, answer in examples()]
        rows = {"messages": [[{"role": role, "content": text} for role, text in each] for each in turns]}
    else:
        pairs = list(examples())
        rows = {"question": [question for question, _ in pairs], "answer": [f"#### {answer}" for _, answer in pairs]}
    held_out = {column: values[:8] for column, values in rows.items()}
    return datasets.DatasetDict({"train": datasets.Dataset.from_dict(rows), "test": datasets.Dataset.from_dict(held_out)})


def main():
    recipe, folder = sys.argv[1:3]
    from_pretrained = transformers.AutoTokenizer.from_pretrained
    transformers.AutoTokenizer.from_pretrained = lambda *_, **__: from_pretrained(folder)
    datasets.load_dataset = load_dataset
    sys.argv = [recipe, *sys.argv[3:]]
    runpy.run_module(f"tinker_cookbook.recipes.{recipe}", run_name="__main__")


if __name__ == "__main__":
    main()
