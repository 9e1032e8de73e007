"""Tests of the kernels through their doors: bitmap, blob codec, Arrow."""
