"""Combines ranked lists: normalises their scores and adds them (`normalise`).

This is arithmetic on arrays. `ensemble`, `pipeline` and the tuning of their weights use it.
"""
