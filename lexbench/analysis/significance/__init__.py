"""Whether a difference between two systems is more than the luck of the queries.

Others take from here `randomisation` (p values, Holm's correction, detectable differences), `bootstrap` (intervals),
`noninferiority` (margins) and `groups` (systems that cannot be told apart). Each takes values of queries, or differences of two
systems on the same queries, as arrays (queries,), and gives the same for the same seed. Nothing reads or writes files.
"""
