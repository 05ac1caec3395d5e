"""Vectors as an inverted index in the Common Index File Format: what PISA, BMP, Lucene, Terrier and JASS import.

Messages of protobuf, each after its length as a varint: a Header; a PostingsList a term, terms in the order of their bytes,
postings in the order of documents with gaps between their numbers, the weight as `tf`; a DocRecord a document, its length the
sum of its weights. https://github.com/osirrc/ciff (Lin et al., "Supporting Interoperability Between Open-Source Search Engines
with the Common Index File Format", SIGIR 2020). Lost: weights that are not whole are refused, and tokens that no document has.
"""

from lexbench.vector_formats._ciff_read import read
from lexbench.vector_formats._ciff_write import write

__all__ = ["read", "write"]
