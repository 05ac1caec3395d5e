"""The work behind `lexbench compare`: what differs between systems, whether their scores do, on which queries, and why.

Others take from here `compare` and, from `model`, what it returns.
"""

from lexbench.analysis.compare.comparison import compare

__all__ = ["compare"]
