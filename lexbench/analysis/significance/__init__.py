"""Tests whether a difference between systems is more than the luck of the queries.

All take values per query, or differences of two systems on the same queries, as arrays (queries,), and are deterministic for a
given seed. Nothing here reads or writes files.
"""
