"""What `lexbench run` does: from expressions to systems, from systems and datasets to jobs, from jobs to results.

Read `jobs` first: it asks `search.DatasetRunner` for runs, which asks `artifacts.Artifacts` for vectors and indexes. Other
packages use `jobs.run`, `systems.system`, `plan`, `scoring.score_lists` and `search.DatasetRunner`.
"""
