"""Pictures of the site's pages and of a report by headless Chromium, and what is wider than its column there.

``make screenshots`` writes build/screenshots, and fails if a page is wider than the window or hides a part of a line.
"""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import iceberg

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
TARGET = ROOT / "build" / "screenshots"
PAGES = (
    "index",
    "start",
    "tutorials/erase-customers",
    "formats",
    "performance",
    "reference/iceberg-read",
    "404",
)
WIDTHS = (1400, 400)
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
LEAST = 20_000
"""Bytes of a picture that shows something: an empty page has fewer."""

MEASURE = """<!doctype html><body><script>
const found = {};
async function measure(path, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.src = path;
  document.body.append(frame);
  await new Promise(done => { frame.onload = done; });
  const page = frame.contentDocument;
  const wide = [];
  const isNarrow = width < 1000;  // there tables and drawings are scrolled
  const tables = isNarrow ? "" : ", .md-typeset__scrollwrap";
  const root = page.documentElement;
  if (root.scrollWidth > width) wide.push("the page: " + root.scrollWidth);
  for (const part of page.querySelectorAll(".md-content pre > code, .md-content img" + tables))
    if (part.scrollWidth > part.clientWidth + 1 && part.clientWidth && !(isNarrow && part.closest(".language-text")))
      wide.push(part.tagName + " " + part.scrollWidth + " > " + part.clientWidth + ": " + part.innerText.slice(0, 60));
  for (const cell of page.querySelectorAll(".md-content td, .md-content th"))
    if (cell.clientWidth && cell.clientWidth < 50 && cell.innerText.trim().length > 3)
      wide.push("a column of " + cell.clientWidth + ": " + cell.innerText.slice(0, 60));
  if (wide.length) found[path + " at " + width] = wide;
  frame.remove();
}
(async () => {
  for (const path of PAGES) for (const width of WIDTHS) await measure(path, width);
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = JSON.stringify(found);
  document.body.replaceChildren(result);
})();
</script></body>"""


def browser() -> str | None:
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def run(profile: Path, *options: str, seconds: int = 5) -> str:
    """Starts Chromium with a profile of its own; returns what it prints."""
    program = browser()
    assert program is not None
    always = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command = [program, *always, f"--virtual-time-budget={seconds * 1000}", *options]
    return subprocess.run(command, check=True, capture_output=True, timeout=280, text=True).stdout


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves a folder on this machine; yields its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def overflows(site: Path) -> dict[str, list[str]]:
    """What is wider than its column, and columns of tables without room for a word, by page and width of the window."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    script = MEASURE.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(WIDTHS))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "site"
        shutil.copytree(site, copy)
        (copy / "measure.html").write_text(script)
        with served(copy) as address:
            printed = run(Path(scratch) / "profile", "--window-size=1500,1000", "--dump-dom",
                          f"{address}/measure.html", seconds=240)  # fmt: skip
    found = re.search(r'<pre id="result">(.*?)</pre>', printed, re.DOTALL)
    assert found, f"{len(pages)} pages were not measured in time"
    result: dict[str, list[str]] = json.loads(
        found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
    )
    return result


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
    if browser() is None:
        sys.exit("a browser is missing: apt-get install chromium")
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        pages = [SITE / f"{name}.html" for name in PAGES]
        for page in (*pages, report(Path(scratch))):
            for width in WIDTHS:
                picture = TARGET / f"{page.stem}-{width}.png"
                picture.unlink(missing_ok=True)
                run(
                    Path(scratch) / "profile",
                    f"--window-size={width},1600",
                    f"--screenshot={picture}",
                    page.as_uri(),
                )
                if picture.stat().st_size < LEAST:
                    sys.exit(
                        f"{picture}: expected a picture of the page, found {picture.stat().st_size} bytes"
                    )
                print(picture.relative_to(ROOT))
    wide = overflows(SITE)
    for page, parts in wide.items():
        print(page, *parts, sep="\n  ", file=sys.stderr)
    sys.exit(f"{len(wide)} pages have parts that are wider than their column" if wide else 0)


if __name__ == "__main__":
    main()
