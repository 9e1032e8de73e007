"""Confidence bounds of the estimates of theta sketches: counts and shares.

Each distinct value is retained with probability theta, so of n distinct values Binomial(n, theta) are retained.
"""

from __future__ import annotations

import math

_EXACT_MAX = 120
"""Number of retained values up to which the binomial distribution is summed; above, the normal distribution is used."""


def count_bounds(retained: int, theta: float, n_std_dev: int) -> tuple[float, float]:
    """Returns bounds of the number of values, of which `retained` were retained, each with probability theta.

    The lower bound is the smallest number for which it is plausible that `retained` or more values are retained; the
    upper bound is the largest number for which it is plausible that `retained` or fewer are. Plausible means: at least
    as probable as the tail of a normal distribution beyond n_std_dev.
    """
    if theta >= 1.0:
        return float(retained), float(retained)
    estimate = retained / theta
    if retained > _EXACT_MAX:
        lower, upper = (
            _score_root((retained + half) / theta, math.copysign(n_std_dev, half), theta)
            for half in (-0.5, 0.5)
        )
    else:
        tail = 0.5 * math.erfc(n_std_dev / math.sqrt(2.0))
        lower = 0 if retained == 0 else _largest(retained - 1, theta, 1.0 - tail) + 1
        upper = _largest(retained, theta, tail)
    return min(max(float(lower), float(retained)), estimate), max(float(upper), estimate)


def _score_root(estimate: float, deviations: float, theta: float) -> float:
    """Returns the n that solves n = estimate + deviations * sqrt(n * (1 - theta) / theta)."""
    half = 0.5 * deviations * math.sqrt((1.0 - theta) / theta)
    return estimate + 2 * half * half + 2 * half * math.sqrt(half * half + estimate)


def _largest(retained: int, theta: float, probability: float) -> int:
    """Returns the largest n for which P(Binomial(n, theta) <= retained) is at least `probability`."""
    low, high = retained, max(2 * retained, 1)  # n = retained: the probability is 1
    while _at_most(retained, high, theta) >= probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _at_most(retained, middle, theta) >= probability else (low, middle)
    return low


def _at_most(retained: int, n: int, theta: float) -> float:
    """Returns P(Binomial(n, theta) <= retained). Terms are added as logarithms, because they may be below the smallest
    float."""
    term, odds = n * math.log1p(-theta), math.log(theta) - math.log1p(-theta)
    total = math.exp(term)
    for j in range(min(retained, n)):
        term += math.log(n - j) - math.log(j + 1) + odds
        total += math.exp(term)
    return total


def fraction_bounds(some: int, n: int, theta: float, n_std_dev: int) -> tuple[float, float]:
    """Returns bounds of a share that is estimated from `some` of n retained values (Wilson's interval).

    The n values are a sample without replacement of about n / theta values, which narrows the interval by sqrt(1 -
    theta).
    """
    deviations = n_std_dev * math.sqrt(max(0.0, 1.0 - theta))
    share, square = some / n, deviations * deviations / n
    centre = (share + square / 2) / (1 + square)
    margin = deviations * math.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
    return max(0.0, min(centre - margin, share)), min(1.0, max(centre + margin, share))
