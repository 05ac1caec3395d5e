"""The stopwatch separates the times of steps, and records the machine and the software."""

from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

import pytest
from yaml import BaseLoader

from lexbench import compiling
from lexbench.runner.systems import system
from lexbench.storage import environment
from lexbench.storage.stopwatch import Stopwatch, read_measurement


@pytest.fixture
def wait(monkeypatch):
    """Return a function that lets seconds pass on the clock."""
    now = [100.0]
    monkeypatch.setattr(compiling.time, "perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_the_time_of_each_step_is_added_up(wait):
    """A step that is timed twice has the sum of both times, and a block that fails is counted too."""
    watch = Stopwatch()
    with watch.time("search"):
        wait(2)
    wait(4)
    with suppress(ValueError), watch.time("read"):
        wait(5)
        raise ValueError
    with watch.time("search"):
        wait(3)

    assert watch.seconds == {"search": 5, "read": 5}


def made(folder, seconds, *parts, resumed=False):
    """Write *seconds* into a new *folder*; return it."""
    folder.mkdir()
    watch = Stopwatch(seconds, resumed=resumed)
    for part in parts:
        watch.add(part)
    watch.write(folder)
    return folder


def test_times_of_parts_are_included(tmp_path):
    """The times of parts count for the whole, each once, and a resumed part makes the whole resumed."""
    vectors = made(tmp_path / "encoder-1", {"encode": 2.0}, resumed=True)
    sparse = made(tmp_path / "impact-2", {"build": 4.0}, vectors)
    dense = made(tmp_path / "flat-3", {"build": 8.0}, made(tmp_path / "other-4", {"encode": 16.0}))
    lexical = made(tmp_path / "bm25-5", {"build": 32.0})
    whole = made(tmp_path / "both-6", {"build": 64.0}, sparse, dense, lexical, vectors, sparse)

    assert read_measurement(sparse).seconds == {"encode": 2, "build": 4}
    assert read_measurement(whole).seconds == {"encode": 2 + 16, "build": 4 + 8 + 32 + 64}
    assert [read_measurement(folder).resumed for folder in (sparse, whole, dense)] == [True, True, False]


def test_versions_include_what_plugins_need(tmp_path):
    """Versions of the core packages and of the distributions that plug-ins import are recorded, and the machine."""
    assert environment.versions()["numpy"] == version("numpy")
    assert "PyYAML" not in environment.versions()
    added = environment.versions(("yaml", "pluggy", "no_such_package", "numpy"))
    assert added == environment.versions() | {"PyYAML": version("pyyaml"), "pluggy": version("pluggy")}

    Stopwatch(packages=["yaml"]).write(tmp_path)
    assert read_measurement(tmp_path).versions == environment.versions(("yaml",))
    machine = read_measurement(tmp_path).machine
    assert {"processor", "cores", "memory_gib", "system", "python"} == set(machine)
    assert all(machine.values())


@dataclass(frozen=True)
class Needy:
    """A plug-in of this package, with members."""

    parts: tuple = ()
    name: str = "needy"
    requires: ClassVar[tuple[str, ...]] = ("yaml",)


def test_packages_of_a_plugin_include_those_of_its_members():
    """Required packages count at any depth, each once; a plug-in of another package also needs that package."""
    two = system("ensemble(bm25, bm25(k1=2.0))").retriever

    assert environment.packages_of(two) == ()
    assert environment.packages_of(Needy((Needy(), BaseLoader("")))) == (__name__, "yaml")
    assert environment.packages_of((two, Needy())) == (__name__, "yaml")
