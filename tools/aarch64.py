"""Run tests for a 64-bit Arm processor on another Debian or Ubuntu machine, emulated by QEMU.

    apt-get install qemu-user-static && dpkg --add-architecture arm64 && apt-get update      # once, as root
    python tools/aarch64.py build/aarch64 -q tests/test_impact.py                           # arguments of pytest

The first argument is a folder for Debian's Python for arm64 and the core's dependencies as wheels, in the versions of
constraints.txt. This checks that answers are right there, including the NEON code of the sparse engine. It is about twenty
times slower than the machine. Tests that need torch or Java cannot be run this way.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QEMU = "qemu-aarch64-static"
PYTHON = f"python3.{sys.version_info.minor}"  # Debian 12 and 13 have one each, 3.11 and 3.13
DEBIAN = (
    "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "libgomp1", "liblzma5", "libsqlite3-0", "libssl3",
    "libstdc++6", "libuuid1", "zlib1g", f"lib{PYTHON}-minimal", f"lib{PYTHON}-stdlib", f"{PYTHON}-minimal",
)  # fmt: skip
WHEELS = ("hypothesis", "pytest")  # in addition to the core's dependencies
NEEDS_TREC_EVAL = "ir-measures"  # its dependency has no wheel for this platform, so it is installed without
PLATFORMS = ("2014", "_2_17", "_2_27", "_2_28", "_2_34")


def command(*words: str | Path, where: Path | None = None) -> None:
    """Run a command. Raises SystemExit with its output if it fails."""
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{words[0]} {words[1]}: {done.stderr.strip() or done.stdout.strip()}")


def make(folder: Path) -> None:
    """Fetch Python and wheels for arm64 into *folder*/arm64 and *folder*/site."""
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    command("apt-get", "download", *(f"{name}:arm64" for name in DEBIAN), where=packages)
    for package in packages.glob("*.deb"):
        command("dpkg-deb", "-x", package, folder / "arm64")
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    alone = [name for name in needed if name.startswith(NEEDS_TREC_EVAL)]
    unfinished = folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    install(unfinished, *WHEELS, *(name for name in needed if name not in alone))
    install(unfinished, "--no-deps", *alone)
    unfinished.rename(folder / "site")


def install(target: Path, *words: str) -> None:
    """Install wheels for arm64 into the folder *target*."""
    tags = [word for tag in PLATFORMS for word in ("--platform", f"manylinux{tag}_aarch64")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", *tags]
    command(*pip, "--target", target, "--constraint", ROOT / "constraints.txt", *words)


def main() -> int:
    """Make the folder if it does not exist, run pytest with it, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=lambda text: Path(text).absolute())
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of pytest")
    given = parser.parse_args()
    folder, arguments = given.folder, given.arguments
    if not shutil.which(QEMU):
        raise SystemExit(f"{QEMU} is not installed; type apt-get install qemu-user-static")
    if not (folder / "site").exists():
        make(folder)
    paths = {
        "PYTHONPATH": f"{ROOT}:{folder}/site",
        "QEMU_LD_PREFIX": f"{folder}/arm64",
        "NUMBA_CACHE_DIR": f"{folder}/compiled",
    }
    python = [QEMU, "-L", f"{folder}/arm64", f"{folder}/arm64/usr/bin/{PYTHON}"]
    pytest = ["-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run([*python, *pytest], cwd=ROOT, env=os.environ | paths, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
