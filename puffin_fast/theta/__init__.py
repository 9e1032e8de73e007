"""Theta sketches: counts of distinct values that can be united, intersected and subtracted."""

from puffin_fast.theta.sketch import BLOB_TYPE, Interval, ThetaSketch, ThetaSketchBuilder
from puffin_fast.theta.values import is_sketched

__all__ = ["BLOB_TYPE", "Interval", "ThetaSketch", "ThetaSketchBuilder", "is_sketched"]
