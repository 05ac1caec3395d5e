"""Whether a difference between two systems is more than the luck of the queries: tests, intervals, power.

Everything here takes values of queries, or differences of two systems on the same queries, as arrays (queries,), and is the
same for the same seed. Nothing reads or writes files.
"""
