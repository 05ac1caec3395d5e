"""Engines: vectors in, the nearest k out. Each file adds one (see `lexbench.registry`); its class has `build` and `open`.

Engines are loaded by name (`registry.load("engines", "impact")`). Other packages import only the sub-package `kernels`:
compiled loops, checks of vectors, and Lucene.
"""
