"""What the pages of reports share: the style, and the policy that lets no page load or run anything else."""

import base64
import hashlib
from html import escape
from importlib.resources import files

from lexbench.errors import visible


def style() -> str:
    """Return the style sheet of all pages."""
    return files(__name__.rpartition(".")[0]).joinpath("page.css").read_text(encoding="utf-8")


def policy(script: str = "") -> str:
    """Return the content security policy of a page with this *script* and the style sheet, by their digests."""
    scripts = f" script-src '{_digest(script)}';" if script else ""
    return f"default-src 'none';{scripts} style-src '{_digest(style())}'; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def text(value: str) -> str:
    """Return *value* as text of a page, never as markup."""
    return escape(visible(value))


def page(title: str, body: str) -> str:
    """Return a page without a script. *body* is markup."""
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{text(title)}</title>
<style>{style()}</style>
</head>
<body>
{body}
</body>
</html>
"""
