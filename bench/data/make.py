"""A data set of the size and shape of DAPO-Math-17k as published, made from a small one: verl's columns, 17,398 prompts, each about a
hundred times over, in a shuffled order.

    python3 bench/data/make.py SMALL.parquet BIG.parquet [--prompts 17398] [--rows 1791700]

SMALL has `data_source`, `prompt`, `ability`, `reward_model` and `extra_info`. Its prompts differ in a number at their end.
"""

import argparse
import random

import pyarrow as pa
import pyarrow.parquet as pq

GROUP = 100_000


def distinct(rows, count):
    """So many prompts, from those of the small set in turn."""
    seen = {}
    for row in rows:
        seen.setdefault(row["prompt"][0]["content"], row)
    rows = list(seen.values())
    made = []
    for number in range(count):
        row = rows[number % len(rows)]
        first, *others = row["prompt"]
        content = f"{first['content']}\n\n(Problem {number}.)"
        made.append({**row, "prompt": [{**first, "content": content}, *others]})
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("small")
    parser.add_argument("big")
    parser.add_argument("--prompts", type=int, default=17_398)
    parser.add_argument("--rows", type=int, default=1_791_700)
    options = parser.parse_args()

    table = pq.read_table(options.small)
    prompts = pa.Table.from_pylist(distinct(table.to_pylist(), options.prompts), schema=table.schema)
    # Every prompt at least once, the others as often as the rows allow.
    order = [number % options.prompts for number in range(options.rows)]
    random.Random(17).shuffle(order)
    with pq.ParquetWriter(options.big, table.schema) as writer:
        for start in range(0, options.rows, GROUP):
            writer.write_table(prompts.take(pa.array(order[start : start + GROUP])))


if __name__ == "__main__":
    main()
