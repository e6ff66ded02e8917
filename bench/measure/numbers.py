"""Medians with their ranges."""
import statistics


def spread(values):
    """[median, min, max, n]"""
    return [statistics.median(values), min(values), max(values), len(values)]


def paired(values, bases):
    """Changes against the base of the same round, as fractions."""
    return spread([v / b - 1 for v, b in zip(values, bases)])
