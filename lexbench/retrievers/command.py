"""A program of the user, in any language, that answers queries on its standard input.

It gets one line of JSON per query, `{"qid": "q1", "text": "red fox", "k": 10}`, and writes one line for each, in that order:
`{"qid": "q1", "docs": [["d7", 1.5], ["d2", 0.5]]}`. It must flush its output after each line, and end when its input ends.
"""

import shlex
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from shutil import which
from typing import Any, ClassVar

from lexbench.errors import CommandError, echoed
from lexbench.outside.foreign import Ask, ForeignRetriever
from lexbench.outside.programs import Program
from lexbench.registry import runtime
from lexbench.storage.reading import file_digest


@dataclass(frozen=True)
class Command(ForeignRetriever):
    """The *program* with its arguments, e.g. "./my-search --index idx", started without a shell in the current folder.

    An answer may take *timeout* seconds; the first one includes the start. Name a *revision* to let later processes reuse its
    runs; without one they ask the program again, because its index may have changed.
    """

    program: str
    _: KW_ONLY
    revision: str = ""
    timeout: float = runtime(60.0)

    elsewhere: ClassVar[str] = "a program"

    def __post_init__(self) -> None:
        """Raise CommandError if there is no such program."""
        if self.timeout <= 0:
            raise CommandError(f"{self.called}: the timeout is a number of seconds above 0")
        try:
            words = shlex.split(self.program)
        except ValueError as error:
            raise CommandError(f"{self.called}: {error}") from None
        if not words or not which(words[0]):
            name = words[0] if words else ""
            raise CommandError(f"{self.called}: there is no program {name!r}; give its path, and make the file executable")

    @property
    def called(self) -> str:
        """The expression without its other settings."""
        return f'command("{self.program}")'

    def identity(self) -> Mapping[str, Any]:
        """Return the digest of each argument that is a file, e.g. of the program itself."""
        first, *others = shlex.split(self.program)
        files = [Path(which(first) or first), *(Path(word) for word in others)]
        return {**super().identity(), "files": [file_digest(file) for file in files if file.is_file()]}

    def asker(self) -> Ask:
        """Start the program; it is stopped when its function is no longer used."""
        program = Program(self.called, shlex.split(self.program), self.timeout, " else give more, e.g. timeout=600")
        return lambda queries, k: dict(_answer(program, query, text, k) for query, text in queries.items())


def _answer(program: Program, query: str, text: str, k: int) -> tuple[str, Any]:
    """Return the query and its documents. Raises LexbenchError if the program answers another query."""
    form, about = '{"qid": …, "docs": [[id, score], …]}', f"query {echoed(query)}"
    question = {"qid": query, "text": text, "k": k}
    found, documents = program.ask(question, form, lambda answer: (str(answer["qid"]), answer["docs"]), about)
    if found != query:
        raise program.error(about, f"it answered query {echoed(found)}; it must answer in the order of the queries")
    return found, documents
