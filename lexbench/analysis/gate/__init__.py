"""Retrieval tests, for `lexbench gate` and the pytest fixture `lexbench_gate`: pass, fail or cannot tell."""
