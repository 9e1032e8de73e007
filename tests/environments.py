"""Fresh virtual environments for what is tested as it is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["clean", "create"]


def clean() -> dict[str, str]:
    """The variables of this process without those of this Python."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def create(folder: Path, *packages: str | Path, interpreter: str = sys.executable) -> Path:
    """Makes an environment with some packages, none of which is built from sources.

    uv installs them where `make` installed uv, else pip does.

    Args:
        folder: of the environment; an existing one is replaced.
        packages: as pip takes them.
        interpreter: the Python of the environment.

    Returns:
        the environment's interpreter.
    """
    python = folder / "bin" / "python"
    has_uv = importlib.util.find_spec("uv") is not None
    without_pip = ["--without-pip"] if has_uv else []
    install = (
        [sys.executable, "-m", "uv", "pip", "install", "--python", python]
        if has_uv
        else [python, "-m", "pip", "install"]
    )
    subprocess.run([interpreter, "-m", "venv", "--clear", *without_pip, folder], env=clean(), check=True)
    subprocess.run([*install, "-q", "--only-binary", ":all:", *packages], env=clean(), check=True)
    return python
