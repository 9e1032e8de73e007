"""Logs of the package on standard error."""

from __future__ import annotations

import logging

import click


class _EchoHandler(logging.Handler):
    """Writes to what standard error is at that time."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


_handler = _EchoHandler()
_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))


def show_logs(level: str) -> None:
    """Writes the logs of this level and above to standard error."""
    logger = logging.getLogger("puffin_fast")
    logger.addHandler(_handler)  # does nothing the second time
    logger.setLevel(level.upper())
