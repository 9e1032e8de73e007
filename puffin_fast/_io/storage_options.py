"""The options of deltalake for object stores (`storage_options`) as a filesystem of fsspec.

The names are those of the Rust crate object_store, in upper or lower case, with or without the prefix of the provider.
An option without a certain counterpart is an error: a table must not be read or written with other settings than
asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from puffin_fast._api.arguments import check_mapping
from puffin_fast._api.packages import import_optional
from puffin_fast._io import split_location
from puffin_fast.errors import InvalidInputError, UnsupportedError

_IGNORED = frozenset({"allow_unsafe_rename", "s3_allow_unsafe_rename", "allow_http"})
"""Options of deltalake's own commits, and for addresses whose scheme says the same."""

_S3 = {
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "token": "token",
    "region": "region",
    "default_region": "region",
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
    "virtual_hosted_style_request": "virtual_hosted",
    "skip_signature": "anon",
}
_GCS = {
    "service_account": "token",
    "service_account_path": "token",
    "application_credentials": "token",
    "service_account_key": "token_json",
    "skip_signature": "anon",
}
_AZURE = {
    **dict.fromkeys(("account_name", "storage_account_name"), "account_name"),
    **dict.fromkeys(("account_key", "access_key", "master_key"), "account_key"),
    **dict.fromkeys(("storage_account_key", "storage_access_key", "storage_master_key"), "account_key"),
    **dict.fromkeys(("sas_key", "sas_token", "storage_sas_key", "storage_sas_token"), "sas_token"),
    **dict.fromkeys(("tenant_id", "authority_id", "storage_tenant_id", "storage_authority_id"), "tenant_id"),
    **dict.fromkeys(("client_id", "storage_client_id"), "client_id"),
    **dict.fromkeys(("client_secret", "storage_client_secret"), "client_secret"),
    **dict.fromkeys(("endpoint", "storage_endpoint"), "endpoint"),
    "skip_signature": "anon",
}
"""By the option without prefix: the argument of the filesystem, or a name that the functions below know."""


def filesystem_of(table: Any, filesystem: Any, storage_options: Mapping[str, str] | None) -> Any:
    """Returns the filesystem of a table.

    Args:
        table: a path, a URI, deltalake's `DeltaTable`, whose own options count if none are given, or an object that has
            its storage.
        filesystem: the caller's filesystem.
        storage_options: as deltalake takes them.

    Returns:
        `filesystem` if there are no options, or the table is on a local disk.

    Raises:
        InvalidInputError: both are given, or an option has a value that is not allowed.
        UnsupportedError: an option, or options for this kind of storage, are not known.
        MissingExtraError: the package of the filesystem is not installed.
    """
    check_mapping("storage_options", storage_options)
    if filesystem is not None:
        if storage_options:
            raise InvalidInputError("expected filesystem or storage_options, found both")
        return filesystem
    uri = getattr(table, "table_uri", table)
    options = storage_options or getattr(table, "_storage_options", None)
    if not options or not isinstance(uri, str | os.PathLike):
        return None
    scheme = split_location(os.fspath(uri))[0]
    if scheme in ("", "file"):
        return None
    if scheme not in _STORES:
        raise UnsupportedError(f"storage_options: expected those of S3, GCS or Azure, found scheme {scheme}")
    prefixes, known, make = _STORES[scheme]
    values: dict[str, str] = {}
    for name, value in options.items():
        short = name.lower()
        for prefix in prefixes:
            short = short.removeprefix(prefix)
        if short in _IGNORED or (short == "conditional_put" and value == "etag"):
            continue
        if short not in known:
            raise UnsupportedError(
                f"storage_options: {name}: no certain counterpart in fsspec; pass filesystem= with this setting"
            )
        values[known[short]] = value
    return make(values)


def _flag(values: dict[str, str], name: str) -> bool | None:
    value = values.pop(name, None)
    if value is None:
        return None
    if value.lower() not in ("true", "false"):
        raise InvalidInputError(f"storage_options: {name}: expected true or false, found {value!r}")
    return value.lower() == "true"


def _s3(values: dict[str, str]) -> Any:
    arguments: dict[str, Any] = {}
    if (anonymous := _flag(values, "anon")) is not None:
        arguments["anon"] = anonymous
    if (virtual := _flag(values, "virtual_hosted")) is not None:
        arguments["config_kwargs"] = {"s3": {"addressing_style": "virtual" if virtual else "path"}}
    if (region := values.pop("region", None)) is not None:
        arguments["client_kwargs"] = {"region_name": region}
    return import_optional("s3fs").S3FileSystem(**values, **arguments)


def _gcs(values: dict[str, str]) -> Any:
    token: Any = values.get("token")
    if (text := values.get("token_json")) is not None:
        try:
            token = json.loads(text)
        except ValueError as error:
            raise InvalidInputError("storage_options: service_account_key: expected JSON") from error
    if _flag(values, "anon"):
        token = "anon"
    return import_optional("gcsfs").GCSFileSystem(token=token)


def _azure(values: dict[str, str]) -> Any:
    anonymous = _flag(values, "anon")
    arguments: dict[str, Any] = {} if anonymous is None else {"anon": anonymous}
    if (endpoint := values.pop("endpoint", None)) is not None:
        values = {"connection_string": _connection_string(endpoint, values)}
    return import_optional("adlfs").AzureBlobFileSystem(**values, **arguments)


def _connection_string(endpoint: str, values: dict[str, str]) -> str:
    """The connection string with which adlfs uses another address than Azure's, such as that of Azurite."""
    names = {"account_name": "AccountName", "account_key": "AccountKey", "sas_token": "SharedAccessSignature"}
    if others := sorted(values.keys() - names.keys()):
        raise UnsupportedError(
            f"storage_options: {others[0]} with an endpoint: no certain counterpart in fsspec"
        )
    return ";".join(
        [f"BlobEndpoint={endpoint}", *(f"{names[name]}={value}" for name, value in values.items())]
    )


_Store = tuple[tuple[str, ...], Mapping[str, str], Callable[[dict[str, str]], Any]]
_STORES: dict[str, _Store] = {
    **dict.fromkeys(("s3", "s3a"), (("aws_",), _S3, _s3)),
    **dict.fromkeys(("gs", "gcs"), (("google_",), _GCS, _gcs)),
    **dict.fromkeys(("az", "azure", "abfs", "abfss", "adl"), (("azure_",), _AZURE, _azure)),
}
"""By scheme: the prefixes of options, the options, and what makes the filesystem."""
