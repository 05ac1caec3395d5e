"""Questions about results, each with its computation and its tables: the work behind `compare`, `verify`, `explain` and others.

`stored_results` reads what the store holds. `compare`, `verify`, `explain`, `seen_in_training`, `judgements`,
`list_similarity`, `seeds` and `slices` answer one question each. `significance` has tests and intervals. Commands and
`lexbench.report`, which shows results as pages and figures, build on this package.
"""
