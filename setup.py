"""Builds the Cython kernels as abi3 extension modules; everything else is declared in pyproject.toml.

Environment:
    PUFFIN_FAST_DEBUG=1      bounds checks and assertions in the kernels, no optimisation.
    PUFFIN_FAST_SANITIZE=1   AddressSanitizer and UndefinedBehaviorSanitizer on the kernels.
    PUFFIN_FAST_PORTABLE=1   compile without any SIMD path (what other processors run).
    PUFFIN_FAST_REPOSITORY   address of the repository, for the links of the package's page in a package index.
"""

import multiprocessing
import os
import re
import sys
import sysconfig
from email.parser import Parser
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
KERNELS = Path("puffin_fast/_kernels")
ABI3 = "0x030B0000"
CYTHON_WARNINGS = ("unused-function", "sign-compare", "maybe-uninitialized", "discarded-qualifiers")
"""Warnings that compilers report only for the C code that Cython generates."""

debug = os.environ.get("PUFFIN_FAST_DEBUG") == "1"
sanitize = os.environ.get("PUFFIN_FAST_SANITIZE") == "1"
portable = os.environ.get("PUFFIN_FAST_PORTABLE") == "1"

if sys.byteorder != "little" or sys.maxsize < 2**63 - 1:
    raise SystemExit(
        "puffin_fast: expected a 64-bit little-endian platform (the kernels read and write Roaring's words "
        f"in place), found {sys.byteorder}-endian with {sys.maxsize.bit_length() + 1}-bit pointers"
    )
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise SystemExit(
        "puffin_fast: expected a Python with the global interpreter lock: the kernels use the limited API (abi3), "
        "which free-threaded builds do not have; found a free-threaded build"
    )


def repository() -> str | None:
    """The address of the repository: from the environment or, in an unpacked sdist, from its metadata."""
    given = os.environ.get("PUFFIN_FAST_REPOSITORY", "")
    metadata = ROOT / "PKG-INFO"
    if not given and metadata.exists():
        urls = Parser().parsestr(metadata.read_text()).get_all("Project-URL", [])
        given = dict(url.split(", ", 1) for url in urls).get("Repository", "")
    return given.rstrip("/") or None


def project_urls(address: str | None) -> dict[str, str]:
    """The links beside the description; none if the address of the repository is not known."""
    pages = {
        "Repository": "",
        "Documentation": "/blob/main/docs/index.md",
        "Changelog": "/blob/main/CHANGELOG.md",
        "Issues": "/issues",
    }
    return {} if address is None else {name: f"{address}{path}" for name, path in pages.items()}


def description(readme: str, address: str | None) -> str:
    """The README for a package index, which has none of the repository's files.

    It begins with how to install the package, and has no commands and no comments of the repository. Links and images
    name files of the repository. If its address is not known, links become plain text and images are left out.
    """

    def target(match: re.Match[str]) -> str:
        image, text, path = match.groups()
        if address is None:
            return "" if image else text
        return f"{image}[{text}]({address}/{'raw' if image else 'blob'}/main/{path})"

    title, text = readme.split("\n\n", 1)
    text = re.sub(r"<!--.*?-->\n*", "", text, flags=re.DOTALL)
    text = re.sub(r"^## Two commands\n.*?(?=^## )", "", text, flags=re.DOTALL | re.MULTILINE)
    text = text.replace("Install with `pip install .` and the extras", "Install the extras")
    text = f"{title}\n\n```\npip install 'puffin-fast[iceberg]'\n```\n\n{text}"
    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)", target, text)


def extension(source: Path) -> Extension:
    """Declares one abi3 extension for a .pyx file. A changed header rebuilds it."""
    name = ".".join(source.with_suffix("").parts)
    macros = [("Py_LIMITED_API", ABI3), ("CYTHON_LIMITED_API", "1")]
    compile_args = ["-O3", "-fno-strict-aliasing", "-std=c11", *(f"-Wno-{name}" for name in CYTHON_WARNINGS)]
    link_args: list[str] = []
    if debug:
        compile_args[0] = "-O0"
        macros.append(("PF_DEBUG", "1"))
    if sanitize:
        flags = [
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=undefined",
            "-fno-omit-frame-pointer",
            "-g",
        ]
        compile_args = ["-O1", *compile_args[1:], *flags]
        link_args += flags[:1]
    if portable:
        macros.append(("PF_PORTABLE", "1"))
    return Extension(
        name,
        [str(source)],
        define_macros=macros,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        include_dirs=[str(KERNELS)],
        depends=[str(path) for pattern in ("*.h", "*.pxd") for path in sorted(KERNELS.rglob(pattern))],
        py_limited_api=True,
    )


class addressed_pages(build_py):
    """Writes the full addresses of pages into docstrings and help texts: a wheel has no ``docs``."""

    def build_module(self, module: str, module_file: str, package: str) -> object:
        written = super().build_module(module, module_file, package)
        if (address := repository()) is not None:
            path = Path(self.get_module_outfile(self.build_lib, package.split("."), module))
            page = rf"{address}/blob/main/\g<0>"
            path.write_text(
                re.sub(r"\bdocs/[a-z-]+\.md\b", page, path.read_text(encoding="utf-8")), encoding="utf-8"
            )
        return written


class abi3_wheel(bdist_wheel):
    """Tags the wheel cp311-abi3: one build serves Python 3.11 and later."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()


os.chdir(ROOT)
setup(
    long_description=description((ROOT / "README.md").read_text(encoding="utf-8"), repository()),
    long_description_content_type="text/markdown",
    project_urls=project_urls(repository()),
    ext_modules=cythonize(
        [extension(path) for path in sorted(KERNELS.rglob("*.pyx"))],
        compiler_directives={
            "language_level": 3,
            "boundscheck": debug,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": debug,
            "binding": False,
            "embedsignature": True,
        },
        # processes that import this file again, as on macOS, would set it up again
        nthreads=(os.cpu_count() or 0) if multiprocessing.get_start_method() == "fork" else 0,
    ),
    cmdclass={"bdist_wheel": abi3_wheel, "build_py": addressed_pages},
    options={"build_ext": {"parallel": os.cpu_count()}},
)
