"""Where data may be on this machine, and whether it may be fetched.

    LEXBENCH_DATA       folders of the user's, separated as in PATH; each may have <dataset id>/ and <corpus id>/
    IR_DATASETS_HOME    the folder of ir_datasets, default ~/.ir_datasets
    LEXBENCH_OFFLINE    1: never fetch anything

They are read when they are needed, not at import.
"""

import os
from functools import cache
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from lexbench.datasets.contract import Contract

_PATIENCE = 5.0  # seconds until a server that does not answer is given up
_GRACE = 1.0  # seconds more for it to say so itself


def folders_of(contract: Contract) -> list[Path]:
    """Return where the user may have put the dataset, existing or not: folders of the dataset, then of its corpus."""
    roots = [Path(root).expanduser() for root in os.environ.get("LEXBENCH_DATA", "").split(os.pathsep) if root]
    names = dict.fromkeys((contract.id, contract.corpus))
    return [root / name for name in names for root in roots]


def ir_datasets_home() -> Path:
    """Return the folder of ir_datasets, without making it."""
    return Path(os.environ.get("IR_DATASETS_HOME") or Path.home() / ".ir_datasets")


def offline() -> bool:
    """Whether the user forbids to fetch anything."""
    return os.environ.get("LEXBENCH_OFFLINE", "") not in ("", "0")


def why_unreachable(url: str) -> str:
    """Return why the server of *url* cannot be had, '' if it can. Each server is asked once a process."""
    parts = urlsplit(url)
    return _why_unreachable(f"{parts.scheme}://{parts.netloc}/")


@cache
def _why_unreachable(server: str) -> str:
    """Ask in a thread: neither looking up a name nor a proxy keeps to a time-out."""
    reasons = [f"{server} did not answer in {_PATIENCE:.0f} s"]
    thread = Thread(target=lambda: reasons.append(_ask(server)), daemon=True)
    thread.start()
    thread.join(_PATIENCE + _GRACE)
    return reasons[-1]


def _ask(server: str) -> str:
    import http.client
    import urllib.error
    import urllib.request

    request = urllib.request.Request(server, method="HEAD")  # noqa: S310 - the address is a contract's
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE):  # noqa: S310
            return ""
    except (urllib.error.HTTPError, http.client.HTTPException):
        return ""  # it answers, if not to this
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"{urlsplit(server).hostname}: {getattr(reason, 'strerror', None) or reason}"
