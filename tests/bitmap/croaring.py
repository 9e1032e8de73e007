"""Sets as CRoaring writes them."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from pyroaring import BitMap, BitMap64


def croaring(positions: Any, *, runs: bool = True) -> bytes:
    """CRoaring's bytes of a set, optionally with run containers.

    Only a set of 32 bits takes an array without a Python object for each point. Positions of few keys therefore become
    such sets, which CRoaring then reads as one set of 64 bits.
    """
    values = np.sort(np.asarray(positions, np.uint64))
    high = values >> np.uint64(32)
    keys = high[np.diff(high, prepend=high[:1] + np.uint64(1)) != 0]
    if len(keys) > 16:
        peer = BitMap64(values)
    else:
        parts = [len(keys).to_bytes(8, "little")]
        for key in keys:
            low = array.array("I", values[high == key].astype(np.uint32).tobytes())
            parts += [int(key).to_bytes(4, "little"), bytes(BitMap(low).serialize())]
        peer = BitMap64.deserialize(b"".join(parts))
    if runs:
        peer.run_optimize()
    return bytes(peer.serialize())
