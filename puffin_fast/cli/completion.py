"""The command ``completion``: a script with which a shell completes commands, options, tables and columns."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from puffin_fast.cli._common import printing

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Prints the script with which SHELL completes commands, options, names of tables and columns.

    Add the example to the file that SHELL reads at its start, such as ~/.bashrc.

    Example: eval "$(puffin-fast completion bash)"
    """
    program = SHELLS[shell](context.find_root().command, {}, "puffin-fast", "_PUFFIN_FAST_COMPLETE")
    with printing() as stdout:
        print(program.source(), file=stdout)
