"""Labelled pairs for the verifier of mathematical answers: a gold answer, what was given, and whether they are equal.

Written by hand, kind by kind, as gold answers with spellings that equal them and answers that are near them and do not; numbers are
varied by exact arithmetic. Part of the pairs is wrapped into whole completions. Where reasonable people differ, the label is what
docs/math.md says for the profile in `profile`.

    python3 make_pairs.py > pairs.jsonl
"""

import json
import random
from fractions import Fraction

SEED = 7_919

# (kind, gold, what equals it, what does not)
PAIRS = [
    ("integer", "42", ["42", " 42 ", "$42$", "+42", "42.0", "042", "\\text{42}", "42."], ["-42", "420", "4 2 2", "24", "42i"]),
    ("integer", "-7", ["-7", "−7", "$-7$", "(-7)", "-\\frac{14}{2}"], ["7", "|-7|", "-7.1"]),
    ("integer", "1000000", ["1,000,000", "10^6", "1{,}000{,}000", "1\\,000\\,000", "1 \\times 10^6", "1e6"], ["100,000", "10^7", "1,000,00"]),
    ("integer", "0", ["0", "0.0", "\\frac{0}{5}", "-0"], ["1", "0.001", "\\emptyset", "o"]),
    ("integer", "2^{10}", ["1024", "2^10", "4^5", "32^2"], ["1023", "2^{11}", "10^2", "20"]),
    ("integer", "720", ["6!", "720", "\\binom{10}{3} \\cdot 6", "8 \\cdot 90"], ["5!", "72", "7!"]),
    ("integer", "999999999999999989", ["999999999999999989", "10^{18} - 11"], ["999999999999999988", "10^{18}", "9.99999999999999989 \\times 10^{18}"]),
    ("fraction", "\\frac{3}{8}", ["3/8", "\\dfrac{3}{8}", "\\tfrac38", "\\frac{6}{16}", "0.375", "{3 \\over 8}", "⅜"], ["8/3", "\\frac{3}{7}", "0.38", "3.8", "-\\frac38"]),
    ("fraction", "-\\frac{5}{6}", ["-5/6", "\\frac{-5}{6}", "\\frac{5}{-6}", "-\\frac{10}{12}"], ["\\frac56", "-\\frac65", "-0.8"]),
    ("fraction", "\\frac{22}{7}", ["3\\frac{1}{7}", "22/7", "\\frac{44}{14}"], ["\\pi", "3.14", "\\frac{31}{7}"]),
    ("fraction", "2\\frac{1}{2}", ["5/2", "2.5", "2½", "\\frac{5}{2}", "2 1/2"], ["1", "2/2", "21/2", "-2.5"]),
    ("decimal", "0.125", ["1/8", ".125", "0.1250", "\\frac18", "12.5\\%"], ["0.0125", "1.25", "0.126"]),
    ("decimal", "3.20", ["3.2", "\\frac{16}{5}", "3\\frac15"], ["3.21", "32", "3"]),
    ("decimal", "6.022 \\times 10^{23}", ["6.022e23", "6.022 \\cdot 10^{23}", "60.22 \\times 10^{22}"], ["6.022 \\times 10^{22}", "6.022", "6.022 \\times 10^{-23}"]),
    ("percent", "25\\%", ["25\\%", "0.25", "\\frac14", "25"], ["2.5\\%", "0.025", "250"]),
    ("percent", "\\frac{1}{20}", ["5\\%", "0.05"], ["5", "0.5", "20\\%"]),
    ("money", "\\$18.50", ["18.50", "\\$18.5", "$18.50", "18.5"], ["\\$1850", "\\$18.05", "18€"]),
    ("radical", "3\\sqrt{2}", ["\\sqrt{18}", "3√2", "\\frac{6}{\\sqrt2}", "3 \\cdot 2^{1/2}"], ["2\\sqrt3", "\\sqrt{12}", "4.24", "3\\sqrt[3]{2}"]),
    ("radical", "\\frac{\\sqrt{3}}{3}", ["\\frac{1}{\\sqrt3}", "\\sqrt{1/3}", "3^{-1/2}"], ["\\sqrt3", "\\frac{\\sqrt3}{2}", "\\frac{1}{3}"]),
    ("radical", "1 + \\sqrt{5}", ["\\sqrt5 + 1", "\\frac{4}{\\sqrt5 - 1}"], ["1 - \\sqrt5", "\\sqrt6", "\\frac{1+\\sqrt5}{2}"]),
    ("radical", "\\sqrt[3]{-27}", ["-3"], ["3", "27^{1/3}"]),
    ("radical", "\\sqrt{7 + 4\\sqrt{3}}", ["2 + \\sqrt3", "\\sqrt3 + 2"], ["2 - \\sqrt3", "\\sqrt7 + 2"]),
    ("constant", "2\\pi", ["2 \\pi", "\\pi \\cdot 2", "\\frac{4\\pi}{2}", "2π", "\\pi + \\pi"], ["\\pi", "6.28", "2p", "\\pi^2"]),
    ("constant", "e^2 - 1", ["-1 + e^{2}", "(e-1)(e+1)", "exp(2) - 1"], ["e^2 + 1", "2e - 1", "e^{2-1}"]),
    ("constant", "\\ln 8", ["3\\ln 2", "\\ln(8)", "\\ln 2 + \\ln 4", "\\frac{6 \\ln 2}{2}"], ["\\ln 6", "2\\ln 3", "\\log_2 8"]),
    ("trigonometry", "\\frac{1}{2}", ["\\sin 30^\\circ", "\\cos\\frac{\\pi}{3}", "\\sin\\frac{\\pi}{6}"], ["\\sin 60^\\circ", "\\cos 30^\\circ", "\\tan 45^\\circ"]),
    ("trigonometry", "\\sin 2x", ["2\\sin x\\cos x", "2 \\cos(x) \\sin(x)"], ["\\sin^2 x", "2\\sin x", "\\sin 2y"]),
    ("trigonometry", "\\arctan 1", ["\\frac{\\pi}{4}", "\\tan^{-1} 1"], ["45", "\\frac{\\pi}{2}", "\\frac{1}{\\tan 1}"]),
    ("polynomial", "x^2 - 5x + 6", ["(x-2)(x-3)", "6 - 5x + x^2", "x^{2}-5 x+6", "x(x-5)+6"], ["x^2 + 5x + 6", "(x-2)(x+3)", "x^2 - 5x", "y^2 - 5y + 6"]),
    ("polynomial", "(a+b)^3", ["a^3 + 3a^2b + 3ab^2 + b^3", "(b+a)^3"], ["a^3 + b^3", "(a-b)^3", "a^3 + 3ab + b^3"]),
    ("polynomial", "\\frac{n(n+1)}{2}", ["\\frac{n^2+n}{2}", "\\binom{n+1}{2}", "\\sum_{k=1}^{n} k"], ["\\frac{n(n-1)}{2}", "\\frac{n^2}{2}", "n(n+1)"]),
    ("rational function", "\\frac{1}{x-1}", ["\\frac{x+1}{x^2-1}", "(x-1)^{-1}"], ["\\frac{1}{1-x}", "\\frac{1}{x+1}", "x-1"]),
    ("exponential", "2^{n+1} - 2", ["2(2^n - 1)", "2 \\cdot 2^n - 2"], ["2^{n} - 2", "2^{n+1}", "2^{n-1} - 2"]),
    ("complex", "3 + 4i", ["4i + 3", "i(4 - 3i)", "\\frac{25}{3-4i}"], ["3 - 4i", "4 + 3i", "5", "7i"]),
    ("absolute value", "|x - 2|", ["|2 - x|", "\\sqrt{(x-2)^2}", "\\lvert x-2 \\rvert"], ["x - 2", "|x| - 2", "|x + 2|"]),
    ("floor", "\\lfloor 7/2 \\rfloor", ["3", "\\lfloor 3.9 \\rfloor"], ["4", "3.5", "\\lceil 7/2 \\rceil"]),
    ("list", "1, 2, 3", ["3, 2, 1", "1,2,3", "1, 2 and 3", "1; 2; 3"], ["1, 2", "1, 2, 3, 4", "1, 2, 2", "123"]),
    ("list", "x = 2, x = -3", ["2, -3", "x = -3 \\text{ or } x = 2"], ["2, 3", "-2, 3", "2", "x = 2"]),
    ("list", "\\pm 5", ["5, -5", "-5, 5", "\\{5, -5\\}"], ["5", "-5", "\\pm 4"]),
    ("tuple", "(1, -2)", ["(1,-2)", "\\left(1, -2\\right)", "(\\frac22, -2.0)"], ["(-2, 1)", "(1, 2)", "\\{1, -2\\}", "(1, -2, 0)"]),
    ("tuple", "(x, y) = (3, 7)", ["(3, 7)", "x = 3, y = 7"], ["(7, 3)", "x = 7, y = 3", "10"]),
    ("set", "\\{2, 4, 6\\}", ["\\{6, 4, 2\\}", "\\{2,4,6,6\\}", "2, 4, 6"], ["\\{2, 4\\}", "(2, 4, 6)", "\\{2, 4, 8\\}"]),
    ("set", "\\emptyset", ["\\varnothing", "\\{\\}", "\\text{no solution}"], ["0", "\\{0\\}"]),
    ("interval", "[0, 1)", ["0 \\le x < 1", "x \\in [0, 1)", "\\left[0, 1\\right)"], ["[0, 1]", "(0, 1)", "(0, 1]", "[0, 2)"]),
    ("interval", "(-\\infty, -2) \\cup (2, \\infty)", ["|x| > 2", "x < -2 \\text{ or } x > 2", "\\mathbb{R} \\setminus [-2, 2]"], ["(-2, 2)", "x > 2", "|x| \\ge 2"]),
    ("interval", "x \\ge 5", ["[5, \\infty)", "5 \\le x", "2x \\ge 10"], ["x > 5", "x \\le 5", "5"]),
    ("equation", "y = 2x - 1", ["y = -1 + 2x", "2x - y = 1", "2x - 1", "y - 2x + 1 = 0"], ["y = 2x + 1", "y = x - 1", "x = 2y - 1", "2y = 2x - 1"]),
    ("equation", "x^2 + y^2 = 25", ["2x^2 + 2y^2 = 50", "25 = x^2 + y^2", "y^2 = 25 - x^2"], ["x^2 + y^2 = 5", "x^2 - y^2 = 25", "25"]),
    ("equation", "f(x) = 3x", ["3x", "y = 3x"], ["f(x) = 3", "f(x) = 3x + 1", "x = 3"]),
    ("assignment", "12", ["x = 12", "n = 5 + 7 = 12", "a + b = 12", "x = 12.0"], ["2x = 12", "x = 12 = 13", "x + 12", "12 = 13"]),
    ("matrix", "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", ["\\begin{bmatrix} 1 & 2 \\\\ 3 & 4 \\end{bmatrix}", "\\begin{pmatrix} 1 & \\frac42 \\\\ 3 & 4 \\end{pmatrix}"], ["\\begin{pmatrix} 1 & 3 \\\\ 2 & 4 \\end{pmatrix}", "\\begin{pmatrix} 1 & 2 \\end{pmatrix}", "-2"]),
    ("vector", "\\begin{pmatrix} 4 \\\\ -1 \\end{pmatrix}", ["(4, -1)", "\\begin{bmatrix} 4 \\\\ -1 \\end{bmatrix}"], ["(-1, 4)", "\\begin{pmatrix} 4 \\\\ 1 \\end{pmatrix}"]),
    ("unit", "15\\text{ cm}", ["15 cm", "15", "0.15\\text{ m}", "150 mm"], ["15\\text{ m}", "15\\text{ kg}", "1.5\\text{ cm}", "15\\text{ cm}^2"]),
    ("unit", "90^\\circ", ["90", "90 \\text{ degrees}", "90°"], ["9^\\circ", "180^\\circ"]),
    ("unit", "60\\text{ km/h}", ["60 km/h", "60"], ["6 km/h", "60\\text{ m/s}"]),
    ("base", "1011_2", ["1011_{2}", "1011_{\\text{two}}", "1011"], ["1011_3", "11", "1101_2"]),
    ("ratio", "2:3", ["4:6", "2 : 3", "2/3"], ["3:2", "2:3:1", "2:4"]),
    ("choice", "B", ["(B)", "\\text{B}", "B.", "\\textbf{(B)}", "(B) 12"], ["A", "(D)", "A, B", "8"]),
    ("text", "\\text{Tuesday}", ["Tuesday", "\\text{tuesday}", "\\textbf{Tuesday}"], ["Thursday", "\\text{Tuesdays and Fridays}", "2"]),
    ("text", "\\text{even}", ["even", "\\text{Even}"], ["odd", "\\text{not even}", "2"]),
    ("infinity", "\\infty", ["+\\infty", "∞"], ["-\\infty", "0", "10^{100}"]),
    ("tiny difference", "10^{-12}", ["\\frac{1}{10^{12}}", "0.000000000001"], ["10^{-13}", "0", "10^{12}"]),
    ("tiny difference", "\\sqrt{2} + \\sqrt{3}", ["\\sqrt{5 + 2\\sqrt6}"], ["\\sqrt{10}", "3.147", "\\sqrt{5 + 2\\sqrt{6.000001}}"]),
    ("full width", "12.5", ["１２．５", "12．5"], ["１２５", "１．２５"]),
    ("hostile", "7", ["7"], ["", "x", "?", "7?", "7 or 8", "\\text{not }7", "6.9999", "7/0", "0,1,2,3,4,5,6,7,8,9", "eval('7')", "7\\pm 3", "4\u200b7"]),
    ("hostile", "0", ["0"], ["0/0", "\\frac{0}{0}", "\\infty - \\infty", "1 - 0.9999"]),
]

# A completion around `@`, and whether what stands at `@` is its answer.
FRAMES = [
    ("Adding both parts gives \\boxed{@}.", True),
    ("<think>maybe \\boxed{123456789}?</think>So the answer is $\\boxed{@}$.", True),
    ("First I thought \\boxed{123456789}, but that forgets a case. Hence \\boxed{@}", True),
    ("The sum is what we want.\n#### @", True),
    ("We conclude.\n\n**Final answer:** \\fbox{@}", True),
    ("因此答案是 $\\boxed{@}$。", True),
    ("It is @, or so.", False),
    ("<think>Then \\boxed{@} follows, but let me check once more", False),
    ("\\boxed{@} is what I had at first; now it is \\boxed{123456789}.", False),
]


def spelled(value, rng):
    """A rational number in one of its spellings."""
    top, bottom = value.numerator, value.denominator
    times = rng.choice([2, 3, 5, 7])
    spellings = [f"\\frac{{{top}}}{{{bottom}}}", f"{top}/{bottom}", f"\\dfrac{{{top * times}}}{{{bottom * times}}}", f"x = {top}/{bottom}"]
    if bottom == 1:
        spellings += [f"{top}", f"{top}.0", f"${top}$", f"{top:,}".replace(",", "{,}")]
    elif 10**6 % bottom == 0:
        digits = str(abs(top) * (10**6 // bottom)).rjust(7, "0")
        spellings.append(("-" if top < 0 else "") + f"{digits[:-6]}.{digits[-6:]}".rstrip("0"))
    return rng.choice(spellings)


def arithmetic(rng):
    """Numbers and what is near them."""
    for _ in range(60):
        value = Fraction(rng.randint(-5000, 5000), rng.choice([1, 1, 1, 2, 3, 4, 7, 8, 9, 25, 40]))
        yield "number", spelled(value, rng), spelled(value, rng), True
        # Never a hundredfold, which a percent sign forgives, and never so near that a decimal rounds to it.
        other = rng.choice([value + 1, value - 1, -value - 1, 10 * value + 1, value + Fraction(1, 2)])
        yield "number", spelled(value, rng), spelled(other, rng), False


def main():
    rng = random.Random(SEED)
    rows = []
    for kind, gold, same, other in PAIRS:
        rows += [(kind, gold, answer, True) for answer in same] + [(kind, gold, answer, False) for answer in other]
    rows += arithmetic(rng)
    number = 0
    for kind, gold, answer, equal in rows:
        print_row(number, kind, "answer", gold, answer, equal)
        number += 1
    for kind, gold, answer, equal in rng.sample(rows, 150):
        frame, is_answer = rng.choice(FRAMES)
        if "{" in answer and "#" in frame or kind == "hostile":
            continue
        print_row(number, kind, "completion", gold, frame.replace("@", answer), equal and is_answer)
        number += 1


def print_row(number, kind, form, gold, answer, equal):
    row = {"id": f"p{number:04}", "kind": kind, "form": form, "gold": gold, "answer": answer, "equal": equal}
    print(json.dumps(row, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
