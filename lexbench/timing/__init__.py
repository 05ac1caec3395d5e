"""The speed and memory of systems, measured in separate processes, with proof of the conditions.

Other packages use `Settings`, `Timer`, `timings_of_run` and `fingerprint`.
"""
