"""The tasks of a taskset of verifiers as rows for Evenkeel: one JSON object a line.

    python3 -m venv venv && venv/bin/pip install verifiers==0.4.0
    venv/bin/python rows.py reverse_text.py > rows.jsonl
    evenkeel train recipe.toml

TASKSET is an installed package or a Python file. Settings of the taskset are JSON, such as --taskset '{"length": 3}', and belong into
`environment.verifiers` of the recipe as well. The row's `environment_task` is what the taskset needs. It has no gold answer, since the taskset
gives the reward.
"""

import argparse
import itertools
import json
import os
import sys

from verifiers.v1.utils.loaders import load_taskset, taskset_config_type


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="TASKSET")
    parser.add_argument("--taskset", type=json.loads, default={}, metavar="JSON", help="settings of the taskset")
    parser.add_argument("--count", type=int, help="the first so many tasks (all)")
    options = parser.parse_args()
    name = options.name
    if name.endswith(".py"):
        folder, file = os.path.split(os.path.abspath(name))
        sys.path.insert(0, folder)
        name = os.path.splitext(file)[0]
    taskset = load_taskset(taskset_config_type(name).model_validate({**options.taskset, "id": name}))
    for task in itertools.islice(taskset, options.count):
        data = task.data.model_dump(mode="json")
        messages = data["prompt"] if isinstance(data["prompt"], list) else [{"role": "user", "content": data["prompt"]}]
        if data["system_prompt"]:
            messages.insert(0, {"role": "system", "content": data["system_prompt"]})
        row = {"id": data["id"] or f"{name}-{data['idx']}", "prompt": messages, "environment_task": data}
        print(json.dumps(row))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # Whoever reads has enough.
        sys.stderr.close()
