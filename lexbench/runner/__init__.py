"""What `lexbench run` is: from names to systems, from systems and datasets to jobs, from jobs to results.

Read `jobs` first; each stage that it asks for is a method of `stages.DatasetRunner`. Others take `jobs.run`, `systems.system`,
`plan`, `scoring.score_file` and `stages.DatasetRunner`.
"""
