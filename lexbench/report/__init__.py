"""Results as tables, figures and pages. Takes results, returns text or writes files.

`run` and `timings` make the tables of a run, `terminal` prints tables, `figures` draws, and `leaderboard` makes pages.
"""
