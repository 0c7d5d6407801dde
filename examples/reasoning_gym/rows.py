"""Problems of reasoning-gym as rows for Evenkeel: one JSON object a line, from a seed.

    python3 -m venv venv && venv/bin/pip install reasoning-gym==0.1.25
    venv/bin/python rows.py --count 500 > rows.jsonl
    evenkeel train recipe.toml

Each row has its task as `data_source` (`reasoning-gym/chain_sum`) and the package's whole entry, by which `reward.py` has the package itself
score answers. With `--math` only tasks whose answers are all whole numbers are written, and rows are judged as mathematics: nothing of the
package is needed in training then.
"""

import argparse
import json
import sys

import reasoning_gym

TASKS = "basic_arithmetic,chain_sum,products,gcd,leg_counting,letter_counting,number_sorting,spell_backward"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=TASKS, help="names of the package's data sets, with commas between them (%(default)s)")
    parser.add_argument("--count", type=int, default=500, help="problems of each (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--math", action="store_true", help="only tasks with whole numbers as answers, judged as mathematics")
    options = parser.parse_args()
    if options.count < 1:
        parser.error("--count is below 1")
    for task in options.tasks.split(","):
        try:
            entries = list(reasoning_gym.create_dataset(task, size=options.count, seed=options.seed))
        except ValueError as error:
            parser.error(str(error))
        if options.math and not all(is_whole(entry["answer"]) for entry in entries):
            print(f"{task} is left out: not all of its answers are whole numbers", file=sys.stderr)
            continue
        for number, entry in enumerate(entries):
            row = {
                "id": f"{task}-{number}",
                "prompt": entry["question"],
                "answer": str(entry["answer"]),
                "data_source": task if options.math else f"reasoning-gym/{task}",
            }
            if not options.math:
                # As text: what the package keeps of a problem differs from task to task.
                row["entry"] = json.dumps(entry, default=str)
            print(json.dumps(row))


def is_whole(answer):
    return str(answer).removeprefix("-").isdigit()


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # Whoever reads has enough.
        sys.stderr.close()
