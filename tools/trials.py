"""Train variants of recipes side by side, e.g. on a GPU, and score them on the development collections.

    python tools/trials.py tools/trials/gpu.toml FOLDER --seconds 420 --output build/trials

The file has a table for each variant:

    [four-words]
    recipe = "lexmae_doc"                 # or the path of a recipe; without one, only the system is scored
    settings = ["ranking.expansions=4"]
    system = 'inference_free(model="{output}/four-words/imitated")@impact'
    after = "pretraining"                 # begin when that variant has ended

Each variant has a process of its own and a log in the output folder. What has not ended after --seconds is stopped, and the
same command continues it. Scores are printed as by tools/development.py, which says what FOLDER has.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np

from lexbench.display.table import markdown
from lexbench.storage.reading import Strict

sys.path.insert(0, str(Path(__file__).parent))  # when this file is imported
import development


class Trial(Strict, frozen=True, kw_only=True):
    """A variant of a training, a system to score, or both."""

    recipe: str = ""
    settings: tuple[str, ...] = ()
    step: str = "all"
    system: str = ""
    after: str = ""


class Trials:
    """The trials of a file, with their folder and their end."""

    def __init__(self, trials: Mapping[str, Trial], folder: Path, output: Path, seconds: float) -> None:
        self.trials, self.folder, self.output = trials, folder, output
        self.end = time.monotonic() + seconds

    def run(self) -> dict[str, str]:
        """Carry all out; return how each ended, by name."""
        with ThreadPoolExecutor(len(self.trials)) as pool:
            running: dict[str, Future[str]] = {}
            for name, trial in self.trials.items():  # a trial stands below the one that it waits for
                running[name] = pool.submit(self.carry_out, name, trial, running.get(trial.after))
            return {name: future.result() for name, future in running.items()}

    def carry_out(self, name: str, trial: Trial, before: "Future[str] | None") -> str:
        """Train and score one; return how it ended."""
        if before and before.result() != "done":
            return f"not begun: {trial.after} is {before.result()}"
        settings = [word for text in trial.settings for word in ("--set", text.replace("{output}", str(self.output)))]
        train = ["-m", "lexbench", "train", trial.step, trial.recipe, "--output", str(self.output / name), *settings]
        expression = f"{name} = {trial.system.replace('{output}', str(self.output))}"
        tool, scores = str(Path(__file__).with_name("development.py")), str(self.output / f"{name}.json")
        score = [tool, str(self.folder), expression, "--json", scores]
        with (self.output / f"{name}.log").open("ab") as log:
            for command, wanted in ((train, trial.recipe), (score, trial.system)):
                # Scores have a store each, because one store makes every artifact once, and the others wait.
                store = {"LEXBENCH_STORE": str(self.output / "stores" / name)} if command is score else {}
                environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | store
                left = max(0.0, self.end - time.monotonic())
                try:
                    if wanted:
                        subprocess.run(
                            [sys.executable, *command], check=True, stdout=log, stderr=log, timeout=left, env=environment
                        )
                except subprocess.TimeoutExpired:
                    return "stopped"
                except subprocess.CalledProcessError as error:
                    return f"failed with {error.returncode}; see {log.name}"
        return "done"

    def scores(self) -> development.Scores:
        """Return the scores of all that were scored, on the collections that all of these have."""
        every: list[dict[str, dict[str, list[float]]]] = [
            json.loads(path.read_text(encoding="utf-8"))
            for path in (self.output / f"{name}.json" for name in self.trials)
            if path.is_file()
        ]
        common = [name for name in (every[0] if every else {}) if all(name in one for one in every)]
        return {name: {system: np.array(values) for one in every for system, values in one[name].items()} for name in common}


def main() -> None:
    """Carry out the trials of a file, and print how they ended and the tables of scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=3600.0, help="the most for all of it")
    parser.add_argument("--output", type=Path, default=Path("build/trials"))
    parser.add_argument("--baseline", default=development.BM25, help="the name that intervals and p compare with")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.output.mkdir(parents=True, exist_ok=True)
    found = msgspec.toml.decode(options.trials.read_bytes(), type=dict[str, Trial])
    trials = Trials(found, options.folder.resolve(), options.output.resolve(), options.seconds)
    for name, ended in trials.run().items():
        print(f"{name}: {ended}")
    scores = trials.scores()
    if not scores:
        print("nothing was scored")
        return
    names = list(next(iter(scores.values())))
    print("\n" + markdown(development.means_table(scores, names, None)))
    print(f"\nDifferences to {options.baseline}, with 95 % interval and p:\n")
    others = [name for name in names if name not in (options.baseline, development.BM25)]
    print(markdown(development.tests_table(scores, others, options.baseline)))


if __name__ == "__main__":
    main()
