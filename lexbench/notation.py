"""One notation for parts, in TOML, on the command line, in tables and in file names.

    bm25(k1=0.9)
    lexmae(model="ckpt")|top_k(64)|quantize(100)@seismic(query_cut=10)
    ensemble(bm25, lexmae(model="ckpt")@impact, weight=0.3)

Reading and writing are inverse: `parse(str(part)) == part`. The grammar is a corner of Python's own, so Python's parser
reads it; nothing is evaluated.
"""

import ast
import json
from dataclasses import dataclass
from typing import TypeAlias

from lexbench.errors import NotationError

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | Part | None"


@dataclass(frozen=True)
class Call:
    """A name with its settings, as `top_k(64)`."""

    name: str
    args: tuple[Value, ...] = ()
    kwargs: tuple[tuple[str, Value], ...] = ()  # sorted by name

    def __str__(self) -> str:
        """Write the call so that it reads back to an equal one."""
        written = [write_value(value) for value in self.args]
        written += [f"{name}={write_value(value)}" for name, value in self.kwargs]
        return f"{self.name}({', '.join(written)})" if written else self.name


@dataclass(frozen=True)
class Part:
    """A system or a part of one: a head, the transforms of its vectors, and the engine that searches them."""

    head: Call
    transforms: tuple[Call, ...] = ()
    engine: Call | None = None

    def __str__(self) -> str:
        """Write the part so that it reads back to an equal one."""
        text = "|".join(str(call) for call in (self.head, *self.transforms))
        return f"{text}@{self.engine}" if self.engine else text


def write_value(value: Value) -> str:
    """Write one setting: strings in double quotes, the rest as Python writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return f"[{', '.join(write_value(item) for item in value)}]"
    return str(value)


def parse(text: str) -> Part:
    """Read a part; NotationError says where it stops making sense."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        column = f" at column {error.offset}" if isinstance(error, SyntaxError) else ""
        message = f"{text!r} does not read{column}; write it like bm25(k1=0.9) or encoder|top_k(64)@engine"
        raise NotationError(message) from None
    return _part(tree, text)


def _part(node: ast.expr, text: str) -> Part:
    stages = _stages(node)
    engine = None
    if isinstance(stages[-1], ast.BinOp):  # `a|b@c`: Python binds @ tighter, so it stands in the last stage
        stages[-1], engine = stages[-1].left, _call(stages[-1].right, text)
    head, *transforms = (_call(stage, text) for stage in stages)
    return Part(head, tuple(transforms), engine)


def _stages(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_stages(node.left), node.right]
    return [node]


def _call(node: ast.expr, text: str) -> Call:
    if isinstance(node, ast.Name):
        return Call(node.id)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise NotationError(f"{ast.unparse(node)!r} in {text!r} is not a name with settings; write it like bm25(k1=0.9)")
    named = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in named:
            raise NotationError(f"{ast.unparse(node)!r}: a setting is named twice, or not at all")
        named[keyword.arg] = _value(keyword.value, text)
    return Call(node.func.id, tuple(_value(arg, text) for arg in node.args), tuple(sorted(named.items())))


_WORDS = {"true": True, "false": False, "none": None}  # as TOML and JSON users write them


def _value(node: ast.expr, text: str) -> Value:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.Call | ast.Name) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.MatMult)):
        return _part(node, text)
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(_value(item, text) for item in node.elts)
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = ...
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotationError(f"{ast.unparse(node)!r} in {text!r} is not a number, a string, a list or a part")
