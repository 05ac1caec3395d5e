"""Rerankers: scores of documents that are read together with the query. Each module is a plug-in, and one file adds one.

Other packages get rerankers by name from `lexbench.registry` and import nothing from here.
"""
