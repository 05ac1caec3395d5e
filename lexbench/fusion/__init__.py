"""One ranked list from several: scores made comparable and added (`normalise`), and the weights to try (`weight_grid`).

Arithmetic on arrays that knows no retriever; the retrievers that combine others and the search for weights take all of it.
"""
