"""A folder of results, pushed to and pulled from a data set of the Hugging Face hub, a folder, or whatever fsspec reaches.

What travels is what a leaderboard is made of: `results/<suite>/<system>.json`, and its two pages where they are there. Each
file is held to what a leaderboard asks of it, on the way out and on the way in, before anything of it is written.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from lexbench.datasets.source import offline
from lexbench.datasets.sources.hf import PREFIX, HubName
from lexbench.errors import CannotStart, CommandError, InvalidFile, LexbenchError, MissingData, echoed, require
from lexbench.progress import Silent
from lexbench.report.leaderboard import HTML, MARKDOWN
from lexbench.report.leaderboard.acceptance import accepted
from lexbench.results import files_of
from lexbench.storage import atomic
from lexbench.storage.remote import Place

_PATTERN = "results/*/*.json"
_WHAT = "results push and pull"


def push(folder: Path, place: str, *, private: bool = False) -> list[str]:
    """Copy the results of *folder* to *place*; return the names of what was copied, pages last.

    *place* is "hf:ORG/NAME" or "hf:ORG/NAME@BRANCH", a data set of the hub that is made if it is not there, for its owners
    alone where *private*; or a folder, or a URL of fsspec. CannotStart where there are no results or the place cannot be
    written to, InvalidFile for a file that no leaderboard would show.
    """
    paths = files_of(folder)
    if not paths:
        raise CannotStart(f"{folder} has no results; lexbench run suite NAME --results {folder} puts some there")
    for path in paths:
        accepted(path)
    names = [path.relative_to(folder).as_posix() for path in paths]
    names += [name for name in (MARKDOWN, HTML) if (folder / name).is_file()]
    if place.startswith(PREFIX):
        _upload(folder, _hub_name(place), names, private=private)
        return names
    if private:
        raise CommandError(f"--private is for data sets of the hub, as hf:ORG/NAME; who reads {place} is its owner's business")
    there = Place(place, _WHAT)
    for name in names:
        there.write(name, folder / name, Silent())
    return names


def pull(place: str, folder: Path) -> list[str]:
    """Copy the results at *place*, as `push` names it, into *folder*; return the names of those that were not there yet.

    CannotStart where there are none, InvalidFile for one that no leaderboard would show, CommandError where *folder* has other
    results of a system: then nothing is written.
    """
    with TemporaryDirectory() as drafts:
        fetched = Path(drafts)
        if place.startswith(PREFIX):
            source = _download(_hub_name(place))
            contents = ((path.relative_to(source).as_posix(), path.read_bytes) for path in files_of(source))
        else:
            there = Place(place, _WHAT)
            contents = ((name, _reader(there, name)) for name in there.names(_PATTERN))
        fresh = [name for name, read in contents if _is_fresh(name, read(), fetched, folder)]
        if not any(fetched.rglob("*.json")):
            raise CannotStart(f"{place} has no results: no file matches {_PATTERN}")
        for name in fresh:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            atomic.write_bytes(folder / name, (fetched / name).read_bytes())
    return fresh


def _is_fresh(name: str, content: bytes, fetched: Path, folder: Path) -> bool:
    """Check one file of results and keep it in *fetched*; return whether *folder* lacks it."""
    if ".." in PurePosixPath(name).parts:  # a store of objects lets names be anything
        raise InvalidFile(f"{echoed(name)} would lie outside the folder of results")
    draft = fetched / PurePosixPath(name)
    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.write_bytes(content)
    accepted(draft)
    if not (folder / name).is_file():
        return True
    if (folder / name).read_bytes() != content:
        raise CommandError(
            f"{folder / name} is there already, with other results; pull into a folder of its own, and show both: "
            f"lexbench leaderboard --results {folder} --merge NAME=FOLDER"
        )
    return False


def _reader(there: Place, name: str) -> Callable[[], bytes]:
    def read() -> bytes:
        content = there.read(name)
        if content is None:
            raise CannotStart(f"{there.url}/{name} went away while it was read; type the same line again")
        return content

    return read


def _hub_name(place: str) -> HubName:
    try:
        named = HubName.read(place)
    except CommandError:  # which speaks of splits, too
        named = None
    if named is None or named.split:
        why = "results have no splits" if named else "it names no data set of the hub"
        raise CommandError(f"{place}: {why}; write hf:ORG/NAME or hf:ORG/NAME@REVISION")
    require(_WHAT, ("huggingface_hub",), "neural")
    return named


def _upload(folder: Path, named: HubName, names: list[str], *, private: bool) -> None:
    """Put the files *names* of *folder* into a data set of the hub as one commit."""
    from huggingface_hub import HfApi

    if offline():
        raise CannotStart(f"{PREFIX}{named.repository}: LEXBENCH_OFFLINE forbids to push")
    with _said(named):
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


def _download(named: HubName) -> Path:
    """Return a folder with the results of a data set of the hub."""
    from huggingface_hub import snapshot_download

    with _said(named):
        return Path(
            snapshot_download(
                named.repository,
                repo_type="dataset",
                revision=named.revision,
                allow_patterns=[_PATTERN],
                local_files_only=offline(),
            )
        )


@contextmanager
def _said(named: HubName) -> Iterator[None]:
    """Let whatever the hub's client raises be one line that says what to do."""
    from huggingface_hub import errors

    where = f"{PREFIX}{named.repository}" + (f"@{named.revision}" if named.revision else "")
    try:
        yield
    except LexbenchError:
        raise
    except errors.GatedRepoError as error:
        page = f"https://huggingface.co/datasets/{named.repository}"
        raise MissingData(f"{where}: accept its terms at {page}, then type: hf auth login") from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
        raise MissingData(
            f"{where}: the Hugging Face hub shows you no such data set or revision; type: hf auth login"
        ) from error
    except Exception as error:  # whatever the hub's client, its transport and the disk raise
        reason = f"{type(error).__name__}: {error.__cause__ or error}".partition("\n")[0][:150]
        raise CannotStart(f"{where}: the hub did not take or give it ({reason}); to push, type first: hf auth login") from error
