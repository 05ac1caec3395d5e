"""A Sphinx extension that lists plug-ins, commands and fields from the source code.

- The directive `lexbench-plugins` lists the built-in plug-ins of one kind; `lexbench-commands` lists the commands.
- Each class lists its fields as they stand in the source, with the comments beside them.
- An indented block of a docstring becomes a code listing.
"""

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from textwrap import dedent
from types import ModuleType
from typing import Any

import click
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lexbench import registry
from lexbench.cli import app

_KINDS = {"runtime": "*does not affect caching*", "search": "*search-time setting; the index is shared*"}


class Plugins(SphinxDirective):
    """A section for each plug-in, sorted by name: the docstrings of its module and its class, and its settings."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        group = self.arguments[0]
        package = registry.PACKAGES[group]
        own = (name for name in registry.names(group) if registry.origin(group, name) == "lexbench")
        return [self._section(group, name, import_module(f"{package}.{name}")) for name in own]

    def _section(self, group: str, name: str, module: ModuleType) -> nodes.section:
        section = nodes.section("", nodes.title(text=name), ids=[f"{group}-{name}"])
        self.state.nested_parse(StringList(list(_plugin_lines(name, module)), source=module.__name__), 0, section)
        return section


class Commands(SphinxDirective):
    """A section for each command, with its help as the terminal shows it."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        context = click.Context(app, info_name="lexbench", **app.context_settings)
        return [
            nodes.section(
                "",
                nodes.title(text=command.command_path),
                nodes.literal_block(text=command.get_help(), language="text"),
                ids=[command.command_path.replace(" ", "-")],
            )
            for command in _commands(context)
        ]


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Yield *context*, then the contexts of its commands and of their commands."""
    yield context
    if isinstance(group := context.command, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from _commands(click.Context(command, parent=context, info_name=name, terminal_width=88))


def _plugin_lines(name: str, module: ModuleType) -> Iterator[str]:
    """Yield the lines about one plug-in. The registry would ask for its extras, so the module is imported without it."""
    wanted = name.replace("_", "")
    plugin = next(item for key, item in vars(module).items() if key.lower() == wanted and isinstance(item, type))
    for text in (module.__doc__, plugin.__doc__):
        yield from (*_with_listings(inspect.cleandoc(text or "").splitlines()), "")
    if extra := getattr(plugin, "extra", ""):
        yield from (f"Needs `pip install 'lexbench[{extra}]'`.", "")
    yield from (*_fields(plugin, plugin.__mro__), "")


def _with_listings(lines: list[str]) -> list[str]:
    """Return the *lines* of a docstring with `::` before each indented block."""
    marked: list[str] = []
    for line, before in zip(lines, ["", *lines], strict=False):
        if line.startswith("    ") and not before.strip() and not _ends_in_listing(marked):
            marked += ["::", ""]
        marked.append(line)
    return marked


def _ends_in_listing(lines: list[str]) -> bool:
    return next((line for line in reversed(lines) if line.strip()), "").startswith("    ")


def _fields(owner: type, bases: Sequence[type]) -> Iterator[str]:
    """Yield a list item for each field that a class has from *bases*: settings of a dataclass, members of a struct."""
    settings = {item.name: item for item in dataclasses.fields(owner) if item.init} if dataclasses.is_dataclass(owner) else {}
    written = {name: node for base in reversed(bases) for name, node in _annotated(base)}
    for name, (node, comment) in written.items():
        setting = settings.get(name)
        if setting is None and dataclasses.is_dataclass(owner):
            continue  # a class variable
        notes = [comment, *(word for key, word in _KINDS.items() if setting and setting.metadata.get(key))]
        if setting and setting.default is not dataclasses.MISSING:
            node.value = ast.Constant(setting.default)
        yield f"- `{ast.unparse(node)}`" + "".join(f": {note}" for note in ["; ".join(filter(None, notes))] if note)


def _annotated(owner: type) -> Iterator[tuple[str, tuple[ast.AnnAssign, str]]]:
    """Yield the annotated names of a class of lexbench as they stand in its source, with the comments beside and above them."""
    if owner.__module__.partition(".")[0] != "lexbench":
        return
    lines = dedent(inspect.getsource(owner)).splitlines()
    (tree,) = ast.parse("\n".join(lines)).body
    assert isinstance(tree, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
            yield ast.unparse(node.target), (node, _comment(lines, node))


def _comment(lines: list[str], node: ast.AnnAssign) -> str:
    above: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if not line.strip().startswith("#"):
            break
        above.insert(0, line.strip("# "))
    assert node.end_lineno is not None
    beside = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode().partition("#")[2].strip()
    return re.sub(r"([*|_])", r"\\\1", " ".join([*above, beside]).strip())


def _rewrite(_app: Sphinx, what: str, _name: str, item: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = _with_listings(lines)
    if what == "class" and (listed := list(_fields(item, [item]))):
        lines += ["", *listed, ""]


def _skip(_app: Sphinx, _what: str, name: str, item: Any, _skipped: bool, _options: Any) -> bool | None:  # noqa: FBT001 - Sphinx calls it
    """Leave out the fields and the constructors of named tuples, which are listed already."""
    return True if name == "__init__" or (inspect.getdoc(item) or "").startswith("Alias for field") else None


def setup(site: Sphinx) -> dict[str, Any]:
    """Register the directives and the hooks."""
    site.add_directive("lexbench-commands", Commands)
    site.add_directive("lexbench-plugins", Plugins)
    site.connect("autodoc-process-docstring", _rewrite)
    site.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
