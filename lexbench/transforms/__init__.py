"""Transforms: vectors in, vectors out, applied to stored encodings. One file adds one; see `lexbench.registry`."""
