"""Questions about results, each with its computation and its tables: the work behind `compare`, `verify` and `explain`."""
