"""Models that a server runs: the base class of plug-ins that send requests to one, with retries.

What a server runs cannot be pinned, and may change between two requests. So its description of itself (`/info` of Text
Embeddings Inference, `/v1/models` of other servers) is read once per plug-in and process, and its digest is in the key of
everything made with it. If it describes nothing, nothing is shared with another process. The key of an account is read from an
environment variable and sent as a bearer token; it is in no key, result, error or log. Loads no torch.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from lexbench.errors import CannotStart, CommandError, LexbenchError, shortened
from lexbench.outside.http_client import MISSING, HttpClient, checked_address, key_header
from lexbench.plugins import Model
from lexbench.registry import runtime
from lexbench.storage.artifact_folder import SESSION

S = TypeVar("S")
T = TypeVar("T")

_SESSION = uuid4().hex
_SHOWN = 120  # characters of a wrong answer


@dataclass(frozen=True)
class ServedModel(Model):
    """Base class of plug-ins whose model a server at *url* runs.

    *key* names the environment variable with the key of an account, and *header* how it is sent. Requests are sent up to
    *retries* times again if the server is busy or cannot be reached; an answer may take *timeout* seconds.
    """

    url: str = field(metadata={"runtime": True})  # `identity` describes what runs there
    _: KW_ONLY
    key: str = runtime("")
    header: str = runtime("Authorization: Bearer {key}")
    retries: int = runtime(5)
    timeout: float = runtime(60.0)

    remote: ClassVar[bool] = True
    elsewhere: ClassVar[str] = "a server"
    counts: ClassVar[tuple[str, ...]] = ("batch",)  # settings of a subclass that are whole numbers from 1 up
    made: ClassVar[str] = "vectors"  # what the server computes, in notes
    servers: ClassVar[tuple[str, ...]] = ()  # allowed values of the setting `server` of a subclass
    whole_address: ClassVar[bool] = False  # whether no route is added to the address, so that it may have parameters

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        name = type(self).__module__.rpartition(".")[2]
        checked_address(self.url, name)
        if "?" in self.url and not self.whole_address:
            raise CommandError(
                f"{name}: routes are added to the address, so it has no parameters; leave out ?{self.url.partition('?')[2]}"
            )
        if min(getattr(self, count) for count in self.counts) < 1 or self.retries < 0 or self.timeout <= 0:
            raise CommandError(f"{name}: {', '.join(self.counts)} from 1 up, retries from 0 up, timeout above 0")
        if "{key}" not in self.header.partition(":")[2] or not self.header.partition(":")[0].replace("-", "").isalnum():
            raise CommandError(f'{name}(header={self.header!r}): write it like header="X-API-Key: {{key}}"')
        if self.servers and (server := getattr(self, "server", "")) not in self.servers:
            raise CommandError(f"{name}(server={server!r}): there is {', '.join(self.servers)}")

    def identity(self) -> dict[str, Any]:
        """Return the server's description of itself, and its digest."""
        return dict(server_identity(self))

    def notes(self) -> list[str]:
        """Return a note with the server's description of itself."""
        said = self.identity()["said"]
        return [f"a server computed the {self.made}, and its model cannot be pinned; it describes itself as: {said}"]

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the server's answer to *body*, both as JSON. If the server is busy, the request is repeated.

        Raises CannotStart if the server cannot be reached or denies access, LexbenchError for any other answer.
        """
        return self.client.ask("POST", self.route(path), body)

    def route(self, path: str) -> str:
        """Return the *path* that is added to the address, which may end in /v1 like the base_url of OpenAI's clients."""
        return path.removeprefix("/v1") if self.url.rstrip("/").endswith("/v1") else path

    def chat(self, model: str, prompt: str, tokens: int) -> str:
        """Return the answer of a chat *model* to *prompt*, at temperature 0. Raises LexbenchError if there is none."""
        messages = [{"role": "user", "content": prompt}]
        body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": tokens, "seed": 0}
        answer = self.post("/v1/chat/completions", body)
        try:
            said = answer["choices"][0]["message"]["content"]
        except (TypeError, KeyError, IndexError):
            said = None
        if not isinstance(said, str):
            raise self.unexpected("a chat completion", answer)
        return said

    def unexpected(self, expected: str, answer: Any) -> LexbenchError:
        """Return the error for an *answer* that is not what was *expected*; it shows how the answer begins."""
        begin = shortened(json.dumps(answer, ensure_ascii=False), _SHOWN)
        return LexbenchError(f"{self.url}: expected {expected}, but the answer is something else: {begin}")

    @property
    def client(self) -> HttpClient:
        """The connections to the server."""
        return self.client_of(self.url)

    def client_of(self, url: str) -> HttpClient:
        """Return the connections to *url*, e.g. a part of the address."""
        return _client(url, self.key, self.header, self.timeout, self.retries)


@lru_cache  # outside of the object, which travels to other processes
def _client(url: str, key: str, header: str, timeout: float, retries: int) -> HttpClient:
    """Return a client that sends the key in the environment variable *key*."""
    return HttpClient(url, secrets=key_header(key, header), variable=key, timeout=timeout, retries=retries)


def in_batches(texts: Sequence[S], batch: int, parallel: int, request: Callable[[list[S]], T]) -> list[T]:
    """Return the answers of *request* to *texts* in batches of *batch*, in order; *parallel* requests run at a time."""
    batches = [list(texts[at : at + batch]) for at in range(0, len(texts), batch)]
    with ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(request, batches))


def in_order(entries: Any, count: int, name: str) -> list[Any]:
    """Return the *name* of each entry, in the order of "index".

    Raises ValueError, TypeError or KeyError unless each index from 0 to *count* - 1 is there once.
    """
    ordered = sorted(((entry["index"], entry[name]) for entry in entries), key=lambda pair: pair[0])
    if [index for index, _ in ordered] != list(range(count)):
        raise ValueError
    return [value for _, value in ordered]


def _described(served: ServedModel, path: str) -> dict[str, Any] | None:
    """Return the description at *path*; None if there is none, e.g. a page of HTML for every path, or an error."""
    try:
        said = served.client.ask("GET", served.route(path), accept=MISSING)
    except CannotStart:  # nothing works
        raise
    except LexbenchError:
        return None
    return said if isinstance(said, dict) and "error" not in said else None


@lru_cache  # once per process
def server_identity(served: ServedModel) -> Mapping[str, str]:
    """Return how the server describes itself ("said"), and the digest of that.

    For OpenAI-like servers it is their entry for the model. Without a description no other process can use what it makes.
    """
    model = getattr(served, "model", "")
    said = _described(served, "/info")
    if said is None:
        entries = (_described(served, "/v1/models") or {}).get("data") or []
        said = next((entry for entry in entries if isinstance(entry, dict) and entry.get("id") == model), None)
    if said is None:
        return {"said": "nothing", SESSION: hashlib.sha256(f"{_SESSION} {served.url} {model}".encode()).hexdigest()}
    lasting = {name: value for name, value in said.items() if name not in ("created", "permission")}  # they change at its start
    text = json.dumps(lasting, sort_keys=True)
    return {"said": shortened(text, 300), "digest": hashlib.sha256(text.encode()).hexdigest()}
