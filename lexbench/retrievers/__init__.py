"""Retrievers: text queries in, ranked documents out. One file adds one; see `lexbench.registry`.

A retriever that runs on another engine has a separate file: `bm25@lucene` is `bm25_lucene.py`.
"""
