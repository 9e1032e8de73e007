"""Tables, readers and cases that several tests share with `test_layers`."""

from __future__ import annotations

LAYERS = {
    "errors": 0,
    "_text": 0,
    "limits": 1,
    "_run": 1,
    "_positions": 1,
    "_kernels": 1,
    "_io": 2,
    "_show": 2,
    "_alignment": 2,
    "bitmap": 3,
    "dv": 4,
    "theta": 4,
    "key_index": 4,
    "puffin": 5,
    "arrow": 5,
    "columns": 5,
    "_pyiceberg": 5,
    "parquet": 6,
    "avro": 6,
    "rows": 7,
    "verbs": 8,
    "iceberg": 9,
    "delta": 9,
    "paimon": 9,
    "lance": 9,
    "tables": 10,
    "bridges": 10,
    "spark": 11,
    "cli": 12,
    "__main__": 13,
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
