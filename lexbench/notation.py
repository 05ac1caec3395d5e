"""The notation of systems, on the command line, in TOML, in tables and in file names.

    bm25(k1=0.9)
    lexmae(model="ckpt")|top_k(64)|quantize(100)@seismic(query_cut=10)
    ensemble(bm25, lexmae(model="ckpt")@impact, weights=[1, 0.3])

Reading and writing are inverse: `parse(str(expression)) == expression`. The grammar is a part of Python's own, so Python's
parser reads it; nothing is evaluated. Texts that are longer or nested deeper than any system are refused before, because
Python's parser needs stack for each level.
"""

import ast
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise, zip_longest
from os.path import expanduser
from shlex import quote
from typing import TypeAlias

from lexbench.errors import NotationError, echoed, with_meaning

_LONGEST = 10_000  # characters
_OPERATORS = 200  # outside strings; each is a level of Python's syntax tree, like each bracket
_BRACKETS = 50  # inside each other
_LARGEST = 2**63  # whole numbers are below it, so that arrays and files can hold them
_LONGEST_NAME = 100  # characters of a user's name for a system
PYTHON_OBJECT = re.compile(r"[A-Za-z_][\w.]*(?<!\.py):[A-Za-z_][\w.]*")  # module:function
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)
_PATH = re.compile(r"(?<=[=(,\[])\s*([^\s\"'=(),\[\]|]*/[^\"'=(),\[\]|]*)")  # an unquoted path as a value
_OPERATOR = re.compile(r"[|@+*/%^&~<>!-]|\.(?!\d)|\b(?:and|await|for|if|in|is|lambda|not|or|yield)\b")

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | Expression | None"


@dataclass(frozen=True)
class Call:
    """A name with its settings, e.g. `top_k(64)`."""

    name: str
    args: tuple[Value, ...] = ()
    kwargs: tuple[tuple[str, Value], ...] = ()  # sorted by name

    def __str__(self) -> str:
        """Write the call so that it reads back to an equal one."""
        written = [write_value(value) for value in self.args]
        written += [f"{name}={write_value(value)}" for name, value in self.kwargs]
        return f"{self.name}({', '.join(written)})" if written else self.name


@dataclass(frozen=True)
class Expression:
    """A system, a member of one, or a plug-in: a head, the transforms of its vectors, and the engine that searches them."""

    head: Call
    transforms: tuple[Call, ...] = ()
    engine: Call | None = None

    def __str__(self) -> str:
        """Write the expression so that it reads back to an equal one."""
        text = "|".join(str(call) for call in (self.head, *self.transforms))
        return f"{text}@{self.engine}" if self.engine else text


def write_value(value: Value) -> str:
    """Write one setting: strings in double quotes, the rest as Python writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return f"[{', '.join(write_value(item) for item in value)}]"
    return str(value)


def split_name(text: str) -> tuple[str, str]:
    """Return the name and the expression of "name = EXPRESSION"; the name is "" if there is none.

    A name with brackets, quotes or a "=" needs spaces around the "=" that ends it, e.g. 'BM25 (b=.4) = bm25(b=0.4)'. Raises
    NotationError for a name that tables cannot show: see `checked_name`.
    """
    for sign in re.finditer(" = ", text):
        name, expression = text[: sign.start()], text[sign.end() :]
        # Inside a setting, e.g. bm25(k1 = 0.9), the rest closes a bracket or a string, or the name opens a call.
        if _is_balanced(expression) and not re.search(r"^\s*\w+\([^()]*$", name):
            return checked_name(name), expression.strip()
    name, equals, expression = text.partition("=")
    if not equals or any(mark in name for mark in "(\"'["):
        return "", text
    return checked_name(name), expression.strip()


def checked_name(name: str) -> str:
    """Return a user's name for a system, with single spaces. Raises NotationError if it is empty, too long or not printable."""
    written = " ".join(name.strip().split(" "))
    if not 0 < len(written) <= _LONGEST_NAME or not written.isprintable():
        most = f"1 to {_LONGEST_NAME} printable characters"
        raise NotationError(f"{echoed(name)} is no name for a system; write {most}, e.g. 'tuned = bm25(k1=0.9)'")
    return written


def _is_balanced(text: str) -> bool:
    """Whether every bracket and string in *text* is closed in it."""
    bare = _STRING.sub("", text)
    depths = list(_opened(bare))
    return not (set(bare) & set("\"'")) and min(depths, default=0) >= 0 and depths[-1:] in ([], [0])


def split_list(text: str) -> list[str]:
    """Return the expressions of a list with commas, e.g. "a, b(k1=1)@c"; commas in brackets and strings do not separate."""
    bare = _STRING.sub(lambda string: "_" * len(string[0]), text)
    commas = [at for at, opened in enumerate(_opened(bare)) if bare[at] == "," and not opened]
    return [text[start + 1 : stop].strip() for start, stop in pairwise([-1, *commas, len(text)])]


def parse(text: str) -> Expression:
    """Read an expression; paths in it need no quotes. Raises NotationError with the place of the mistake."""
    text = _with_quoted_paths(text)
    try:
        tree = read_expression(text)
    except (SyntaxError, ValueError) as error:
        if PYTHON_OBJECT.fullmatch(text):
            raise NotationError(f"{echoed(text)} names a Python object: only lexbench run and gate take it") from None
        place = f" at column {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        place += f" ({error.msg})" if isinstance(error, SyntaxError) and "never closed" in error.msg else ""
        message = f"{echoed(text)} is no valid expression{place}; write it like bm25(k1=0.9) or encoder|top_k(64)@engine"
        raise NotationError(message) from None
    return _expression(tree, text)


def _with_quoted_paths(text: str) -> str:
    """Return an expression with quotes around paths: values outside strings that have a slash."""
    strings = [*_STRING.finditer(text)]
    outside = [text[start:stop] for start, stop in pairwise([0, *(at for one in strings for at in one.span()), len(text)])]
    # The shell expands no ~ inside an expression. `expanduser` of os.path leaves all other paths and URLs unchanged.
    quoted = (_PATH.sub(lambda path: write_value(expanduser(path[1].strip())), part) for part in outside[::2])  # noqa: PTH111
    return "".join(chain.from_iterable(zip_longest(quoted, (one[0] for one in strings), fillvalue="")))


def read_expression(text: str) -> ast.expr:
    """Return the syntax tree of *text*, read by Python's parser.

    Raises NotationError if it is too long or nested too deep, SyntaxError or ValueError if it is no expression.
    """
    if len(text) > _LONGEST:
        raise NotationError(f"{echoed(text)} has {len(text):,} characters; the longest expression has {_LONGEST:,}")
    bare = _STRING.sub("", text)
    if (operators := len(_OPERATOR.findall(bare))) > _OPERATORS or max(_opened(bare), default=0) > _BRACKETS:
        parts = f"{operators:,} operators" if operators > _OPERATORS else f"more than {_BRACKETS} brackets inside each other"
        raise NotationError(f"{echoed(text)} has {parts}; no system is made of so many parts")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (RecursionError, MemoryError):  # the caller has left too little of the stack
        raise NotationError(f"{echoed(text)} is nested too deep") from None


def _opened(text: str) -> Iterator[int]:
    """Yield how many brackets are open after each character."""
    return accumulate((character in "([{") - (character in ")]}") for character in text)


def _expression(node: ast.expr, text: str) -> Expression:
    stages = _stages(node)
    engine = None
    last = stages[-1]
    if isinstance(last, ast.BinOp) and isinstance(last.op, ast.MatMult):  # `a|b@c`: @ binds tighter, so it is in the last stage
        stages[-1], engine = last.left, _call(last.right, text)
    head, *transforms = (_call(stage, text) for stage in stages)
    return Expression(head, tuple(transforms), engine)


def _stages(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_stages(node.left), node.right]
    return [node]


def _call(node: ast.expr, text: str) -> Call:
    if isinstance(node, ast.Name):
        return Call(node.id)
    if isinstance(node, ast.Tuple) and len(node.elts) > 1:
        several = " ".join(f"-r {quote(str(_expression(item, text)))}" for item in node.elts)
        error = NotationError(f"{echoed(text)} is {len(node.elts)} systems; give each its own -r: {several}")
        raise with_meaning(error, text, several.removeprefix("-r "))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        what = f"{echoed(ast.unparse(node))} in {echoed(text)}"
        raise NotationError(f"{what} is not a name with settings; write it like bm25(k1=0.9)")
    named = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in named:
            raise NotationError(f"{echoed(ast.unparse(node))}: a setting is named twice, or not at all")
        named[keyword.arg] = _value(keyword.value, text)
    return Call(node.func.id, tuple(_value(arg, text) for arg in node.args), tuple(sorted(named.items())))


_WORDS = {"true": True, "false": False, "none": None}  # as TOML and JSON users write them


def _value(node: ast.expr, text: str) -> Value:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.Call | ast.Name) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.MatMult)):
        return _expression(node, text)
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(_value(item, text) for item in node.elts)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        value = ...
    if isinstance(value, int) and abs(value) >= _LARGEST:
        raise NotationError(f"a number of {len(str(abs(value)))} digits in {echoed(text)}: whole numbers are below 2**63")
    if isinstance(value, float) and not math.isfinite(value):
        raise NotationError(f"{echoed(ast.unparse(node))} in {echoed(text)} is too large for a number")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotationError(f"{echoed(ast.unparse(node))} in {echoed(text)} is not a number, a string, a list or a part")
