"""What results say once they are there: the work behind `lexbench compare`, `verify` and `explain`.

Others take from here `compare` (systems against a baseline), `verify` (measured against published scores), `explain` (what each
term adds to a score), `significance` (tests and intervals), `aggregates` (named means over datasets) and `stored_results` (what
a store holds). Nothing here formats text for people: that is `lexbench.report`, which builds on this package.
"""
