"""Run the embedded suite on several Pythons and compare the results.

    python tools/pydoc_scores.py python3.11 python3.12 python3.13

Each gets its own virtual environment with the pinned core. Prints digests and scores; exits with 1 if the corpus, the queries,
the judgements or the value of any query differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def result(python: str, folder: Path) -> dict[str, Any]:
    """Return the result of bm25 on pydoc/test, by *python* in a new virtual environment in *folder*."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip: list[str | Path] = [folder / "bin" / "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", ROOT]
    subprocess.run(pip, check=True)
    command: list[str | Path] = [folder / "bin" / "lexbench", "run", "suite", "pydoc", "-r", "bm25", "--json"]
    environment = {**os.environ, "LEXBENCH_STORE": str(folder / "store")}
    done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)["results"][0]
    return found


def main() -> int:
    """Compare the Pythons named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    with tempfile.TemporaryDirectory() as place:
        results = [result(python, Path(place) / str(number)) for number, python in enumerate(parser.parse_args().pythons)]
    for found in results:
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in found["means"].items())
        print(
            f"Python {found['measured']['machine']['python']}: corpus {found['digests']['corpus'][:16]}, {means}",
            *found["notes"],
        )
    answers = [(found["digests"], found["per_query"]) for found in results]
    same = all(answer == answers[0] for answer in answers)
    print("the same corpus, questions and judgements, and the same value for every query" if same else "they differ")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
