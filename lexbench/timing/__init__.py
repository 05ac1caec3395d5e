"""How fast a system is and how much memory it takes, measured in a process of its own, with proof of the conditions.

Other packages use `Settings`, `Timer`, `timings_of_run` and `fingerprint`.
"""
