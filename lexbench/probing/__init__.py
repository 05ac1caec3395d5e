"""Recall of exact and latency of a running index for each setting of its search and each filter, for `lexbench probe`."""
