"""Tables, readers and cases that several tests share with `test_layers`."""

from __future__ import annotations

LAYERS = {
    "errors": 0,
    "_text": 0,
    "limits": 1,
    "acceleration": 1,
    "_process": 1,
    "_positions": 1,
    "_kernels": 1,
    "_api": 2,
    "_concurrency": 3,
    "_io": 4,
    "_display": 4,
    "_alignment": 4,
    "bitmap": 5,
    "dv": 6,
    "theta": 6,
    "key_index": 6,
    "puffin": 7,
    "arrow": 7,
    "columns": 7,
    "_pyiceberg": 7,
    "parquet": 8,
    "avro": 8,
    "rows": 9,
    "verbs": 10,
    "iceberg": 11,
    "delta": 11,
    "paimon": 11,
    "lance": 11,
    "tables": 12,
    "bridges": 12,
    "spark": 13,
    "cli": 14,
    "__main__": 15,
}


FOLDERS = {
    "rows": ("filters", "files", "keys", "deletes", "scan", "rewrite", "match", "changes"),
    "iceberg": (
        "compat",
        "catalogs",
        "manifest",
        "plan",
        "commit",
        "index",
        "delete_files",
        "scans",
        "changelog",
        "statistics",
        "dml",
        "maintenance",
        "patches",
    ),
    "delta": ("log", "scans", "changelog", "dml", "maintenance"),
    "spark": ("session", "worker", "dataframe", "table", "sources"),
}
"""The folders of a package, from the ground up: a folder imports only from those before it."""
