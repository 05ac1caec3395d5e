"""Lucene in a Java virtual machine within this process, for the engine `lucene` and the retriever `bm25@lucene`."""
