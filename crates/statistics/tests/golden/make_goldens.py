"""What scipy, statsmodels and rliable compute, for the statistics crate to compare with.

Where no library has a quantity (the interval that inverts the sign-flip test, Newcombe's interval, heights by chance) it is computed here by
another route than the crate's: by brute force, by root finding on the textbook's formula, by adaptive quadrature.

    python3 -m venv venv && venv/bin/pip install numpy==2.4.6 scipy==1.17.1 statsmodels==0.15.0 rliable==1.2.0 arch==7.2.0
    venv/bin/python make_goldens.py > goldens.json
"""

import itertools
import json
import math
import sys

import numpy
from arch.bootstrap import IIDBootstrap
from rliable import library, metrics
from scipy import integrate, optimize, stats
from statsmodels.stats.multitest import multipletests

SEED = 1_808
# Of the bootstraps of arch and rliable, which are compared to within their Monte Carlo error.
RESAMPLES = 20_000


def quantiles():
    tails = [0.5, 0.3, 0.1, 0.025, 0.005, 1e-4, 1e-9]
    rows = [{"freedom": n, "tail": p, "value": float(stats.t.isf(p, n))} for n in (1, 2, 3, 4, 7, 15, 30, 200) for p in tails]
    return rows + [{"freedom": None, "tail": p, "value": float(stats.norm.isf(p))} for p in tails]


def exact_interval(differences):
    """Shifts that the test does not reject, by the means of all non-empty subsets."""
    n = len(differences)
    means = sorted(
        math.fsum(subset) / size for size in range(1, n + 1) for subset in itertools.combinations(differences, size)
    )
    rank = math.floor(0.025 * 2**n + 1e-9)
    return [means[rank - 1], means[-rank]] if rank else None


def member(first, second):
    differences = first - second
    test = stats.ttest_rel(first, second)
    student = test.confidence_interval(0.95)
    flips = stats.permutation_test(
        (first, second), lambda a, b: numpy.mean(a - b), permutation_type="samples", n_resamples=numpy.inf
    )
    return {
        "first": first.tolist(),
        "second": second.tolist(),
        "mean": float(numpy.mean(differences)),
        "standard_error": float(stats.sem(differences)),
        "student": [float(student.low), float(student.high)],
        "exact": exact_interval(differences.tolist()),
        "p_value": float(flips.pvalue),
    }


def families(random):
    for size, pairs, effect in ((3, 8, 0.02), (6, 8, 0.01), (6, 10, 0.03), (1, 12, 0.0), (10, 9, 0.05)):
        # Accuracies on 64 problems: differences have ties and zeros.
        base = random.normal(0.5, 0.05, pairs)
        score = lambda shift: numpy.round((base + shift + random.normal(0, 0.03, pairs)) * 64) / 64
        members = [member(score(effect * index), score(0)) for index in range(size)]
        p_values = [one["p_value"] for one in members]
        adjusted = multipletests(p_values, method="holm")[1]
        differences = numpy.array(members[0]["first"]) - numpy.array(members[0]["second"])
        bootstrap = IIDBootstrap(differences, seed=numpy.random.default_rng(SEED))
        error = lambda mean, resample: numpy.atleast_1d(stats.sem(resample))
        mean = lambda resample: numpy.atleast_1d(numpy.mean(resample))
        interval = bootstrap.conf_int(mean, RESAMPLES, "studentized", std_err_func=error)
        members[0]["bootstrap"] = interval.ravel().tolist()
        for one, p_value in zip(members, adjusted):
            one["adjusted_p_value"] = float(p_value)
        yield members


def interquartile_means(random):
    for tasks, runs in ((1, 3), (1, 8), (4, 5), (5, 8), (3, 7)):
        scores = random.normal(0.5, 0.2, (runs, tasks))
        aggregate = lambda scores: numpy.array([metrics.aggregate_iqm(scores)])
        state = numpy.random.RandomState(SEED)
        _, intervals = library.get_interval_estimates({"rule": scores}, aggregate, reps=RESAMPLES, random_state=state)
        percentile = intervals["rule"].ravel().tolist()
        yield {"tasks": scores.T.tolist(), "value": float(metrics.aggregate_iqm(scores)), "percentile": percentile}


def newcombe(value, tasks, runs):
    """Ends of the score interval: roots of (value - p)^2 = z^2 V(p) on either side of the value, by Brent's method."""
    z = stats.norm.isf(0.025)

    def excess(p):
        q1, q2 = p / (2 - p), 2 * p * p / (1 + p)
        others = sum(runs) / 2 - 1
        variance = (p * (1 - p) + others * (q1 - p * p) + others * (q2 - p * p)) / (runs[0] * runs[1] * tasks)
        return (value - p) ** 2 - z * z * variance

    tiny = 1e-12
    low = optimize.brentq(excess, tiny, value - tiny, xtol=1e-15) if value > 0 else 0.0
    high = optimize.brentq(excess, value + tiny, 1 - tiny, xtol=1e-15) if value < 1 else 1.0
    return [low, high]


def improvements(random):
    for tasks, first, second, effect in ((1, 8, 8, 0.0), (1, 5, 9, 1.0), (4, 8, 8, 0.5), (3, 5, 5, -1.0), (2, 6, 6, 9.0)):
        x = numpy.round(random.normal(effect, 1, (first, tasks)), 1)
        y = numpy.round(random.normal(0, 1, (second, tasks)), 1)
        value = float(metrics.probability_of_improvement(x, y))
        yield {"first": x.T.tolist(), "second": y.T.tolist(), "value": value, "interval": newcombe(value, tasks, (first, second))}


def chances():
    for n in (2, 3, 10, 25, 100):
        upper = integrate.quad(lambda x: 1 - stats.norm.cdf(x) ** n, 0, 12, epsabs=1e-12, limit=200)[0]
        lower = integrate.quad(lambda x: stats.norm.cdf(x) ** n, -12, 0, epsabs=1e-12, limit=200)[0]
        # The largest of n - 1 others less the last: the probability that it is at most the drop.
        below = lambda d: integrate.quad(
            lambda x: stats.norm.pdf(x) * stats.norm.cdf(x + d) ** (n - 1), -10, 10, epsabs=1e-12, limit=200
        )[0]
        yield {
            "evaluations": n,
            "expected": upper - lower,
            "peak_exceeded": float(stats.norm.ppf(0.95 ** (1 / n))),
            "drop_exceeded": optimize.brentq(lambda d: below(d) - 0.95, 0, 10, xtol=1e-13),
        }


def main():
    random = numpy.random.default_rng(SEED)
    goldens = {
        "quantiles": quantiles(),
        "families": list(families(random)),
        "interquartile_means": list(interquartile_means(random)),
        "improvements": list(improvements(random)),
        "chances": list(chances()),
    }
    json.dump(goldens, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
