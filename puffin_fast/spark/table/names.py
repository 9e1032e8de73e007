"""Tables by the names that Spark's catalogs have for them: the session's configuration becomes a catalog of PyIceberg.

| in Spark | the table of a job |
|---|---|
| ``catalog.namespace.table``, a catalog of Iceberg | PyIceberg's, from a catalog with the same settings |
| ``namespace.table``, ``table`` | the same, with the session's current catalog and namespace |
| ``delta.`path` ``, a managed Delta table | the path |

Spark's settings ``spark.sql.catalog.<name>.<property>`` are those of Iceberg's Java library. Most properties have the
same names in PyIceberg.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from puffin_fast._io import split_location
from puffin_fast._process.interrupt import interruptible, is_from_outside
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.catalogs.hadoop import HadoopCatalog
from puffin_fast.iceberg.catalogs.working_table import load_table as load_from
from puffin_fast.spark.session.sessions import first_line, session_of
from puffin_fast.spark.session.with_session import of_session

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

_PREFIX = "spark.sql.catalog."
_PART = re.compile(r"`(?:[^`]|``)+`|[^.`\s/]+")
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")

_KINDS = {
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog": "dynamodb",
}
"""Iceberg's types of catalogs by their classes in Java."""

_SPARK_CATALOGS = ("org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg.spark.SparkSessionCatalog")

_OF_SPARK = {
    "type",
    "catalog-impl",
    "io-impl",
    "cache-enabled",
    "cache.expiration-interval-ms",
    "cache.case-sensitive",
    "default-namespace",
    "jdbc.user",
    "jdbc.password",
    "jdbc.schema-version",
    "s3.path-style-access",
}
"""Properties that PyIceberg does not have, or has under another name."""

_OF_S3A = {
    "access.key": "s3.access-key-id",
    "secret.key": "s3.secret-access-key",
    "session.token": "s3.session-token",
    "endpoint": "s3.endpoint",
    "endpoint.region": "s3.region",
}
"""Hadoop's settings ``spark.hadoop.fs.s3a.<name>`` in PyIceberg."""

_DIALECTS = {"postgresql": "postgresql+psycopg2"}


@of_session
def load_table(spark: SparkSession | DataFrame, name: str) -> Table | str:
    """Loads a table by its name in the session's catalogs, for functions of `pf.iceberg` and `pf.delta`.

    Functions of `puffin_fast.spark` take names themselves. The driver opens the catalog with PyIceberg, by the
    settings ``spark.sql.catalog.<name>.…``: REST, JDBC (SQLite, PostgreSQL), Hive, Glue, DynamoDB and hadoop.

    Args:
        spark: the session, or a DataFrame of it.
        name: ``"catalog.namespace.table"``, or less with the current catalog and namespace, with backticks where Spark
            needs them; also ``delta.`` and a path in backticks, and the name of a managed Delta table.

    Returns:
        A table of PyIceberg, or the path of a Delta table.

    Raises:
        NotFoundError: the catalog does not have the table, or the session not the catalog.
        InvalidInputError: the settings of the catalog are not complete, or the text is no name.
        UnsupportedError: PyIceberg has no such catalog, the table is of another format, or the name is that of a
            temporary view, which Spark finds before tables.
        PuffinFastError: the catalog does not answer.

    Examples:
        >>> spark.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        >>> spark.conf.set("spark.sql.catalog.lake.type", "hadoop")
        >>> spark.conf.set("spark.sql.catalog.lake.warehouse", f"{path}/lake")
        >>> lake = pf.iceberg.HadoopCatalog("lake", warehouse=f"{path}/lake")
        >>> lake.create_namespace("shop")
        >>> _ = pf.iceberg.create_table(lake, "shop.orders", table.schema())
        >>> pf.spark.load_table(spark, "lake.shop.orders").name()
        ('shop', 'orders')
    """
    session = session_of(spark)
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidInputError(f"name: expected the name of a table, found {name!r}")
    found: Table | str = table_in(session, name)
    return found


def is_name(table: str) -> bool:
    """Whether text is the name of a table in Spark's catalogs; text with a slash is a path, as is that of a folder."""
    return _NAME.fullmatch(table) is not None and not os.path.isdir(table)


def path_in(name: str) -> str | None:
    """The path in ``delta.`path` ``; None for other names."""
    parts = _parts(name)
    is_path = len(parts) == 2 and parts[0].lower() == "delta" and _is_absolute(parts[1])
    return parts[1] if is_path else None


def table_in(session: SparkSession, table: Any) -> Any:
    """Returns the table that a job's argument names in a session's catalogs; other arguments as they are.

    Args:
        table: a name, as `is_name`, with backticks where Spark needs them.

    Raises:
        As `load_table`.
    """
    if not isinstance(table, str) or not is_name(table):
        return table
    parts = _parts(table)
    if (path := path_in(table)) is not None:
        return path
    settings = _settings(session)
    name, rest = parts[0], parts[1:]
    if name.lower() == "spark_catalog":
        name = "spark_catalog"
    elif not rest or f"{_PREFIX}{name}" not in settings:
        name, rest = session.catalog.currentCatalog(), parts
    if len(parts) == 1:  # Spark adds no namespace to catalog.table
        _check_no_view(session, table)
        rest = [*_parts(session.catalog.currentDatabase()), *parts]
    kind = settings.get(f"{_PREFIX}{name}")
    if kind in _SPARK_CATALOGS:
        catalog = iceberg_catalog(name, settings)
        try:
            return load_from(catalog, tuple(rest))
        except NotFoundError:
            if not kind.endswith("SparkSessionCatalog"):
                raise
    return _described(session, name, rest)


def iceberg_catalog(name: str, settings: Mapping[str, str]) -> Catalog:
    """The catalog of PyIceberg with the settings of one of Spark's.

    Args:
        settings: the configuration of the session.

    Raises:
        InvalidInputError: the settings are not complete.
        UnsupportedError: PyIceberg has no such catalog.
    """
    prefix = f"{_PREFIX}{name}."
    given = {
        _in_lower_case(key.removeprefix(prefix)): value
        for key, value in settings.items()
        if key.startswith(prefix)
    }
    implementation = given.get("catalog-impl")
    kind = given.get("type", "hive").lower() if implementation is None else _KINDS.get(implementation)
    properties = {key: value for key, value in given.items() if key not in _OF_SPARK}
    properties = {**_of_hadoop(settings), **properties}
    if given.get("s3.path-style-access", "").lower() == "false":
        properties["s3.force-virtual-addressing"] = "true"
    where = f"catalog {name}"
    if kind == "hadoop":
        _check_local(where, given, settings)
        return HadoopCatalog(name, **properties)
    if kind == "jdbc":
        properties["uri"] = _sql_address(where, given)
        properties["init_catalog_tables"] = "false"
        kind = "sql"
    elif kind == "hive" and "uri" not in properties:
        if not (uri := settings.get("spark.hadoop.hive.metastore.uris")):
            raise InvalidInputError(
                f"{where}: expected {prefix}uri or spark.hadoop.hive.metastore.uris, found neither"
            )
        properties["uri"] = uri.split(",")[0]
    elif kind not in ("rest", "hive", "glue", "dynamodb"):
        found = f"catalog-impl {implementation}" if implementation else f"type {given.get('type')}"
        raise UnsupportedError(
            f"{where}: {found} is not a catalog of PyIceberg; load the table with PyIceberg and pass it instead of its "
            "name"
        )
    from pyiceberg.catalog import load_catalog

    try:
        with interruptible():
            return load_catalog(name, type=kind, **properties)
    except Exception as error:  # the client of a catalog may raise any exception
        if is_from_outside(error):
            raise
        raise InvalidInputError(f"{where}: PyIceberg cannot open it: {error}") from error


def _sql_address(where: str, given: Mapping[str, str]) -> str:
    """The address of a database as SQLAlchemy writes it."""
    uri = given.get("uri", "")
    found = re.fullmatch(r"jdbc:(\w+):(.*)", uri)
    if found is None:
        start = f"{uri.partition(':')[0]}:…" if ":" in uri else "none"  # the rest may have a password
        raise InvalidInputError(f"{where}: expected a uri jdbc:<database>:<address>, found {start}")
    database, address = found.groups()
    address, _, query = address.partition("?")
    if database == "sqlite":
        return f"sqlite:///{address.removeprefix('file:')}"
    if (dialect := _DIALECTS.get(database)) is None:
        raise UnsupportedError(
            f"{where}: a database {database}, expected sqlite or postgresql; load the table with PyIceberg and pass it "
            "instead of its name"
        )
    options = dict(parse_qsl(query))
    user = given.get("jdbc.user") or options.pop("user", None)
    password = given.get("jdbc.password") or options.pop("password", None)
    login = "" if user is None else quote(user, safe="")
    login += "" if password is None else f":{quote(password, safe='')}"
    rest = f"?{urlencode(options)}" if options else ""
    if not address.startswith("//"):  # of this machine
        address = f"//localhost/{address.lstrip('/')}"
    return f"{dialect}://{login + '@' if login else ''}{address.removeprefix('//')}{rest}"


def _in_lower_case(key: str) -> str:
    """The key of a property, which Spark compares without regard to case."""
    return key if key.lower().startswith("header.") else key.lower()


def _check_local(where: str, given: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Checks that a warehouse without a scheme is a local folder in Spark too.

    Raises:
        UnsupportedError: Hadoop's default file system is another one.
    """
    default = given.get("hadoop.fs.defaultfs") or settings.get("spark.hadoop.fs.defaultFS") or "file:"
    warehouse = given.get("warehouse", "")
    if not split_location(warehouse)[0] and not default.startswith("file:"):
        raise UnsupportedError(
            f"{where}: warehouse {warehouse} is in {default}; expected a URI as warehouse, or local files"
        )


def _is_absolute(path: str) -> bool:
    """Whether Spark takes the second part of ``delta.`path` `` for a path; else it is the name of a table."""
    return bool(split_location(path)[0]) or os.path.isabs(path)


def _check_no_view(session: SparkSession, name: str) -> None:
    """Raises UnsupportedError if Spark has a temporary view of a name."""
    from pyspark.errors import PySparkException

    try:
        found = session.catalog.getTable(name)
    except PySparkException:
        return
    if found.isTemporary:
        raise UnsupportedError(f"{name}: a temporary view; expected a table")


def _of_hadoop(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of Hadoop's S3A file system, for PyIceberg's."""
    prefix = "spark.hadoop.fs.s3a."
    found = {name: settings[prefix + key] for key, name in _OF_S3A.items() if prefix + key in settings}
    if (endpoint := found.get("s3.endpoint")) and "://" not in endpoint:
        found["s3.endpoint"] = f"https://{endpoint}"
    return found


def _settings(session: SparkSession) -> dict[str, str]:
    found: dict[str, str] = session.conf.getAll  # SQL's SET hides passwords
    return found


def _parts(name: str) -> list[str]:
    return [part[1:-1].replace("``", "`") if part[0] == "`" else part for part in _PART.findall(name)]


def _quoted(part: str) -> str:
    return f"`{part.replace('`', '``')}`"


def _described(session: SparkSession, name: str, rest: list[str]) -> str:
    """The path of a Delta table that another catalog of Spark has.

    Raises:
        NotFoundError: it has no such table.
        UnsupportedError: the table has another format.
    """
    shown = ".".join((name, *rest))
    quoted = ".".join(map(_quoted, (name, *rest)))
    from pyspark.errors import PySparkException

    try:
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()
    except PySparkException as error:
        raise NotFoundError(f"{shown}: Spark has no such table: {first_line(error)}") from error
    facts = {row[0]: row[1] for row in rows}
    provider, location = facts.get("Provider"), facts.get("Location")
    if (provider or "").lower() != "delta" or not location:
        raise UnsupportedError(
            f"{shown}: expected a table of Iceberg or Delta, found one of {provider or 'no format'}"
        )
    return str(location)
