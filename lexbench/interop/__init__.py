"""Other tools: their files written from our results and read into ours, and the interface of beir.

conversion       what `lexbench export` and `lexbench import` do
formats          the formats of files; a file there adds one
boards           leaderboards of other tools, for `lexbench audit`
sharing          results and stores at a URL
beir             our systems in beir's evaluation, and beir's models among our systems
lsr_benchmark    our engines on embeddings of lsr-benchmark
"""
