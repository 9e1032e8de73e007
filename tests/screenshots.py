"""Pictures of the site and of a report by headless Chromium (``make screenshots``), in build/screenshots."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import iceberg

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "build" / "screenshots"
PAGES = ("index", "tutorials/erase-customers", "formats", "performance", "reference/iceberg", "CONTRIBUTING")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
LEAST = 20_000
"""Bytes of a picture that shows something: an empty page has fewer."""


def report(folder: Path) -> Path:
    """The page of `iceberg.report` on a table that has deletes."""
    catalog = SqlCatalog("shop", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("shop")
    rows = pa.table({"id": range(100_000), "customer": [i % 50 for i in range(100_000)]})
    table = iceberg.create_table(catalog, "shop.orders", rows.schema)
    for first in range(0, 100_000, 20_000):
        iceberg.append(table, rows.slice(first, 20_000))
        iceberg.delete(table, f"customer < 10 and id >= {first}")
    iceberg.report(table).to_html(folder / "report.html")
    return folder / "report.html"


def main() -> None:
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if browser is None:
        sys.exit("a browser is missing: apt-get install chromium")
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        pages = [ROOT / "build" / "site" / f"{name}.html" for name in PAGES]
        for page in (*pages, report(Path(scratch))):
            picture = TARGET / f"{page.stem}.png"
            picture.unlink(missing_ok=True)
            options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch}/profile"]
            size = ["--window-size=1280,1600", "--virtual-time-budget=5000"]
            command = [browser, *options, *size, f"--screenshot={picture}", page.as_uri()]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
            if picture.stat().st_size < LEAST:
                sys.exit(f"{picture}: expected a picture of the page, found {picture.stat().st_size} bytes")
            print(picture.relative_to(ROOT))


if __name__ == "__main__":
    main()
