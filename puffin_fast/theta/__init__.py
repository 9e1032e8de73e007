"""Theta sketches: counts of distinct values that can be united, intersected and subtracted."""

from puffin_fast.theta.sketch import Interval, ThetaSketch, ThetaSketchBuilder
from puffin_fast.theta.values import is_sketched

__all__ = ["Interval", "ThetaSketch", "ThetaSketchBuilder", "is_sketched"]
