"""Tests of the kernels through the functions that call them: bitmaps, codecs, Arrow arrays."""
