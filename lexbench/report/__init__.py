"""Results made readable: tables of each command, figures, and the leaderboard. Results in, text or files out.

Others take from here `run`, `compare`, `verify` and `explain` (the tables of what these commands found), `table` (what a table
is, and as Markdown), `terminal` (tables for terminals), `figures` and `leaderboard`.
"""
