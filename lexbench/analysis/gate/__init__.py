"""Retrieval tests: run systems, compare them with a committed baseline, and say pass, fail or cannot tell.

`files` reads and writes lexbench-gate.toml and the baseline, `checks` runs the systems and decides, and `output` makes the
tables, the Markdown and the JUnit file. Used by `lexbench gate` and by the pytest fixture `lexbench_gate`.
"""
