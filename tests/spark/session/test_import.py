"""`puffin_fast.spark` is imported without PySpark and PyIceberg, and names a missing extra when it is used."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[3]


def said(script: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_importing_it_imports_neither_pyspark_nor_pyiceberg() -> None:
    assert said(
        """
        import sys
        import puffin_fast.spark
        print([name for name in ("pyspark", "pyiceberg", "pandas") if name in sys.modules])
        """
    ) == ["[]"]


def test_using_it_without_pyspark_names_the_extra() -> None:
    lines = said(
        """
        import sys
        sys.modules["pyspark"] = None
        from puffin_fast import spark
        from puffin_fast.errors import MissingExtraError
        for call in (spark.encode_deletes, spark.register, spark.functions.encode):
            try:
                call("x")
            except MissingExtraError as error:
                print(error)
        """
    )
    assert lines == ["pyspark is not installed: pip install 'puffin-fast[spark]'"] * 3


def test_deleting_from_tables_without_pyiceberg_names_the_extra() -> None:
    lines = said(
        """
        import sys
        sys.modules["pyiceberg"] = None
        from puffin_fast import spark
        from puffin_fast.errors import MissingExtraError
        try:
            spark.delete
        except MissingExtraError as error:
            print(error)
        """
    )
    assert lines == ["pyiceberg is not installed: pip install 'puffin-fast[iceberg]'"]


def test_executors_of_another_version_are_named() -> None:
    lines = said(
        """
        from puffin_fast.errors import UnsupportedError
        from puffin_fast.spark.session import executor_calls
        there, executor_calls.__version__ = executor_calls.__version__, "9.9"
        from puffin_fast.spark.worker.merge import merge
        find = executor_calls.by_name(merge)
        try:
            find()
        except UnsupportedError as error:
            print(str(error).startswith(f"puffin_fast {there} on the executor "), error)
        """
    )
    assert lines[0].startswith("True")
    assert "expected 9.9, the driver's" in lines[0]


def test_arguments_of_classes_of_a_notebook_are_sent_whole() -> None:
    lines = said(
        """
        from puffin_fast.spark.session import executor_calls
        from puffin_fast.spark.worker.merge import merge
        class Own:
            value = 7
        find = executor_calls.by_name(merge, memory=Own())
        del Own  # executors do not have it
        print(find().keywords["memory"].value)
        """
    )
    assert lines == ["7"]
