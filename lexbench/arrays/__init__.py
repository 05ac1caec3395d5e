"""Arrays in memory: vectors and their kinds, scores made comparable and added, and the k largest."""
