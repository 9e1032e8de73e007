"""Types of the kernel."""

MAGIC: bytes
