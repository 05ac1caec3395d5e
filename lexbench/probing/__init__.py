"""Recall of exact and latency of an index that somebody already runs, by the value of a knob, for `lexbench probe`."""
