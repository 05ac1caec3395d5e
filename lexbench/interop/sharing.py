"""Copies results to and from other places, for `lexbench store`.

Files are checked before they are sent and after they are received: they must be what a leaderboard accepts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from shlex import quote
from tempfile import TemporaryDirectory

from lexbench.datasets.sources import offline
from lexbench.datasets.sources.hf import PREFIX, HubName
from lexbench.errors import CannotStart, CommandError, InvalidFile, LexbenchError, MissingData, echoed, require
from lexbench.report.leaderboard import HTML, MARKDOWN
from lexbench.results import files_of
from lexbench.runner.soundness import read_file
from lexbench.storage import atomic

_RESULTS = "results/*/*.json"
_COMMAND = "store push and pull"


def _check_inside(name: str, message: str) -> None:
    """Raise InvalidFile if a name leads out of its folder; an object store lets names be anything."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise InvalidFile(message)


# ---- results ---------------------------------------------------------------------------------------------------------------


def push_results(folder: Path, place: str, *, private: bool = False) -> list[str]:
    """Copy the results of *folder*, and its pages if it has any, to *place*; return the names of the files, pages last.

    *place* is "hf:ORG/NAME" or "hf:ORG/NAME@BRANCH", a dataset of the hub, or a folder or URL. A missing dataset is created;
    with *private*, only its owners can read it. Raises CannotStart if there are no results or *place* cannot be written to,
    and InvalidFile for a file that no leaderboard accepts.
    """
    paths = files_of(folder)
    if not paths:
        raise CannotStart(f"{folder} has no results; lexbench run suite NAME --results {quote(str(folder))} puts some there")
    for path in paths:
        read_file(path)
    names = [path.relative_to(folder).as_posix() for path in paths]
    names += [name for name in (MARKDOWN, HTML) if (folder / name).is_file()]
    if place.startswith(PREFIX):
        _upload(folder, _hub_name(place), names, private=private)
        return names
    if private:
        raise CommandError(f"--private is for datasets of the hub, e.g. hf:ORG/NAME; the owner of {place} decides who reads it")
    there = SharedFolder(place)
    for name in names:
        there.write(name, folder / name)
    return names


def pull_results(place: str, folder: Path) -> list[str]:
    """Copy the results at *place*, see `push_results`, into *folder*; return the names of those that were not there yet.

    Nothing is written unless all files are good. Raises CannotStart if there are none, InvalidFile for one that no leaderboard
    accepts, and CommandError if *folder* has other results of a system.
    """
    with TemporaryDirectory() as drafts:
        if place.startswith(PREFIX):
            contents = _download(_hub_name(place))
        else:
            there = SharedFolder(place)
            seen = [name for name in there.names(_RESULTS) if not PurePosixPath(name).name.startswith(".")]  # e.g. the Finder's
            contents = ((name, content) for name in seen if (content := there.read(name)) is not None)
        fresh = [name for name, content in contents if _is_fresh(name, content, Path(drafts), folder)]
        if not any(Path(drafts).rglob("*.json")):
            raise CannotStart(f"{place} has no results: no file matches {_RESULTS}")
        for name in fresh:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            atomic.write_bytes(folder / name, (Path(drafts) / name).read_bytes())
    return fresh


def _is_fresh(name: str, content: bytes, drafts: Path, folder: Path) -> bool:
    """Check a file of results and keep it in *drafts*; return whether *folder* lacks it."""
    _check_inside(name, f"{echoed(name)} would lie outside the folder of results")
    draft = drafts / name
    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.write_bytes(content)
    read_file(draft)
    if not (folder / name).is_file():
        return True
    if (folder / name).read_bytes() != content:
        raise CommandError(
            f"{folder / name} is there already, with other results; pull into another folder, and show both: "
            f"lexbench leaderboard --results {quote(str(folder))} --merge NAME=FOLDER"
        )
    return False


# ---- places ----------------------------------------------------------------------------------------------------------------


@contextmanager
def _one_line(where: str) -> Iterator[None]:
    """Turn any error of a client (the hub's or one of fsspec) into one line: each client has its own types of errors."""
    try:
        yield
    except LexbenchError:
        raise
    except Exception as error:
        kind, reason = type(error).__name__, " ".join(str(error.__cause__ or error).split())[:200]
        if kind == "GatedRepoError":
            page = f"https://huggingface.co/datasets/{where.removeprefix(PREFIX).partition('@')[0]}"
            raise MissingData(f"{where}: accept its terms at {page}, then type: hf auth login") from error
        if kind in ("RepositoryNotFoundError", "RevisionNotFoundError", "HFValidationError"):
            raise MissingData(f"{where}: the hub shows you no such dataset or revision; type: hf auth login") from error
        login = "; to push, first type: hf auth login" if where.startswith(PREFIX) else ""
        raise CannotStart(f"{where}: {kind}: {reason}{login}") from error


class SharedFolder:
    """A folder somewhere, by its URL or path. Every error of its client becomes CannotStart."""

    def __init__(self, url: str) -> None:
        """Connect to *url*."""
        require(_COMMAND, ("fsspec",), "remote")
        from fsspec.core import url_to_fs
        from fsspec.implementations.dirfs import DirFileSystem

        self.url = url.rstrip("/")
        with _one_line(self.url):
            files, root = url_to_fs(self.url)
            self._files = DirFileSystem(root, files)

    def names(self, pattern: str) -> list[str]:
        """Return the files that match *pattern*, e.g. "results/*/*.json", sorted."""
        with _one_line(self.url):
            self._files.invalidate_cache()
            return sorted(self._files.glob(pattern))

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if there is no such file."""
        with _one_line(self.url):
            try:
                content: bytes = self._files.cat_file(name)
            except FileNotFoundError:
                return None
        return content

    def write(self, name: str, source: Path) -> None:
        """Copy the file *source* there."""
        with _one_line(self.url):
            self._files.makedirs(str(PurePosixPath(name).parent), exist_ok=True)
            self._files.pipe_file(name, source.read_bytes())


def _hub_name(place: str) -> HubName:
    """Return the dataset of the hub that *place* names."""
    try:
        named = HubName.read(place)
    except CommandError:  # its message speaks of splits, which results do not have
        named = None
    if named is None or named.split:
        why = "results have no splits" if named else "it names no dataset of the hub"
        raise CommandError(f"{place}: {why}; write hf:ORG/NAME or hf:ORG/NAME@REVISION")
    require(_COMMAND, ("huggingface_hub",), "neural")
    return named


def _upload(folder: Path, named: HubName, names: list[str], *, private: bool) -> None:
    """Put the files *names* of *folder* into a dataset of the hub, in one commit."""
    from huggingface_hub import HfApi

    if offline():
        raise CannotStart(f"{PREFIX}{named.repository}: LEXBENCH_OFFLINE forbids to push")
    with _one_line(_shown(named)):
        hub = HfApi()
        hub.create_repo(named.repository, repo_type="dataset", private=private, exist_ok=True)
        hub.upload_folder(
            repo_id=named.repository,
            repo_type="dataset",
            folder_path=folder,
            allow_patterns=names,
            revision=named.revision,
            commit_message=f"Results of lexbench: {sum(name.endswith('.json') for name in names)} files",
        )


def _download(named: HubName) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file of results in a dataset of the hub."""
    from huggingface_hub import snapshot_download

    with _one_line(_shown(named)):
        folder = snapshot_download(
            named.repository,
            repo_type="dataset",
            revision=named.revision,
            allow_patterns=[_RESULTS],
            local_files_only=offline(),
        )
    for path in files_of(Path(folder)):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


def _shown(named: HubName) -> str:
    return f"{PREFIX}{named.repository}" + (f"@{named.revision}" if named.revision else "")
