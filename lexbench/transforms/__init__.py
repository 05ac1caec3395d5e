"""Transforms of stored vectors, one per file: top-K, quantisation, query pruning.

Other packages get a transform by its name: `registry.load("transforms", "top_k")`.
"""
