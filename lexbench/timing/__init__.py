"""How fast a system is, and how much it takes: measured in a process of its own, with proof of the conditions.

`protocol` says what is asked for; `measure` runs it and keeps every duration in the store; `figures` makes statistics of
durations, `compare` compares those of two systems; `fingerprint` and `calibration` say what kind of machine it was. Modules
that begin with an underscore are of the measuring process, which is `python -m lexbench.timing`.
"""
