"""Encoders: texts in, vectors out. One file adds one; see `lexbench.registry`."""
