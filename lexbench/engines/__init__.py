"""Engines: vectors in, the nearest k out. Each file adds one (see `lexbench.registry`); its class has `build` and `open`.

Engines are loaded by name (`registry.load("engines", "impact")`). Other packages import only the sub-packages `kernels`,
compiled loops and checks of vectors, and `java`, Lucene.
"""
