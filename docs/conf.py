"""Sphinx configuration for `make docs`: the theme furo, Markdown by MyST, notebooks executed during the build."""

import logging
import os
import shutil
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
sys.path.insert(0, str(HERE))  # for _listings

# Notebooks run in a kernel with settings and a store of this build. The kernel would warn about unencrypted local ports.
os.environ |= {"IPYTHONDIR": str(BUILD / "ipython"), "LEXBENCH_STORE": str(BUILD / "store")}
settings = BUILD / "ipython" / "profile_default" / "ipython_kernel_config.py"
settings.parent.mkdir(parents=True, exist_ok=True)
settings.write_text('get_config().IPKernelApp.log_level = "ERROR"\n', encoding="utf-8")
logging.getLogger("traitlets").setLevel(logging.ERROR)

project = "lexbench"
author = "The lexbench authors"
copyright = f"2026, {author}"  # noqa: A001 - Sphinx's name for it
version = release = version_of("lexbench")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton", "_listings"]
exclude_patterns = ["README.md"]
smartquotes = False  # a system in a table can be copied and typed
default_role = "code"  # `name` in a docstring is code, as in Markdown

# Types come from the signature, not from the docstring.
autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
autodoc_default_options = {"show-inheritance": True}
nb_render_markdown_format = "myst"
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_cache_path = str(BUILD / "notebooks")
copybutton_exclude = ".linenos, .gp, .go"
suppress_warnings = ["config.cache"]  # that the configuration cannot be pickled; no page depends on it

html_theme = "furo"
html_title = f"lexbench {release}"
html_theme_options = {"sidebar_hide_name": False, "navigation_with_keys": True}


def setup(app: Sphinx) -> None:
    """Copy the leaderboard's page into the site."""
    app.connect("build-finished", _copy_leaderboard)


def _copy_leaderboard(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        shutil.copyfile(HERE.parent / "leaderboard" / "index.html", Path(app.outdir) / "leaderboard.html")
