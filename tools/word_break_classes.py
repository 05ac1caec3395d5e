"""Print `lexbench/tokenization/word_break.txt` from the tables of Lucene's StandardTokenizer (needs the extra `lucene`).

    python tools/word_break_classes.py > lexbench/tokenization/word_break.txt

The scanner that JFlex made has a table from code points to its own character classes. One known member identifies each class.
Lucene's classes have not changed since version 8. If a new version changes them, `tests/test_analysis.py` fails.
"""

import argparse
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.java import java_class

HEADER = """\
# Word-break classes of code points, as Lucene 9's StandardTokenizer sees them (StandardTokenizerImpl.jflex: Unicode 9.0
# word breaks, emoji of Unicode 11.0). A line: the class's letter in `word_break.py`, then its code points, hexadecimal.
# Code points of no class belong to no word. Made from the tables of that tokenizer by tools/word_break_classes.py.
"""

MEMBERS = {  # class letter: a member of each of JFlex's classes in it; what none of them names belongs to no word
    '"': '"', "'": "'", ",": ",", ".": ".", ":": ":", "_": "_", "A": "A\u1100", "D": "0", "F": "\U0001f1e6", "G": "\U000e007f",
    "H": "\u05d0", "I": "\u4e00", "K": "\u30a2", "M": "\U0001f3fb", "N": "\u0660", "P": "\u2764", "R": "\u3042", "S": "\u0e01",
    "a": "\u2139", "c": "\u20e3", "g": "\U000e0020", "k": "#", "p": "\ufe0f", "s": "\u0e31", "t": "\ufe0e", "x": "\u0301",
    "z": "\u200d",
}  # fmt: skip


def scanner_table(name: str) -> NDArray[np.int64]:
    """Return a private table of Lucene's scanner."""
    scanner = java_class("java.lang.Class").forName("org.apache.lucene.analysis.standard.StandardTokenizerImpl")
    jnius: Any = import_module("jnius")  # not before: Java starts with it

    class Field(jnius.JavaClass, metaclass=jnius.MetaJavaClass):  # type: ignore[metaclass, misc]
        __javaclass__ = "java/lang/reflect/Field"
        get = jnius.JavaMethod("(Ljava/lang/Object;)Ljava/lang/Object;")
        setAccessible = jnius.JavaMethod("(Z)V")  # noqa: N815 - Java's name

    field = jnius.cast("java.lang.reflect.Field", scanner.getDeclaredField(name))
    field.setAccessible(True)
    return np.array(field.get(None), np.int64)


def main() -> None:
    """Print the table."""
    codes = np.arange(0x110000)
    jflex = scanner_table("ZZ_CMAP_BLOCKS")[scanner_table("ZZ_CMAP_TOP")[codes >> 8] | (codes & 0xFF)]
    letters = np.full(len(codes), "")
    for letter, members in MEMBERS.items():
        letters[np.isin(jflex, jflex[[ord(member) for member in members]])] = letter
    firsts = np.flatnonzero(np.append(True, letters[1:] != letters[:-1]))
    lasts = np.append(firsts[1:], len(codes)) - 1
    print(HEADER, end="")
    for letter in sorted(MEMBERS):
        own = letters[firsts] == letter
        spans = (
            f"{first:X}" if first == last else f"{first:X}-{last:X}"
            for first, last in zip(firsts[own], lasts[own], strict=True)
        )
        print(letter, *spans)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
