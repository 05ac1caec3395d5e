"""Other tools: their files written from our results and read into ours, and the interfaces of beir and ir_measures.

Others take from here `files` (what `lexbench export` and `lexbench import` do), `formats` (which formats there are; one file
there adds one), `beir` (our systems in beir's evaluation, and beir's models among our systems) and `ir_measures_provider` (our
measures for users of ir_measures).
"""
