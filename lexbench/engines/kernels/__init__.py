"""Compiled loops of the engines, and the checks of vectors that all of them make.

Other packages take `checks`, `dense.overlap` (how much of an exact search was found) and `maxsim.max_sim_scores`. All modules
but `checks` import numba, so import them in the function that needs them.
"""
