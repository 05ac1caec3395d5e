"""Prompts of queries: of the model, of a dataset, or of a single query. For encoders with the setting `query_prompt`."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from lexbench.catalog.dataset_prompts import prompt_for, read_prompts
from lexbench.errors import CommandError, shortened
from lexbench.models.checkpoint import ABOUT, optional_json
from lexbench.models.stated_modules import unused_prompts
from lexbench.plugins import Encoder
from lexbench.registry import optional_at_search, runtime
from lexbench.types import Query

_INSTRUCTION, _QUERY = "{instruction}", "{query}"
_TYPED = "type {side}_prompt={prompt}"  # for `unused_prompts`
_SHOWN = 120  # characters of a prompt in a note


@dataclass(frozen=True, kw_only=True)
class Prompted(Encoder):
    """Settings of encoders that put a prompt before queries.

    *query_prompt* may have "{instruction}", which stands for *instruction*. *prompts* is a TOML file with a table `prompts`,
    from the id of a dataset (or the beginning of ids, e.g. "miracl") to the instruction that replaces *instruction* there, or
    to the whole prompt if `query_prompt` has no "{instruction}". *instructed_query* says how a query is written that has an
    instruction of its own, e.g. "{query} {instruction}"; "" does not read such instructions.
    """

    instruction: str = optional_at_search("")
    instructed_query: str = optional_at_search("")
    prompts: str = runtime("")  # it is in keys as what `for_dataset` takes from it

    query_prompt = ""  # most encoders have settings of these names; prompts are put before texts, and cut with them
    document_prompt = ""

    def check_prompts(self) -> None:
        """Raise CommandError for settings of prompts that do not fit each other."""
        name = type(self).__module__.rpartition(".")[2]
        if self.prompts and all(item.name != "query_prompt" for item in fields(self)):
            raise CommandError(f"{name}(prompts={self.prompts!r}): it puts no prompt before queries; leave it out")
        if (_INSTRUCTION in self.query_prompt) != bool(self.instruction):
            wanted = "an instruction for it" if not self.instruction else "a query_prompt with {instruction} in it"
            raise CommandError(
                f"{name}: query_prompt={self.query_prompt!r} and instruction={self.instruction!r}; give {wanted}, e.g. "
                r'query_prompt="Instruct: {instruction}\nQuery: ", instruction="Retrieve texts that answer the query"'
            )
        if self.instructed_query and not all(part in self.instructed_query for part in (_QUERY, _INSTRUCTION)):
            raise CommandError(
                f"{name}(instructed_query={self.instructed_query!r}): write {_QUERY} and {_INSTRUCTION} in it, e.g. "
                f'"{_QUERY} {_INSTRUCTION}"'
            )

    @property
    def asked_prompt(self) -> str:
        """The prompt of queries, with the instruction."""
        return self.query_prompt.replace(_INSTRUCTION, self.instruction)

    @property
    def reads_instructions(self) -> bool:  # type: ignore[override] # a setting decides it
        """Whether the model is given the instructions of single queries."""
        return bool(self.instructed_query)

    def for_dataset(self, dataset: str) -> Self:
        """Return the encoder with the prompt that the file `prompts` has for *dataset*; itself if it has none."""
        found = prompt_for(dataset, read_prompts(Path(self.prompts).expanduser())) if self.prompts else None
        if found is None:
            return self
        changed: dict[str, Any] = {"instruction" if _INSTRUCTION in self.query_prompt else "query_prompt": found}
        return replace(self, **changed)

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Return the vectors of queries, written with their own instructions as `instructed_query` says."""
        return self.encode_query([self._written(query) for query in queries])

    def _written(self, query: Query) -> str:
        if not (self.instructed_query and query.instruction):
            return query.text
        parts = self.instructed_query.split(_QUERY)  # each in turn, because a query may have "{instruction}" in it
        return query.text.join(part.replace(_INSTRUCTION, query.instruction) for part in parts)

    def unused_prompts(self, folder: Path) -> list[str]:
        """Return notes on prompts of the model's *folder* that are put before no texts, unless others were typed."""
        stated = optional_json(folder / ABOUT)
        typed = {"query": self.asked_prompt, "document": self.document_prompt}
        by_name = dict(stated.get("prompts") or {}) | {side: prompt for side, prompt in typed.items() if prompt}
        return unused_prompts(by_name, stated.get("default_prompt_name"), _TYPED)

    def prompt_notes(self) -> list[str]:
        """Return a note on the prompt of queries if it may depend on the dataset."""
        prompt = self.asked_prompt
        said = f"queries begin with {shortened(repr(prompt), _SHOWN)}" if prompt else "queries have no prompt"
        return [said] if self.prompts else []
