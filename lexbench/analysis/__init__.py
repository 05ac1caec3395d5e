"""What results say once they are there: the work behind `lexbench compare`, `verify` and `explain`.

Others take from here `compare` (systems against a baseline), `verify` (measured against published scores), `explain` (what each
term adds to a score), `significance` (tests and intervals), `aggregates` (named means over datasets), `seeds` (trainings
as one system), `slices` (of queries), `overlap` and `precision` (of ranked lists), `lists` (the runs that names stand for) and
`stored_results` (what a store holds). Nothing here formats text for people: that is `lexbench.report`, which builds on this
package.
"""
