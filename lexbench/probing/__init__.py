"""Recall of exact and latency of a running index for each value of a knob, for `lexbench probe`."""
