"""Other tools: their files written from our results and read into ours, and the interfaces of beir and ir_measures.

conversion              what `lexbench export` and `lexbench import` do
formats                 the formats of files; a file there adds one
scores                  published scores, read from other tools' files
sharing                 results and stores at a URL
beir                    our systems in beir's evaluation, and beir's models among our systems
ir_measures_provider    our measures for users of ir_measures
lsr_benchmark           our engines on embeddings of lsr-benchmark
"""
