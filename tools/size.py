"""Print the size of one or several checkouts, side by side, as a Markdown table.

python tools/size.py . ../older-checkout
"""

import argparse
import ast
import re
from pathlib import Path


def lines(root: Path, *patterns: str) -> int:
    """Return how many lines the files that match *patterns* have, empty lines included."""
    return sum(path.read_bytes().count(b"\n") for pattern in patterns for path in root.glob(pattern))


def calls(root: Path, function: str) -> list[ast.Call]:
    """Return the calls of a built-in function in the package."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (root / "lexbench").rglob("*.py")]
    return [
        node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == function
    ]


def plugin_classes(root: Path) -> set[str]:
    """Return the names of the classes in lexbench/plugins.py."""
    path = root / "lexbench" / "plugins.py"
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)}


def capability_questions(root: Path) -> int:
    """Return how many isinstance calls ask whether an object is of a class in lexbench/plugins.py."""
    classes = plugin_classes(root)
    asked = [{name.id for name in ast.walk(call.args[1]) if isinstance(name, ast.Name)} for call in calls(root, "isinstance")]
    return sum(bool(names & classes) for names in asked)


def figures(root: Path) -> dict[str, int]:
    """Return all figures of one checkout."""
    commands = (root / "lexbench" / "cli").glob("[a-z]*.py")
    return {
        "lines in lexbench/": lines(root, "lexbench/**/*.py"),
        "modules": len(list((root / "lexbench").rglob("*.py"))),
        "lines of tests": lines(root, "tests/**/*.py"),
        "lines of tools/ and benchmarks/*.py": lines(root, "tools/*.py", "benchmarks/*.py"),
        "lines of benchmarks/README.md": lines(root, "benchmarks/README.md"),
        "lines of CHANGELOG.md": lines(root, "CHANGELOG.md"),
        "lines of docs (Markdown)": lines(root, "docs/**/*.md"),
        "classes in lexbench/plugins.py": len(plugin_classes(root)),
        "isinstance calls with one of these classes": capability_questions(root),
        "commands": sum(bool(re.search(r"^@click\.(command|group)\(", path.read_text(), re.MULTILINE)) for path in commands),
    }


def main() -> None:
    """Print the table, one column for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path, nargs="*", default=[Path()], help="folders; default: the current one")
    checkouts = [path.resolve() for path in parser.parse_args().checkouts]
    if missing := [path for path in checkouts if not (path / "lexbench" / "plugins.py").is_file()]:
        parser.error(f"{missing[0]} is no checkout of lexbench")
    columns = [figures(root) for root in checkouts]
    print("| |", " | ".join(root.name for root in checkouts), "|\n| :-- |" + " --: |" * len(checkouts))
    for name in columns[0]:
        print(f"| {name} |", " | ".join(f"{column[name]:,}" for column in columns), "|")


if __name__ == "__main__":
    main()
