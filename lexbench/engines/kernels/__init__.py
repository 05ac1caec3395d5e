"""What engines share: compiled loops, and checks of vectors.

Other packages use `checks`, `dense.overlap` (recall of exact) and `dense.max_sim_scores`. Import these in the function that
needs them: all modules but `checks` import numba.
"""
