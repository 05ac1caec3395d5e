"""Judges: what grades documents in place of an assessor. Each module is a plug-in, and one file adds one.

What a judge says is kept in qrels files of its own, stamped: see `lexbench.runner.judging`. Other packages get judges by name
from `lexbench.registry` and import nothing from here.
"""
