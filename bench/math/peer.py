"""Math-Verify's half of bench/math: python3 peer.py FILE SECONDS, with the same rows and output as `evenkeel-bench math`.

Both sides of a pair are read as its documentation shows it: gold answers and answers in a formula. Its own time limits are those of the
package (five seconds for reading, five for comparing).
"""
import json
import logging
import sys
import time

from math_verify import parse, verify

logging.disable(logging.CRITICAL)


def check(row):
    answer = row["answer"] if row.get("completion") else f"${row['answer']}$"
    return verify(parse(f"${row['gold']}$"), parse(answer))


def main(file, seconds):
    rows = [json.loads(line) for line in open(file)]
    groups = {}
    for row in rows:
        begun = time.perf_counter()
        outcome = bool(check(row))
        took = time.perf_counter() - begun
        groups.setdefault(f"{row['set']} {row['kind']}", []).append((row, took))
        print(json.dumps({"outcome": "equal" if outcome else "not_equal"}))
    # What was warm the first time is timed once more, up to the time that is given; the better half of both is its own.
    report = {}
    for name, timed in groups.items():
        begun, checks = time.perf_counter(), 0
        while checks == 0 or (time.perf_counter() - begun < seconds and checks < 100_000):
            for row, _ in timed:
                check(row)
                checks += 1
                if time.perf_counter() - begun > 4 * seconds:
                    break
        took = sorted(took for _, took in timed)
        report[name] = {
            "checks": len(timed),
            "per_second": checks / (time.perf_counter() - begun),
            "median_us": 1e6 * took[len(took) // 2],
            "p99_us": 1e6 * took[int(0.99 * (len(took) - 1))],
        }
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
