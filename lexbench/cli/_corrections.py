"""The command that a user probably means, for a command line with a mistake. It is the end of the error message.

Names are found without regard to case and punctuation, and by the words of other tools: see `lexbench.synonyms`.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

import lexbench
from lexbench.errors import LexbenchError, UnknownName
from lexbench.synonyms import means, nearest, squeezed

# What other tools call options: ours for it, of which a command has one. ARGUMENT is a value without an option before it.
ARGUMENT = ""
_OPTIONS = {
    "--results": "o out output outputdir outputfolder outdir outfile save saveto savedir result folder dir path board",
    "--depth": "k topk top hits limit numhits numresults nresults n retrievaldepth maxdocs",
    "-m": "m metric metrics measures e eval evals evaluation evaluator headline",
    "-r": "r s model models system systems retriever retrievers method ranker searcher engine encoder expression name",
    "-d": "d data dataset datasets dataid datasetid d collection corpus task tasks t benchmark",
    "--split": "subset qrels fold partition",
    "--qrels": "q judgements judgments gold relevance",
    "--time": "timing speed latency benchmark",
    "--version": "V version ver v",
    "--help": "help man usage",
    "--queries": "n num worstqueries",
    "--judge": "llm",
    "--file": "config f gates",
    "--copy": "format form table",
    "--json": "format fmt outputformat",
}
# Options of other tools that are settings of a system here, or not needed: they are left out with their values.
_NOT_OURS = "threads workers batch batchsize device dtype seed index indexpath field fields language stemmer force test"
_EXTRA = {  # the option that a value without one belongs to, by command
    "lexbench run dataset": "-r", "lexbench run suite": "-r", "lexbench score": "-d", "lexbench leaderboard": "--results",
    "lexbench encode dataset": "-r", "lexbench encode suite": "-r", "lexbench explain": "-r", "lexbench verify": "-r",
    "lexbench export": "-r", "lexbench watch": "-r",
}  # fmt: skip
_PLACES = {"lexbench gate init": ("-d", "-r"), "lexbench explain": (ARGUMENT, "-r", "-d")}  # of values without options
_FILLED = {  # a value for what is missing
    "-r": "bm25", "-d": "pydoc/test", "kind": "systems", "folder": "exported", "format_name": "trec", "name": "pydoc",
    "data": "pydoc", "systems": "bm25", "what": "machine", "query": "apple", "path": "leaderboard",
}  # fmt: skip
_QRELS_COLUMNS = 4  # of TREC's judgements
_FILLERS = {
    *["vs", "versus", "and", "with", "against", "on", "data", "dataset", "datasets", "folder", "suit", "collection"]
}  # words that mean nothing


def corrected(error: BaseException, words: Sequence[str]) -> list[str] | None:
    """Return the words that were probably meant in place of *words*, the command line without `lexbench`; None if unknown."""
    typed = list(words)
    found: list[str] | None = None
    match error:
        case UnknownName() if typed[:1] == ["show"] and (kinds := nearest(error.name, lexbench.listed_kinds(), 1)):
            found = ["list", *kinds]
        case LexbenchError() if "--qrels FILE" in str(error):
            found = _with_qrels(typed)
        case UnknownName() if (words := _without_fillers(error.name, typed)) != typed:
            found = words
        case LexbenchError(meant=(before, after)):
            found = _replaced(typed, before, after)
        case click.NoSuchOption():
            found = _other_option(error, typed)
        case click.BadOptionUsage():
            option = error.option_name
            found = [*typed, _FILLED[option]] if option in _FILLED else [word for word in typed if word != option]
        case click.MissingParameter():
            found = _filled(error, typed)
        case click.BadParameter():
            found = _other_choice(error, typed)
        case click.UsageError():
            found = _other_words(error, typed)
    return found if found != typed else None


def _with_qrels(words: list[str]) -> list[str]:
    """Return *words* with `--qrels` before the first file that has judgements, unless they have it."""
    for at, word in enumerate(words if "--qrels" not in words else ()):
        with suppress(OSError, UnicodeDecodeError, ValueError):
            with Path(word).open(encoding="utf-8") as file:
                first = file.readline().split()
            second = first[1].partition(":")[0] if len(first) == _QRELS_COLUMNS else ""
            if second in ("0", "Q0", "judge") or first[:1] == ["query-id"]:  # runs of ColBERT have four columns, too
                return [*words[:at], "--qrels", *words[at:]]
    return words


def _without_fillers(name: str, words: list[str]) -> list[str]:
    """Return *words* without *name* if it is a word between others, with its parts if it is a list, or with --help for it."""
    if name not in words:
        return words
    at = words.index(name)
    if squeezed(name) == "help":
        return [*words[:at], "--help"]
    if squeezed(name) in _FILLERS and words[at + 1 : at + 2] and not words[at + 1].startswith("-"):
        return [*words[:at], *words[at + 1 :]]
    parts = [part.strip() for part in name.split(",")]
    return [*words[:at], *parts, *words[at + 1 :]] if len(parts) > 1 and all(parts) and "(" not in name else words


def _replaced(words: list[str], before: str, after: str) -> list[str]:
    """Return *words* with *before* replaced by *after*, a whole word or a name in one. *after* may have ` -m ` or ` -r `."""
    for at, word in enumerate(words):
        name, equals, value = word.partition(" = ")
        inside = value if equals else word
        if inside.strip() == before:
            parts = re.split(r" (-[mr]) ", after or ".")
            return [*words[:at], f"{name} = {parts[0]}" if equals else parts[0], *parts[1:], *words[at + 1 :]]
    pattern = rf"(?<![\w]){re.escape(before)}(?![\w])"
    for at, word in enumerate(words):
        if re.search(pattern, word):
            return [*words[:at], re.sub(pattern, lambda _found: after, word), *words[at + 1 :]]
    return words


# ---- options ---------------------------------------------------------------------------------------------------------------


def _other_option(error: click.NoSuchOption, words: list[str]) -> list[str]:
    """Return *words* with the option that is meant, or without it if its value needs none."""
    context = error.ctx
    at = next((at for at, word in enumerate(words) if word.partition("=")[0] == error.option_name), None)
    if at is None:  # -k10
        at = next((at for at, word in enumerate(words) if word.startswith(error.option_name)), None)
        if at is None or context is None:
            return words
        words = [*words[:at], error.option_name, words[at][len(error.option_name) :], *words[at + 1 :]]
    assert context is not None
    name, equals, value = words[at].partition("=")
    after = [*([value] if equals else []), *words[at + 1 :]]
    meant = _option_of(context, name)
    lacking = _lacks_argument(context, [*words[:at], *after[not equals :]])
    if meant is None and lacking and squeezed(name) not in _NOT_OURS.split():
        meant = ARGUMENT
    if meant == ARGUMENT and not lacking and not _takes_several(context):
        meant = None
    if meant and any(one.is_flag for one in _options(context) if meant in one.opts):
        return [*words[:at], meant, *(after if after[:1] and after[0].startswith("-") else after[1:])]
    if isinstance(context.command, click.Group) and (group := _subcommand(context, name)):
        return [*words[:at], group, *after]
    if meant is None:
        is_flag = equals or not after or after[0].startswith("-")
        return words[:at] + after[not is_flag :]
    if meant == ARGUMENT:  # every time, and never as the name of a subcommand
        words = [word for word in [*words[:at], *after] if word != name]
        return [f"./{word}" if place == at and word in _siblings(context) else word for place, word in enumerate(words)]
    return [*words[:at], meant, *after]


def _siblings(context: click.Context) -> list[str]:
    """Return the names of the commands that stand where the arguments of this command would, if its own name is left out."""
    above = context.parent
    return above.command.list_commands(above) if above and isinstance(above.command, click.Group) else []


def _option_of(context: click.Context, name: str) -> str | None:
    """Return the option of a command that *name* means; ARGUMENT if its value is an argument; None if there is none."""
    known = {name: one for one in _options(context) for name in one.opts}
    short = squeezed(name)
    if equal := [one for one in known if squeezed(one) == short and len(short) > 1]:
        return equal[0]
    for ours, theirs in _OPTIONS.items():
        if short in theirs.casefold().split():
            if ours in known and not (ours == "--results" and getattr(known[ours].type, "exists", False) and short != "board"):
                return ours
            if ours == "--results" and (files := [one for one in ("--output", "--html") if one in known]):
                return files[0]
            if ours == "--depth" and "-k" in known:
                return "-k"
            if ours in ("-d", "-r") and _argument_fits(context, ours):
                return ARGUMENT
    spelt = name.startswith("--") and short not in _NOT_OURS.split()
    long = [one for one in known if one.startswith("--")] if spelt else []
    alike = nearest(name, long, 1) or [one for one in long if short.startswith(squeezed(one))]  # --json-output
    return alike[0] if alike else None


def _argument_fits(context: click.Context, option: str) -> bool:
    """Whether a command takes as an argument what *option* means: data for -d, systems for -r."""
    wanted = {"-d": ("data", "name"), "-r": ("systems", "system", "run", "query")}[option]
    return isinstance(context.command, click.Group) or any(
        isinstance(one, click.Argument) and one.name in wanted for one in context.command.params
    )


def _options(context: click.Context) -> list[click.Option]:
    return [one for one in context.command.get_params(context) if isinstance(one, click.Option)]


def _takes_several(context: click.Context) -> bool:
    return any(isinstance(one, click.Argument) and one.nargs == -1 for one in context.command.params)


def _lacks_argument(context: click.Context, words: Sequence[str]) -> bool:
    """Whether a command lacks an argument if *words* are typed, which begin with the names of commands."""
    if isinstance(context.command, click.Group):
        return True
    takes_value = {name for one in _options(context) if not one.is_flag for name in one.opts}
    bare = [word for at, word in enumerate(words) if not word.startswith("-") and (not at or words[at - 1] not in takes_value)]
    needed = sum(isinstance(one, click.Argument) and one.required for one in context.command.params)
    above, names = context, 0
    while above.parent is not None:
        above, names = above.parent, names + 1
    typed = [word for word in bare[:names] if any(word in _siblings(one) for one in _path(context))]
    return len(bare) - len(typed) < needed


def _path(context: click.Context) -> list[click.Context]:
    return [context, *(_path(context.parent) if context.parent else [])]


def _subcommand(context: click.Context, name: str) -> str:
    """Return the subcommand whose name was typed as an option, e.g. `gate --init`."""
    assert isinstance(context.command, click.Group)
    return next((one for one in context.command.list_commands(context) if squeezed(one) == squeezed(name)), "")


# ---- values and commands ---------------------------------------------------------------------------------------------------


def _filled(error: click.MissingParameter, words: list[str]) -> list[str]:
    """Return *words* with an example for what is missing, or for a value that was typed without its option."""
    param, context = error.param, error.ctx
    if param is None or context is None:
        return words
    if context.command_path == "lexbench watch":
        return ["watch", "--help"]
    if context.command_path in _PLACES:
        return _placed(words, context.command_path)
    if isinstance(param, click.Option):
        option = next((one for one in param.opts if one in _FILLED), "")
        return [*words, option, _FILLED[option]] if option else words
    return [*words, _FILLED[str(param.name)]] if param.name in _FILLED else words


def _placed(words: list[str], path: str) -> list[str]:
    """Return *words* with options before values that have none, in the usual order, and examples for what is still missing."""
    start = len(path.split()) - 1
    options = [at for at, word in enumerate(words) if word.startswith("-")]
    bare = [at for at in range(start, len(words)) if at not in options and at - 1 not in options]
    places = [one for one in _PLACES[path] if one not in words]
    named = dict(zip(bare, places, strict=False))
    filled = [part for at, word in enumerate(words) for part in ((named[at], word) if named.get(at) else (word,))]
    left = [one for one in places[len(bare) :] if one and one != "-d"]
    return [*filled, *(part for one in left for part in (one, _FILLED[one]))]


def _other_choice(error: click.BadParameter, words: list[str]) -> list[str]:
    """Return *words* with the choice that is meant, or the path that is there."""
    found = re.search(r"'([^']*)' (?:is not one of|does not exist)", error.message)
    choices = getattr(getattr(error.param, "type", None), "choices", None)
    if not found or found[1] not in words:
        return words
    at = words.index(found[1])
    beside = nearest(Path(found[1]).name, [one.name for one in Path(found[1]).parent.glob("*")], 1) if choices is None else []
    if beside:
        return [*words[:at], str(Path(found[1]).with_name(beside[0])), *words[at + 1 :]]
    if choices is None:  # a word of another tool before the path, e.g. `audit leaderboard board`
        rest = words[at + 1 :]
        if not rest or rest[0].startswith("-"):
            return words
        return [*words[:at], f"./{rest[0]}" if error.ctx and rest[0] in _siblings(error.ctx) else rest[0], *rest[1:]]
    near = nearest(found[1], [str(one) for one in choices], 1)
    return [*words[:at], near[0], *words[at + 1 :]] if near else [*words[:at], "--help"]


def _other_words(error: click.UsageError, words: list[str]) -> list[str]:
    """Return *words* with the command that is meant, or with an option before a value that has none."""
    if unknown := re.search(r"[Nn]o (?:such )?command '([^']*)'", error.message):
        return _other_command(error, unknown[1], words)
    extra = re.search(r"unexpected extra arguments? \((.*?)\)", error.message)
    if not extra or error.ctx is None:
        return words
    if error.ctx.command_path == "lexbench score":
        if {"--qrels", "-d", "--dataset"} & set(words):  # two runs are compared
            return ["compare", *words[1:]]
        if (found := _with_qrels(words)) != words or Path(extra[1]).is_file():  # two runs without judgements
            return found
    values = extra[1].split()
    at = next((at for at in range(len(words) - 1, -1, -1) if words[at] == values[0]), None)
    if at is None:
        return words
    known = {name for one in error.ctx.command.params if isinstance(one, click.Option) and one.multiple for name in one.opts}
    before = next((word for word in reversed(words[:at]) if word.startswith("-")), "")
    option = before if before in known else _EXTRA.get(error.ctx.command_path, "")
    filled = [word for value in values for word in ((option, value) if option else ())]
    return [*words[:at], *filled, *words[at + len(values) :]]


def _other_command(error: click.UsageError, name: str, words: list[str]) -> list[str]:
    """Return *words* with the command that is meant in place of *name*; `help` and `version` are options of ours."""
    context = error.ctx
    if context is None or not isinstance(context.command, click.Group) or name not in words:
        return words
    at = words.index(name)
    if squeezed(name) in ("version", "help"):
        return [*words[at + 1 :], f"--{squeezed(name)}"]
    known = context.command.list_commands(context)
    listed = nearest(name, ("suites", "datasets", "models", "systems", "measures", "results", "engines", "encoders"), 1)
    top = context.parent is None
    if top and listed and squeezed(listed[0]) == squeezed(name):
        return ["list", listed[0]]
    near, rest = nearest(name, known, 1), words[at + 1 :]
    groups = {one: command for one in known if isinstance(command := context.command.get_command(context, one), click.Group)}
    if near:
        return [*words[:at], near[0], *(rest or ["--help"] * (near[0] in groups))]
    for group, command in groups.items():
        if inside := [one for one in command.list_commands(context) if means(name, one)]:
            return [*words[:at], group, inside[0], *(rest or ["--help"])]
    return [*words[:at], "--help"]
