"""Engines: vectors in, the nearest k out. One file adds one; see `lexbench.registry`."""
