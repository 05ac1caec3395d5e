"""The artifacts that are made from a corpus, as nodes, and the graph that makes, finds and opens them."""
