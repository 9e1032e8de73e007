"""Theta sketches: counts of distinct values that can be united, intersected and subtracted."""

from puffin_fast.theta.sketch import Interval, ThetaSketch, ThetaSketchBuilder

__all__ = ["Interval", "ThetaSketch", "ThetaSketchBuilder"]
