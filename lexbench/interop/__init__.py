"""Other tools: their files written from our results and read into ours.

conversion       what `lexbench export` and `lexbench import` do
formats          the formats of files; a file there adds one
boards           leaderboards of other tools, for `lexbench audit`
sharing          results and stores at a URL
"""
