"""Types of the kernel."""

from puffin_fast._kernels.containers import BitmapSummary

MAGIC: bytes

def frame(data: bytes, start: int, stop: int) -> bytes: ...
def check(blob: bytes, path: str | None = None, offset: int = 0) -> BitmapSummary: ...
