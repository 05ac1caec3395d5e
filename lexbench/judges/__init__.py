"""Judges: programs that grade documents in place of an assessor. Each module is a plug-in, and one file adds one.

Their judgements are kept in separate, stamped qrels files (see `lexbench.runner.judging`). Other packages get judges by name
from `lexbench.registry` and import nothing from here.
"""
