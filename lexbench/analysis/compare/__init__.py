"""The work behind `lexbench compare`: do scores differ, which settings differ, and which queries changed, and why.

Callers use `compare`; `comparison` has the classes that it returns, and `tables` shows them.
"""

from lexbench.analysis.compare.comparison import compare

__all__ = ["compare"]
