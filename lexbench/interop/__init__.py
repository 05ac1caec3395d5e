"""Other tools: their files written from our results and read into ours, and beir's interfaces.

Others take from here `files` (what `lexbench export` and `lexbench import` do), `formats` (which formats there are; one file
there adds one) and `beir` (our systems in beir's evaluation, and beir's models among our systems).
"""
