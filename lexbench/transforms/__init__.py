"""Transforms: vectors in, vectors out, applied to stored encodings. One file adds one; see `lexbench.registry`.

Transforms are asked for by name (`registry.load("transforms", "top_k")`); nothing else in here is for other packages.
"""
