#!/usr/bin/env python3
"""Tables and a picture of what `evenkeel replay --json` weighed.

    evenkeel replay RUN --set learner.objective.aggregation=token,sequence,balanced,dr-grpo --json > weighed.jsonl
    bench/replay/page.py weighed.jsonl [--each] [--picture FILE.svg]

Prints a Markdown table: each rule's means over the steps, or with --each a row for every step and rule. The picture has three parts: the cosine to the
gradient of the run's own rule by step, the shares of both sides, and the share of each quarter of the responses by length, both as means.
"""

import argparse
import json
from html import escape
from pathlib import Path
from statistics import mean

# Those of the report (crates/charts/src/palette.rs), on light and on dark pages.
LIGHT = ["#3865a2", "#7c491a", "#1f3a2b", "#8329d1", "#958723", "#b02965", "#2f94b3", "#c6685c"]
DARK = ["#527cad", "#c0652a", "#c4eae3", "#9649e0", "#d5cb80", "#d42765", "#73bdd5", "#e9a09f"]
DASHES = ["", "6 3", "2 3", "8 3 2 3", "12 4", "1 4", "10 2 2 2", "4 4"]
WIDTH, HEIGHT, TOP, BOTTOM = 820, 300, 64, 252
QUARTERS = ["shortest", "second", "third", "longest"]


def name(row):
    dial = f" {row['length_exponent']:g}, ratio {row['side_ratio']:g}" if "length_exponent" in row else ""
    return row["rule"] + dial


def of_rules(rows):
    """The rows of each rule by its name, that of the run last."""
    rules = {}
    for row in sorted(rows, key=lambda row: row["recorded"]):
        rules.setdefault(name(row), []).append(row)
    return rules


def average(rows, field):
    values = [row[field] for row in rows if row.get(field) is not None]
    return mean(values) if values else None


def shares(rows):
    of_steps = [row["share_by_length"] for row in rows if row.get("share_by_length")]
    return [mean(quarter) for quarter in zip(*of_steps)]


def number(value, digits):
    return "–" if value is None else f"{value:.{digits}f}"


def cells(rule, rows):
    recorded = " (recorded)" if rows[0]["recorded"] else ""
    cosines = [row["cosine"] for row in rows if row["cosine"] is not None]
    lowest = f" ({min(cosines):.3f})" if len(cosines) > 1 else ""
    # Sides of equal mass cancel out but for rounding.
    loss = average(rows, "loss")
    numbers = ["0" if abs(loss) < 1e-12 else f"{loss:.2g}", number(average(rows, "gradient_norm"), 3), number(average(rows, "cosine"), 3) + lowest]
    numbers += [number(average(rows, field), 3) for field in ("positive", "negative")]
    numbers.append(" ".join(f"{share:.2f}" for share in shares(rows)) or "–")
    return [f"`{rule}`{recorded}", *numbers, number(average(rows, "side_cosine"), 2)]


def table(rows, each):
    cosine = "cosine" if each else "cosine (lowest)"
    head = ["rule", "loss", "gradient norm", cosine, "positive", "negative", "share by length", "cosine of the sides"]
    if each:
        steps = sorted({row["step"] for row in rows})
        lines = [[step, *cells(rule, own)] for step in steps for rule, own in of_rules([row for row in rows if row["step"] == step]).items()]
        head = ["step", *head]
    else:
        lines = [cells(rule, own) for rule, own in of_rules(rows).items()]
    lines = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def text(x, y, words, anchor="middle", kind="small"):
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(str(words))}</text>'


def line(kind, *points):
    return f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def axis(left, right, low, high, digits):
    """Horizontal lines with their values, and the height of a value."""

    def at(value):
        return BOTTOM - (value - low) / (high - low) * (BOTTOM - TOP)

    parts = []
    for index in range(5):
        value = low + (high - low) * index / 4
        parts += [line("rule", (left, at(value)), (right, at(value))), text(left - 6, at(value) + 4, f"{value:.{digits}f}", "end")]
    return parts, at


def cosines(rules, left, right):
    others = {rule: rows for rule, rows in rules.items() if not rows[0]["recorded"]}
    steps = sorted({row["step"] for rows in others.values() for row in rows})
    # Steps need not follow each other: each has a place of its own.
    places = {step: left + (right - left) * (index + 0.5) / len(steps) for index, step in enumerate(steps)}
    lowest = min(row["cosine"] for rows in others.values() for row in rows if row["cosine"] is not None)
    low = next(bound for bound in (0.9, 0.8, 0.6, 0.2, -1.0) if bound <= lowest or bound == -1.0)
    parts, at = axis(left, right, low, 1.0, 3 if low == 0.9 else 2)
    for index, (rule, rows) in enumerate(rules.items()):
        points = [(places[row["step"]], at(row["cosine"])) for row in rows if rule in others and row["cosine"] is not None]
        parts.append(line(f"line of{index}", *points))
        parts += [f'<circle class="fill{index}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    return parts + [text(x, BOTTOM + 18, step) for step, x in places.items()] + [text((left + right) / 2, BOTTOM + 36, "step")]


def sides(rules, left, right):
    parts, at = axis(left, right, 0.0, 1.0, 2)
    width = (right - left) / len(rules)
    for index, rows in enumerate(rules.values()):
        positive = mean(row["positive"] / (row["positive"] + row["negative"]) for row in rows if row.get("positive") is not None)
        x, top = left + width * (index + 0.2), at(positive)
        parts.append(f'<rect class="fill{index}" x="{x:.1f}" y="{top:.1f}" width="{0.6 * width:.1f}" height="{BOTTOM - top:.1f}"/>')
        parts.append(text(x + 0.3 * width, BOTTOM + 18, f"{positive:.2f}"))
    return parts + [line("half", (left, at(0.5)), (right, at(0.5)))]


def lengths(rules, left, right):
    of_rule = [shares(rows) for rows in rules.values()]
    high = next(bound for bound in (0.4, 0.6, 0.8, 1.0) if bound >= max(map(max, of_rule)))
    parts, at = axis(left, right, 0.0, high, 2)
    step, width = (right - left) / 4, (right - left) / 4 * 0.8 / len(rules)
    for quarter, label in enumerate(QUARTERS):
        for index, values in enumerate(of_rule):
            x, top = left + step * (quarter + 0.1) + width * index, at(values[quarter])
            parts.append(f'<rect class="fill{index}" x="{x:.1f}" y="{top:.1f}" width="{width - 1:.1f}" height="{BOTTOM - top:.1f}"/>')
        parts.append(text(left + step * (quarter + 0.5), BOTTOM + 18, label))
    return parts


def colours(palette):
    series = enumerate(palette)
    return " ".join(f".of{index} {{ stroke: {colour} }} .fill{index} {{ fill: {colour} }}" for index, colour in series)


def picture(rows):
    rules = of_rules(rows)
    own = next(rule for rule, of_rule in rules.items() if of_rule[0]["recorded"])
    parts = []
    for left, right, title, draw in [
        (54, 266, f"cosine to {own}", cosines),
        (320, 500, "positive share of the mass", sides),
        (554, 806, "share of the mass by length", lengths),
    ]:
        parts.append(text((left + right) / 2, 50, title, kind="name"))
        parts += draw(rules, left, right)
    x = 54
    for index, rule in enumerate(rules):
        parts += [f'<rect class="fill{index}" x="{x}" y="14" width="14" height="12"/>', text(x + 20, 25, rule, "start", "key")]
        x += 44 + 8 * len(rule)
    dashes = " ".join(f".of{index} {{ stroke-dasharray: {dash} }}" for index, dash in enumerate(DASHES) if dash)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif">
  <title id="title">{escape(", ".join(rules))}: cosines of their gradients to that of {escape(own)}, shares of the positive side, and shares by length.</title>
  <style>
    .page {{ fill: #ffffff }} text {{ fill: #1f2328; font-size: 13px }} .small {{ fill: #57606a; font-size: 11px }} .name {{ font-weight: 600 }}
    polyline {{ fill: none }} .rule {{ stroke: #e3e5e2 }} .half {{ stroke: #57606a; stroke-dasharray: 4 3 }} .line {{ stroke-width: 2 }}
    {colours(LIGHT)} {dashes}
    @media (prefers-color-scheme: dark) {{
      .page {{ fill: #0d1117 }} text {{ fill: #e6edf3 }} .small {{ fill: #9198a1 }} .rule {{ stroke: #2d353a }} .half {{ stroke: #9198a1 }}
      {colours(DARK)}
    }}
  </style>
  <rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="8"/>
  {chr(10).join(parts).replace(chr(10), chr(10) + "  ")}
</svg>
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weighed", type=Path)
    parser.add_argument("--each", action="store_true", help="a row for every step, instead of means")
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    rows = [json.loads(text) for text in arguments.weighed.read_text().splitlines()]
    print(table(rows, arguments.each))
    if arguments.picture:
        arguments.picture.write_text(picture(rows))


if __name__ == "__main__":
    main()
