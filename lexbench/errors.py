"""Errors that users can fix.

    LexbenchError                    1  it ran, and the answer is no
    ├── CommandError                 2  the command line or a file that the user wrote is wrong
    │   ├── NotationError               a retriever, measure or value cannot be parsed
    │   └── InvalidFile                 a TOML, run or qrels file cannot be read
    └── CannotStart                  3  nothing was started
        ├── UnknownName                 no such suite, dataset, retriever, engine, ...
        ├── MissingExtra                a package of an optional extra is not installed
        ├── MissingData                 a dataset is missing and cannot be downloaded
        ├── ContractMismatch            a dataset differs from its contract
        └── NotEnoughDisk

A message is one line: what was wrong, what exists, what to type next. `lexbench.cli` turns the classes into exit codes. Texts
from files and users pass through `visible` before they are shown in messages and tables, and long ones through `shortened`.
"""

import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TypeVar

from lexbench.synonyms import nearest

# On Linux, PyPI has only the build for CUDA, which is over 1 GB.
CPU_BUILD = "without a GPU type before it: pip install torch --index-url https://download.pytorch.org/whl/cpu"
_LISTED = 12  # names in one message; of more names, so many are examples:
_EXAMPLES = 3
_ECHOED = 80  # characters of what was typed, in a message
# Characters that would control a terminal instead of being shown: the controls of ASCII and Latin-1, halves of surrogate pairs,
# ends of lines and paragraphs, marks that change the direction of text, and tags, which no terminal shows.
CONTROLS = (
    *range(32), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF,
    *range(0xD800, 0xE000), *range(0xE0000, 0xE0080),
)  # fmt: skip
_VISIBLE = {code: chr(code).encode("unicode_escape").decode() for code in CONTROLS} | dict.fromkeys(map(ord, "\t\n"), " ")


def visible(text: str) -> str:
    r"""Return *text* in one line that cannot control a terminal: ESC is shown as \x1b, tabs and ends of lines as spaces."""
    return text.translate(_VISIBLE)


def shortened(text: str, most: int) -> str:
    """Return *text*, cut to at most *most* characters; a cut text ends in `…`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def one_line(text: str) -> str:
    """Return *text* with every run of white space as one space."""
    return " ".join(text.split())


def listed(names: Sequence[str], most: int) -> str:
    """Return the first *most* of *names*, separated by commas, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def echoed(text: str) -> str:
    """Return a typed text in quotes, shortened if it is long."""
    return repr(shortened(text, _ECHOED))


class LexbenchError(Exception):
    """It ran, and the answer is no.

    `meant` is a part of what the user typed, and what to type for it; the command line offers the whole command.
    """

    exit_code = 1
    meant: tuple[str, str] | None = None


E = TypeVar("E", bound=LexbenchError)


def with_meaning(error: E, typed: str, meant: str) -> E:
    """Return *error* with what to type in place of the part *typed*."""
    error.meant = (typed, meant)
    return error


class CommandError(LexbenchError):
    """A command line or a file of the user is wrong."""

    exit_code = 2


class NotationError(CommandError):
    """A text is no valid expression."""


class InvalidFile(CommandError):
    """A file cannot be read; the message names the file and the place in it."""


class CannotStart(LexbenchError):
    """Something that the command needs is missing."""

    exit_code = 3


class UnknownName(CannotStart):
    """A name is unknown; the message lists known names, the nearest first."""

    def __init__(self, what: str, name: str, known: Iterable[str], see: str = "", meant: str = "") -> None:
        """Take what the name should be, and the known names; *meant* is the likely one, if the caller knows it."""
        known, self.name = sorted(known), name
        near = [meant] if meant else nearest(name, known)
        if near:
            hint = f"did you mean {' or '.join(map(repr, near))}?"
            self.meant, see = (name, near[0]), ""
        elif not known:
            hint = "there is none yet"
        elif len(known) <= _LISTED or not see:
            hint = f"there is: {', '.join(known)}"
        else:
            hint = f"there are {len(known)}, e.g. {', '.join(known[:_EXAMPLES])}"
        super().__init__(f"no {what} {echoed(name)}; {hint}" + (f"; see: {see}" if see else ""))


class MissingExtra(CannotStart):
    """A package that belongs to an optional extra is not installed."""

    def __init__(self, user: str, package: str, extra: str) -> None:
        super().__init__(
            f"{user} needs the package '{package}', which is not installed; type: {install_advice(extra, [package])}"
        )


def install_advice(extra: str, missing: Iterable[str]) -> str:
    """Return what to type to install the *missing* packages of an extra; for torch on Linux also how to get its small build."""
    hint = f"; {CPU_BUILD}" if "torch" in missing and sys.platform == "linux" else ""
    return f"pip install 'lexbench{f'[{extra}]' if extra else ''}'{hint}"


class MissingData(CannotStart):
    """A dataset is not on this machine and cannot be fetched."""


class ContractMismatch(CannotStart):
    """A dataset differs from its contract; the message names both values."""


class NotEnoughDisk(CannotStart):
    """The estimated size of the artifacts exceeds the free space."""


def require(user: str, modules: Iterable[str], extra: str) -> None:
    """Raise MissingExtra, naming *user* and the extra, for the first of *modules* that cannot be imported.

    Nothing is imported: finding a module is enough, and importing some of them takes seconds.
    """
    for module in modules:
        if find_spec(module) is None:
            raise MissingExtra(user, module, extra)
