"""Combines ranked lists: normalises their scores and adds them (`normalise`), and lists the weights to try (`weight_grid`).

This is arithmetic on arrays. `ensemble`, `pipeline` and the tuning of their weights use it.
"""
