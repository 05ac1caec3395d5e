"""The job templates in "From laptop to cluster": their files and the commands in them parse.

No SLURM, Kubernetes or Ray is run.
"""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from lexbench.cli import app
from lexbench.contracts import contract_of
from lexbench.executors import executor
from lexbench.notation import parse
from lexbench.runner.jobs import numbered_part

PAGE = Path(__file__).parent.parent.joinpath("docs", "howto", "machines.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|console|yaml)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
TYPED = [line.removeprefix("$ ") for language, block in BLOCKS if language == "console" for line in block.splitlines()]
(SLURM,) = (block for language, block in BLOCKS if language == "bash")
(KUBERNETES,) = (yaml.safe_load(block) for language, block in BLOCKS if language == "yaml")
(TORCHRUN,) = (shlex.split(line) for line in TYPED if line.startswith("torchrun "))
LAUNCHED = {
    "SLURM_ARRAY_TASK_ID": "1",
    "SLURM_ARRAY_TASK_COUNT": "16",
    "RANK": "1",
    "WORLD_SIZE": "8",
    "JOB_COMPLETION_INDEX": "1",
}  # fmt: skip - what launchers put into the environment of the second part


def parsed(words):
    """Return the settings of a `lexbench` command as the command line parses it. Raises UsageError if it does not parse."""
    name, *rest = words
    assert name == "lexbench"
    command, context = app, None
    while True:
        context = command.make_context(command.name, rest, parent=context)
        if not isinstance(command, click.Group):
            return context.params
        _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])


def checked(words):
    """Check that the dataset, systems, part and executor of a command exist; return the part."""
    settings = parsed(words)
    assert contract_of(settings["data"]).id == settings["data"]
    for system in settings["systems"]:
        parse(system)
    part = settings.get("part")
    return numbered_part(re.sub(r"\$\(?(\w+)\)?", lambda variable: LAUNCHED[variable[1]], part)) if part else None


def test_commands_that_are_typed_parse():
    """Each `lexbench` command of the page parses, and others do not; its dataset and system exist, and parts are right."""
    commands = [shlex.split(line) for line in TYPED if line.startswith("lexbench ") and "store" not in line.split()]
    wrapped = [re.search(r'--wrap "(.*?)"', line) for line in TYPED if line.startswith("sbatch ")]
    assert [checked(words) for words in commands] == [(3, 16), None, None]
    assert [checked(shlex.split(found[1])) for found in wrapped] == [None]
    with pytest.raises(click.UsageError):
        checked(shlex.split("lexbench encode dataset pydoc/test -r bm25 --parts 3/16"))


def test_slurm(tmp_path):
    """The script is valid bash, its options are sbatch's, and the second task of the array is part 1 of 16."""
    script = tmp_path / "encode.sh"
    script.write_text(SLURM, encoding="utf-8")
    asked = [option for line in SLURM.splitlines() if line.startswith("#SBATCH ") for option in line.split()[1:]]
    (command,) = (shlex.split(line) for line in SLURM.splitlines() if line.startswith("lexbench "))

    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert {option.partition("=")[0] for option in asked} == {"--array", "--gpus", "--cpus-per-task", "--requeue"}
    assert checked(command) == (1, 16)
    assert "--array=0-15" in asked
    assert "sbatch --parsable encode.sh" in " ".join(TYPED)


def test_torchrun():
    """Torchrun's own parser reads the line: eight processes of `lexbench`, the second is part 1 of 8."""
    run = pytest.importorskip("torch.distributed.run", reason="needs torch: pip install 'lexbench[neural]'")
    arguments = run.get_args_parser().parse_args(TORCHRUN[1:])

    assert (arguments.nproc_per_node, arguments.no_python) == ("8", True)
    assert arguments.training_script_args[0] == "-c"
    assert checked(shlex.split(arguments.training_script_args[1])) == (1, 8)


def test_kubernetes():
    """The job is indexed, so each container gets its number, and completions equal the number of parts."""
    job = KUBERNETES["spec"]
    (container,) = job["template"]["spec"]["containers"]
    (claimed,), (mounted,), (variable,) = job["template"]["spec"]["volumes"], container["volumeMounts"], container["env"]

    assert (KUBERNETES["apiVersion"], KUBERNETES["kind"], job["completionMode"]) == ("batch/v1", "Job", "Indexed")
    assert set(job) == {"completions", "parallelism", "completionMode", "backoffLimitPerIndex", "template"}
    assert job["template"]["spec"]["restartPolicy"] == "Never"  # which backoffLimitPerIndex asks for
    assert checked(container["args"]) == (1, job["completions"])
    assert claimed["name"] == mounted["name"]
    assert (variable["name"], variable["value"]) == ("LEXBENCH_STORE", mounted["mountPath"])


def test_executors_that_the_page_names():
    """Every `--on` of the page is an executor. Those of Ray are not created, because Ray need not be installed."""
    named = [text.strip("'") for text in re.findall(r"--on ('[^']*'|[\w:]+)", PAGE)]
    assert len(named) >= 5
    assert [executor(text) for text in named if parse(text.partition(":")[0]).head.name != "ray"]
