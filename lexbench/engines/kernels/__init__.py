"""What engines share: compiled loops, checks of vectors, and Lucene (`java`).

Other packages use `checks`, `dense.overlap` (recall of exact) and `dense.max_sim_scores`. Import these in the function that
needs them: all modules but `checks`, `code_products`, `distances` and `java` import numba.
"""
