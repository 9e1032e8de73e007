"""Opens catalogs of PyIceberg's configuration.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 read it so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.utils.config import Config


def configured_catalog(name: str | None, properties: Mapping[str, Any]) -> Catalog:
    """PyIceberg's `load_catalog`, which reads ``py-catalog-impl`` from its arguments only: here the configuration may
    have it, too.

    Args:
        name: of the catalog; None for the default one.
        properties: take precedence over those of the configuration.
    """
    config = Config()
    known: Mapping[str, Any] = config.get_catalog_config(name or config.get_default_catalog_name()) or {}
    if "py-catalog-impl" in known:
        properties = {**known, **properties}
    return load_catalog(name, **properties)
