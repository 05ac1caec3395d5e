"""Every command that README, docs and CHANGELOG tell people to type is run by a test, or listed with the reason why not.

`python tests/test_typed.py` prints the list. A command that is not run is at least checked: it, its subcommand and its options
exist, and so do the files and the targets that it names.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from lexbench.cli import app

ROOT = Path(__file__).parents[1]
PLACES = ("*.md", "docs/**/*.md", "benchmarks/*.md", "models/*/*.md", "leaderboard/reproduce.sh")
RUN = {  # the test that types the blocks `sh` of a page
    "README.md": "test_readme", "docs/howto/examples.md": "test_readme", "docs/": "test_docs",
}  # fmt: skip
RECORDS = (
    "docs/benchmarks.md",
    "docs/hybrids.md",
    "docs/lexmae-training.md",
    "docs/systems.md",
    "benchmarks/",
    "models/",
    "leaderboard/",
)
REASONS = {
    "a record": "it took minutes or hours, on data that tests lack",
    "an example": "a block `console`: it needs a download, a server, a GPU or a long time",
    "in a sentence": "a part of a command, or one that stands in a block elsewhere",
}
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`((?:lexbench|python|make|pip|pytest) [^`\n]+)`")
_PROGRAMS = ("lexbench", "python", "make")


class Typed(NamedTuple):
    """A command of a page, with what runs it, or why nothing does."""

    page: str
    line: str
    by: str  # a test, or a key of REASONS

    @property
    def is_run(self) -> bool:
        """Whether a test types it."""
        return self.by not in REASONS


def typed() -> Iterator[Typed]:
    """Yield every command of every page."""
    for path in sorted({path for place in PLACES for path in ROOT.glob(place)}):
        page, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        record = page.startswith(RECORDS)
        test = next((test for begin, test in RUN.items() if page.startswith(begin)), "")
        blocks = [("sh", text)] if path.suffix == ".sh" else _BLOCK.findall(text)
        for language, block in blocks:
            joined = re.sub(r"\\\n\s*", " ", block)
            for line in joined.splitlines():
                shown = line.removeprefix("$ ") if language == "console" and line.startswith("$ ") else line
                if language not in ("sh", "console") or (language == "console" and shown == line):
                    continue
                if shown.split(" ")[0] in _PROGRAMS:
                    by = "a record" if record or not test else test if language == "sh" else "an example"
                    yield Typed(page, shown.partition("  #")[0].strip(), by)
        bare = _BLOCK.sub("", text)
        indented = re.findall(rf"^    ((?:{'|'.join(_PROGRAMS)}) .*)$", re.sub(r"\\\n\s*", " ", bare), re.MULTILINE)
        yield from (Typed(page, line.partition("  #")[0].strip(), "a record" if record else "an example") for line in indented)
        yield from (Typed(page, line, "in a sentence") for line in _INLINE.findall(bare))


LIST = list(dict.fromkeys(typed()))


def words(line):
    """Return the words of the first command of a line, or None if the line is only a part of one."""
    try:
        found = shlex.split(re.sub(r"\$\w+|…|\.\.\.", "X", line), comments=True)
    except ValueError:
        return None
    ends = [at for at, word in enumerate(found) if word in ("|", "&&", ";", ">", ">>", "2>", "<", "&")]
    return found[: ends[0]] if ends else found


def fault(line):
    """Return what does not exist of a command, "" if all does."""
    program, *rest = words(line) or [""]
    return {"make": fault_of_target, "python": fault_of_file, "lexbench": fault_of_command}.get(program, lambda _: "")(rest)


def fault_of_target(rest):
    """Return the word of a `make` that is no target."""
    targets = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    return "".join(f"no target {word}" for word in rest if "=" not in word and word not in targets and word != "X")


def fault_of_file(rest):
    """Return what does not exist of a program of this repository and its options."""
    file = next((ROOT / word for word in rest if word.endswith(".py")), ROOT)
    if file.parent.name not in ("benchmarks", "tools", "robustness"):
        return ""
    if not file.is_file():
        return f"no file {file.name}"
    text = file.read_text(encoding="utf-8")
    options = [word.partition("=")[0] for word in rest if word.startswith("--")]
    return "".join(f"no option {word} of {file.name}" for word in options if f'"{word}"' not in text)


def fault_of_command(rest):
    """Return what does not exist of a command of lexbench and its options."""
    context, name = click.Context(app, info_name="lexbench"), ""
    command: click.Command = app
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        inner = command.get_command(context, rest[0])
        if inner is None:  # `run` and `audit` say what was meant; NAME stands for any
            return "" if name in ("run", "audit") or re.fullmatch("[A-Z|]+|X", rest[0]) else f"no command {rest[0]}"
        command, name, rest = inner, rest[0], rest[1:]
    known = {option for one in command.get_params(context) for option in (*one.opts, *one.secondary_opts)}
    options = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return "".join(f"no option {word} of {command.name}" for word in options if word not in known)


@pytest.mark.parametrize("page", sorted({one.page for one in LIST}))
def test_what_is_not_run_exists(page):
    """Subcommands, options, files and targets of each command in examples, records and sentences exist."""
    assert [(one.line, wrong) for one in LIST if one.page == page and not one.is_run and (wrong := fault(one.line))] == []


def test_faults_are_found():
    """Of a command, a subcommand, an option, a benchmark, its option or a target that does not exist."""
    good = (
        "lexbench run suite pydoc -r bm25 --results X | head",
        "make test PYTHON=x",
        "python benchmarks/bm25.py --clock processor",
    )
    bad = (
        "lexbench rum",
        "lexbench run suite x --fast",
        "lexbench judge pages x",
        "make tests",
        "python benchmarks/bm26.py",
        "python benchmarks/bm25.py --fast",
    )
    assert not any(map(fault, good))
    assert all(map(fault, bad))


def test_targets_name_files_that_exist():
    """What `make` would run for any target has no test or tool that is gone, e.g. because it was renamed."""
    (targets,) = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    others = [target for target in targets.split() if target != "demo"]  # which would measure this processor
    printed = subprocess.run(["make", "-n", *others], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"\b(?:tests|tools|benchmarks)/[\w/]+\.py\b", printed))

    assert "tests/test_trec.py" in named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_most_commands_of_blocks_are_run():
    """The list has every page, and each command is run or has a reason."""
    assert {one.by for one in LIST} == {"test_docs", "test_readme", *REASONS}
    assert sum(one.is_run for one in LIST) > 100


if __name__ == "__main__":
    for one in LIST:
        click.echo(
            f"{one.page}: {one.line}\n    {'run by ' + one.by if one.is_run else f'not run, {one.by}: {REASONS[one.by]}'}"
        )
