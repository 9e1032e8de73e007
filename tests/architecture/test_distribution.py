"""What a release consists of: metadata, the description for a package index, the conda recipe, hosted CI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

pytest.importorskip("Cython", reason="setup.py needs it: run in .venv")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = "https://example.org/somebody/something"
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)]+)\)")

SETUP = """
import runpy, sys, sysconfig
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = {free_threaded}
sys.argv = ["setup.py", "-q", *{command!r}]
runpy.run_path({path!r}, run_name="__main__")
"""


def setup(
    folder: Path,
    *,
    command: Sequence[str] = ("egg_info", "--egg-base"),
    repository: str | None = None,
    free_threaded: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Runs a command of setup.py, which writes to a folder (by default the metadata), and compiles nothing."""
    given = {
        "free_threaded": free_threaded,
        "command": [*command, str(folder)],
        "path": str(ROOT / "setup.py"),
    }
    code = SETUP.format(**given)
    environment = {key: value for key, value in os.environ.items() if key != "PUFFIN_FAST_REPOSITORY"}
    if repository is not None:
        environment["PUFFIN_FAST_REPOSITORY"] = repository
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def metadata(folder: Path, repository: str | None) -> Message:
    done = setup(folder, repository=repository)
    assert done.returncode == 0, done.stderr[-2000:]
    (path,) = folder.glob("*.egg-info/PKG-INFO")
    return Parser().parsestr(path.read_text())


def links(found: Message) -> list[tuple[bool, str]]:
    return [(bool(image), target) for image, target in LINK.findall(str(found.get_payload()))]


def test_links_of_the_description_are_absolute(tmp_path: Path) -> None:
    found = metadata(tmp_path, f"{REPOSITORY}/")
    targets = links(found)
    assert any(image for image, _ in targets)
    for image, target in targets:
        kind, path = re.fullmatch(rf"{REPOSITORY}/(blob|raw)/main/([^#]+)(?:#.*)?", target).groups()  # type: ignore[union-attr]
        assert kind == ("raw" if image else "blob")
        assert (ROOT / path).exists(), path
    urls = dict(url.split(", ", 1) for url in found.get_all("Project-URL"))  # type: ignore[union-attr]
    assert urls["Repository"] == REPOSITORY
    assert set(urls) == {"Repository", "Documentation", "Changelog", "Issues"}


def test_a_description_without_a_repository_has_no_links_into_it(tmp_path: Path) -> None:
    found = metadata(tmp_path, None)
    assert links(found) == []
    assert "docs/" not in str(found.get_payload()).replace("`docs/", "")
    assert found.get_all("Project-URL") is None
    assert "PUFFIN" not in str(found.get_payload())


def test_the_description_begins_with_how_to_install(tmp_path: Path) -> None:
    text = str(metadata(tmp_path, REPOSITORY).get_payload())
    title, command, rest = text.split("\n\n", 2)
    assert (title, command) == ("# puffin-fast", "```\npip install 'puffin-fast[iceberg]'\n```")
    assert "<!--" not in rest
    assert not re.search(r"make (demo|test|help)", rest)
    assert "pip install ." not in rest
    assert "## How fast" in rest


def test_pages_that_docstrings_name_have_full_addresses_in_a_wheel(tmp_path: Path) -> None:
    done = setup(tmp_path, command=("build_py", "--build-lib"), repository=REPOSITORY)
    assert done.returncode == 0, done.stderr[-2000:]
    texts = [path.read_text() for path in sorted(tmp_path.rglob("*.py"))]
    pages = [found for text in texts for found in re.finditer(r"(\S*)\bdocs/([a-z-]+\.md)", text)]
    assert len(pages) > 10
    for page in pages:
        assert page[1].endswith(f"{REPOSITORY}/blob/main/"), page[0]
        assert (ROOT / "docs" / page[2]).exists()


def test_the_changelog_of_an_unreleased_version_is_one_page() -> None:
    """It lists what exists. Lines that a merge brings back, and histories of corrections, do not fit."""
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert versions == [f"{PROJECT['version']} (unreleased)"]
    assert text.count("\n") <= 120


def test_free_threaded_builds_are_refused(tmp_path: Path) -> None:
    done = setup(tmp_path, free_threaded=1)
    assert done.returncode == 1
    assert "found a free-threaded build" in done.stderr


def test_the_conda_recipe_requires_what_the_package_requires() -> None:
    recipe = (ROOT / ".ci" / "conda" / "meta.yaml").read_text()
    assert f'version = "{PROJECT["version"]}"' in recipe
    assert PROJECT["description"] in recipe
    conda_name = {"lz4": "python-lz4"}
    wanted = {"python" + PROJECT["requires-python"]}
    for requirement in PROJECT["dependencies"]:
        name, version = re.fullmatch(r"([a-z0-9-]+)(.*)", requirement).groups()  # type: ignore[union-attr]
        wanted.add(conda_name.get(name, name) + version)
    run = recipe.partition("  run:\n")[2].partition("test:\n")[0]
    assert {line.replace(" ", "").lstrip("-") for line in run.splitlines()} == wanted


def test_all_installs_the_pyspark_that_the_tests_use() -> None:
    extras = PROJECT["optional-dependencies"]
    (pinned,) = (text for text in extras["all"] if text.startswith("pyspark"))
    (tested,) = (text for text in extras["dev"] if text.startswith("pyspark"))
    assert pinned.partition("]")[2] == tested.partition("]")[2] != ""


def test_hosted_ci_runs_what_is_here() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    commands = re.findall(r"- run: (.*)", workflow)
    assert ".ci/run ${{ matrix.part }}" in commands
    (here,) = re.findall(r"in all \| ([a-z| ]+)\) ;;", (ROOT / ".ci" / "run").read_text())
    (there,) = re.findall(r"part: \[(.*)\]", workflow)
    assert here.split(" | ") == there.split(", ")
    assert {command.split()[1] for command in commands if command.startswith("make ")} <= targets
