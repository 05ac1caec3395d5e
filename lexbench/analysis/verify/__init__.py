"""The work behind `lexbench verify`: measured scores against published ones of the same system, dataset and measure.

`published` reads the published scores and matches systems, `verdicts` compares, explains scores that are off,
and shows it all.
"""
