"""What `lexbench run` does: from expressions to systems, from systems and datasets to jobs, from jobs to results."""
