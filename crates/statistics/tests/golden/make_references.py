"""What scipy, statsmodels, arch and rliable compute from the same numbers: the references of this crate's tests.

    pip install rliable==1.2.0 arch==7.2.0 scipy==1.17.1 statsmodels==0.15.0 numpy==2.4.6 pandas==2.3.3
    python make_references.py > references.json

arch's studentised interval takes the bootstrap's standard error (n in the denominator) for the sample and whatever `std_err_func` computes for
each resample. With n - 1 in that function the interval is narrower by sqrt((n - 1) / n); here both have n, in which case the denominators
cancel. rliable's standard errors have n in the denominator as well, which this crate's have not.
"""

import itertools
import json

import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.stats
from arch.bootstrap import IIDBootstrap
from rliable import library, metrics
from statsmodels.stats.multitest import multipletests

random = np.random.default_rng(20_260)
REPLICATIONS = 200_000

# Paired differences by distribution; tests/simulation/mod.rs draws from the same.
DIFFERENCES = {
    "normal": lambda size: random.normal(size=size),
    "skewed": lambda size: random.exponential(size=size) - 1,
    "heavy-tailed": lambda size: random.standard_t(3, size=size),
    "discrete": lambda size: (random.binomial(30, 0.6, size) - random.binomial(30, 0.5, size)) / 30,
    "ceiling": lambda size: (random.binomial(30, 0.98, size) - random.binomial(30, 0.95, size)) / 30,
}
MEANS = {"normal": 0, "skewed": 0, "heavy-tailed": 0, "discrete": 0.1, "ceiling": 0.03}


def student():
    return [
        {
            "freedom": freedom,
            "quantiles": [[p, scipy.stats.t.ppf(p, freedom)] for p in (0.6, 0.9, 0.975, 0.995, 0.9999)],
            "two_sided": [[t, 2 * scipy.stats.t.sf(t, freedom)] for t in (0.0, 0.5, 1.0, 2.3, 4.5, 12.0)],
        }
        for freedom in (1, 2, 4, 7, 15, 31, 99)
    ]


def by_all_resamples(values):
    """The studentised interval over all n^n resamples, with quantiles by linear interpolation."""
    n, mean, error = len(values), values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    t = []
    for indices in itertools.product(range(n), repeat=n):
        resample = values[list(indices)]
        spread = resample.std(ddof=1) / np.sqrt(n)
        t.append((resample.mean() - mean) / spread if spread > 1e-14 else np.sign(round(resample.mean() - mean, 12)) * 1e9)
    low, high = np.quantile(t, [0.025, 0.975])
    return [mean - high * error, mean - low * error]


def by_arch(values):
    spread = lambda sample: np.array([sample.std(ddof=0) / np.sqrt(len(sample))])
    bootstrap = IIDBootstrap(values, seed=np.random.default_rng(4))
    limits = bootstrap.conf_int(
        lambda sample: np.array([sample.mean()]),
        reps=REPLICATIONS,
        method="studentized",
        size=0.95,
        std_err_func=lambda _, sample: spread(sample),
    )
    return limits[:, 0].tolist()


def paired():
    cases = []
    for name, count in itertools.product(DIFFERENCES, (3, 5, 8, 16)):
        second = random.uniform(0, 1, count).round(4)
        differences = DIFFERENCES[name](count).round(4)
        first = (second + differences).round(4)
        differences = first - second
        if np.ptp(differences) < 1e-9:
            continue
        test = scipy.stats.ttest_rel(first, second)
        interval = test.confidence_interval(0.95)
        flips = scipy.stats.permutation_test(
            (differences.round(4),), np.mean, permutation_type="samples", alternative="two-sided", n_resamples=np.inf
        )
        case = {
            "name": f"{name}-{count}",
            "first": first.tolist(),
            "second": second.tolist(),
            "mean": differences.mean(),
            "standard_error": differences.std(ddof=1) / np.sqrt(count),
            "interval": [interval.low, interval.high],
            "p": test.pvalue,
            "sign_flip": flips.pvalue,
        }
        if name in ("normal", "skewed", "heavy-tailed"):
            if count == 5:
                case["studentised"] = by_all_resamples(differences)
            elif count > 5:
                case["studentised"] = by_arch(differences)
        cases.append(case)
    return cases


def holm():
    cases = [[0.01, 0.04, 0.03], [0.5], [0.02, 0.02, 0.02], [0.9, 0.0078, 0.4, 0.0391, 0.0078, 1.0]]
    return [{"p": p, "adjusted": multipletests(p, method="holm")[1].tolist()} for p in cases]


def improvement_limits(first, second):
    """Newcombe (2006, method 5): the probabilities that differ from the estimate by 1.96 of the standard errors that they imply."""
    m, n = len(first), len(second)
    estimate = scipy.stats.mannwhitneyu(first, second).statistic / (m * n)
    size = (m + n) / 2 - 1
    z = scipy.stats.norm.ppf(0.975)

    def excess(p):
        variance = p * (1 - p) * (1 + size * ((1 - p) / (2 - p) + p / (1 + p))) / (m * n)
        return abs(estimate - p) - z * np.sqrt(variance)

    # At 0 and 1 the equation holds trivially.
    low = 0.0 if estimate == 0 else scipy.optimize.brentq(excess, 1e-14, min(estimate, 1 - 1e-9), xtol=1e-14)
    high = 1.0 if estimate == 1 else scipy.optimize.brentq(excess, max(estimate, 1e-9), 1 - 1e-14, xtol=1e-14)
    return [estimate, low, high]


def tasks():
    cases = []
    for runs, count in ((3, 4), (5, 3), (8, 4), (8, 2), (16, 6)):
        levels = random.uniform(0, 1, count)
        first = (levels + random.normal(0, 0.1, (runs, count))).round(4)
        second = (levels - 0.05 + random.normal(0, 0.1, (runs, count))).round(4)
        np.random.seed(5)
        bootstrap = library.StratifiedBootstrap(first)
        iqm = lambda scores: np.array([metrics.aggregate_iqm(scores)])
        cases.append(
            {
                "first": first.T.tolist(),
                "second": second.T.tolist(),
                "iqm": metrics.aggregate_iqm(first),
                "bootstrap_error": float(np.sqrt(bootstrap.var(iqm, reps=20_000, recenter=True)[0])),
                "improvement": metrics.probability_of_improvement(first, second),
                "improvement_by_task": [improvement_limits(a, b) for a, b in zip(first.T, second.T)],
            }
        )
    separated = [0.9, 0.8, 0.95, 0.85], [0.1, 0.2, 0.3, 0.15]
    ties = [0.5, 0.5, 0.6], [0.5, 0.4, 0.6]
    more = [{"first": a, "second": b, "limits": improvement_limits(a, b)} for a, b in (separated, ties)]
    return cases, more


def chance():
    """The expected highest of independent normal values with mean 0, by adaptive integration of the density of the maximum."""
    cases = []
    for errors in ([0.01] * 25, [1.0] * 2, [1.0] * 3, [1.0] * 100, [0.02, 0.01, 0.005], [0.03] + [0.01] * 9, [0.5, 0.001]):
        scales = np.array(errors)

        def density(x):
            below = scipy.stats.norm.cdf(x / scales)
            others = np.array([np.prod(np.delete(below, i)) for i in range(len(scales))])
            return np.sum(scipy.stats.norm.pdf(x / scales) / scales * others)

        widest = max(errors)
        points = sorted({0.0, *errors, *(-e for e in errors)})
        value, _ = scipy.integrate.quad(lambda x: x * density(x), -9 * widest, 9 * widest, points=points, limit=200, epsabs=1e-11)
        cases.append({"errors": errors, "expected": value})
    return cases


def mean_coverage():
    """The share of intervals with the true mean in them: Student's t, and the percentile and the studentised bootstrap."""
    rows = []
    for name, count in itertools.product(DIFFERENCES, (3, 5, 8, 16)):
        samples = DIFFERENCES[name]((400_000, count)) - MEANS[name]
        spread = samples.std(axis=1, ddof=1)
        varied = spread > 1e-12
        half = scipy.stats.t.ppf(0.975, count - 1) * spread[varied] / np.sqrt(count)
        row = {"name": name, "count": count, "t": np.mean(np.abs(samples.mean(axis=1)[varied]) <= half + 1e-12)}
        percentile, studentised = [], []
        for sample in samples[:10_000]:
            if np.ptp(sample) < 1e-12:
                continue
            drawn = sample[random.integers(0, count, (999, count))]
            means, errors = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / np.sqrt(count)
            low, high = np.quantile(means, [0.025, 0.975], method="weibull")
            percentile.append(low - 1e-12 <= 0 <= high + 1e-12)
            if count < 5:
                continue
            off = means - sample.mean()
            flat = errors < 1e-12
            t = np.where(flat, np.where(np.abs(off) < 1e-12, 0, np.sign(off) * 1e9), off / np.where(flat, 1, errors))
            low, high = np.quantile(t, [0.025, 0.975], method="weibull")
            if -1e6 < low and high < 1e6:
                error = sample.std(ddof=1) / np.sqrt(count)
                studentised.append(sample.mean() - high * error <= 1e-12 and sample.mean() - low * error >= -1e-12)
        for method, inside in (("percentile", percentile), ("studentised", studentised)):
            if inside:
                row[method], row[f"{method}_intervals"] = np.mean(inside), len(inside)
        rows.append(row)
    return rows


cases, more = tasks()
result = {
    "student": student(),
    "paired": paired(),
    "holm": holm(),
    "tasks": cases,
    "improvement": more,
    "chance": chance(),
    "coverage": mean_coverage(),
}
print(json.dumps(result, separators=(",", ":"), default=float))
