"""Retrievers: text queries in, ranked documents out. One file adds one; see `lexbench.registry`.

A retriever that runs on another engine is a file of its own: `bm25@lucene` is `bm25_lucene.py`.
"""
