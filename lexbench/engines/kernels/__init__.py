"""What engines share: compiled loops, and checks of vectors.

Other packages use `checks`, `dense.overlap` (recall of exact) and `dense.max_sim_scores`. All modules but `checks` import numba:
import them in the function that needs them.
"""
