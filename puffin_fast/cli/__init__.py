"""The command line ``puffin-fast``. One module per noun."""

from __future__ import annotations

import click

from puffin_fast import __version__
from puffin_fast.cli import (
    _options,
    changes,
    clean,
    completion,
    definition,
    index,
    look,
    maintain,
    puffin,
    scan,
    statistics,
    table,
)
from puffin_fast.cli._common import ErrorReportingGroup, output_option
from puffin_fast.cli._logs import show_logs

__all__ = ["main"]


@click.group(cls=ErrorReportingGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="warning",
    show_default=True,
    help="Logs of this level and above go to standard error.",
)
@click.option("--verbose", is_flag=True, help="The same as --log-level info.")
@output_option
@_options.catalog
@click.pass_context
def main(
    context: click.Context, /, log_level: str, verbose: bool, output: str | None, **catalog: str | None
) -> None:
    """Reads and maintains deletion vectors: Puffin files, and tables of Iceberg, Delta, Paimon and Lance.

    TABLE is a table of the catalog (namespace.name). Some commands also take the path of a table:
    append, changes, create, delete-keys, delete-positions, disable, maintain, orphan-files, overwrite,
    remove-orphan-files, report, rewrite, scan, update, upgrade and upsert of Delta;
    convert and delete of Delta and Paimon;
    deletes, describe, files, history, schema, snapshots and verify of Delta, Paimon and Lance.
    Those that only read also take the folder or the metadata file of an Iceberg table.

    Options of the catalog and --output can be given here, as in PyIceberg's command line, or after the command.

    Example: puffin-fast --catalog prod scan shop.orders --limit 5
    """
    show_logs("info" if verbose and log_level == "warning" else log_level)
    context.obj = catalog


for _command in (
    puffin.inspect,
    puffin.verify,
    scan.scan,
    scan.deletes,
    changes.changes,
    look.list_names,
    look.describe,
    look.schema,
    look.snapshots,
    look.history,
    look.files,
    definition.create,
    table.append,
    table.delete,
    table.delete_keys,
    table.delete_positions,
    table.overwrite,
    table.update,
    table.upsert,
    definition.upgrade,
    definition.disable,
    maintain.report,
    maintain.convert,
    maintain.compact,
    maintain.rewrite,
    maintain.repair,
    maintain.rewrite_manifests,
    clean.orphan_files,
    clean.expire_snapshots,
    clean.remove_orphan_files,
    clean.maintain,
    statistics.ndv,
    index.index_keys,
    completion.completion,
):
    main.add_command(_command)
