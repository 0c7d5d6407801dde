"""Golden vectors of the rule `sides`: steps as in `make_objective.py`, whose formulas and autograd these are, under several exponents and
ratios of the sides.

    python make_sides.py > objective_sides.json
"""

import itertools
import json
import random
import sys

from make_objective import ADVANTAGES, CORRECTIONS, KINDS, POLICIES, SETTINGS, evaluate, random_group

SEED = 65_001
EXPONENTS = [0.0, 0.25, 0.5, 0.75, 1.0]
RATIOS = [0.0, 0.1, 1.0, 2.5]


def main():
    rng = random.Random(SEED)
    corrections = ["none"] + CORRECTIONS
    cases = []
    for index, (exponent, ratio) in enumerate(itertools.product(EXPONENTS, RATIOS)):
        kind = KINDS[index % len(KINDS)]
        settings = SETTINGS | {"length_exponent": exponent, "side_ratio": ratio}
        step = [random_group(rng, kind) for _ in range(rng.randint(1, 3))]
        names = [(ADVANTAGES[(index + turn) % 4], POLICIES[(index + turn) % 6], corrections[(2 * index + turn) % 5]) for turn in range(4)]
        expected = [evaluate(step, settings, advantage, "sides", policy, correction) for advantage, policy, correction in names]
        cases.append({"kind": kind, "params": settings, "groups": step, "expected": expected})
    json.dump({"cases": cases}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
