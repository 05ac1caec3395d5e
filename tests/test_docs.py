"""What the documentation says can be typed is typed here, and its notebooks are run.

Of a page the blocks `sh` and `python` are run in order, in one folder, as a reader would. A block of Python or TOML is written
to a file where its first line is a comment with a path, or `<!-- file: PATH -->` stands before it. Each line of a block `text`
must be in what the block before it printed (… stands for anything). A block `console` is for readers only.

`<!-- slow from here -->` leaves the rest of a page to the slow tests, `<!-- needs: PACKAGE -->` to machines that have it.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
RECORDS = {"benchmarks.md", "hybrids.md", "lexmae-training.md", "systems.md"}  # of long runs, as they were typed then
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$|^<!-- (.*?) -->$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w./-]+\.(?:py|toml))\n|file: (.*)")
EXAMPLES = "howto/examples.md"  # typed by test_readme, in a folder with what they need
SLOW = "slow from here"


def pages():
    """Yield each page that has something to run, and again whole where a part of it is slow."""
    runs = re.compile(r"^```(sh|python)$", re.MULTILINE)
    for name, text in PAGES.items():
        if name in RECORDS | {EXAMPLES} or not runs.search(text):
            continue
        if runs.search(text.partition(SLOW)[0]):
            yield pytest.param(name, False, id=name)
        if SLOW in text:
            yield pytest.param(name, True, id=f"{name}, all of it", marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def environment(tmp_path_factory, fast):
    """Return the environment of a reader: `lexbench`, `python` and `pip`, which installs into a separate folder."""
    folder = tmp_path_factory.mktemp("reader")
    site = folder / "site"
    words = f'-m pip "$1" --quiet --no-deps --no-build-isolation --target {site} "${{@:2}}"'
    (folder / "pip").write_text(f"#!/usr/bin/env bash\nexec {sys.executable} {words}\n", encoding="utf-8")
    (folder / "pip").chmod(0o755)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(fast), str(folder), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(paths),
        "LEXBENCH_STORE": str(folder / "store"),
        "LEXBENCH_OFFLINE": "1",
        "COLUMNS": "120",
    }


@pytest.mark.parametrize(("page", "whole"), list(pages()))
def test_a_page_can_be_typed(page, whole, environment, fast, tmp_path):
    """Every block of the page works, and prints what the page says it prints."""
    printed = before = ""
    for language, block, remark in BLOCK.findall(PAGES[page]):
        if remark == SLOW and not whole:
            return
        if remark.startswith("needs: ") and not importlib.util.find_spec(remark.removeprefix("needs: ")):
            pytest.skip(f"the rest of {page} {remark}")
        if language in {"python", "toml"} and (file := FILE.match(block) or FILE.match(before)):
            path = tmp_path / (file[1] or file[2])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block, encoding="utf-8")
        elif language in {"sh", "python"}:
            command = ["bash", "-euo", "pipefail", "-c", block] if language == "sh" else [fast / "python", "-c", block]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            printed = done.stdout + done.stderr
        elif language == "text":
            missing = [line for line in block.splitlines() if not re.search(pattern(line), spaced(printed))]
            assert not missing, f"not printed: {missing}\n{printed}"
        before = remark


def spaced(text):
    """Return *text* with single spaces: how wide a table is depends on what else is in it."""
    return " ".join(text.split())


def pattern(line):
    """Return the pattern of one line that a page shows."""
    return ".*".join(re.escape(spaced(part)) for part in line.split("…"))


CELLS = """
import sys
import nbformat
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.display_formatter.active_types = shell.display_formatter.format_types
for cell in nbformat.read(sys.argv[1], 4).cells:
    if cell.cell_type == "code":
        shell.run_cell(cell.source).raise_error()
"""
KERNEL = "import nbclient, nbformat, sys; nbclient.NotebookClient(nbformat.read(sys.argv[1], 4), timeout=300).execute()"


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["cells", "in a kernel"])
@pytest.mark.parametrize("notebook", sorted(DOCS.glob("notebooks/*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, kernel, environment, fast, tmp_path):
    """Every cell of the notebook runs, and what it shows has all its forms; in a shell of IPython, or in its own kernel."""
    pytest.importorskip("nbclient", reason="notebooks are run by nbclient, of the extra test")
    command = [*([sys.executable, "-c", KERNEL] if kernel else [fast / "python", "-c", CELLS]), str(notebook)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_notebooks_are_committed_without_outputs():
    """What a notebook shows is made when the site is built, so that it cannot be of another version."""
    for path in DOCS.glob("notebooks/*.ipynb"):
        assert '"output_type"' not in path.read_text(encoding="utf-8"), path


def test_every_page_is_run_or_a_record():
    """No page is both left out and gone, so that a renamed one does not drop out of the tests."""
    assert set(PAGES) >= RECORDS | {EXAMPLES}
