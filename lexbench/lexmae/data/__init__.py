"""Training data: read from disk and drawn by seed, so that examples do not depend on interruptions, workers or devices.

    collections    finding the datasets and folders that a recipe names, and which queries are for testing
    training_sets  corpora, training queries with their relevant documents, and searches for these queries
    negatives      hard negatives: mining them, and their lists
    tokens         corpora and queries as token ids
    batches        the order of examples, and the tensors of a batch
    masking        masked texts, the examples of pretraining

Nothing here depends on a model's weights. `lexbench.lexmae.model` and `lexbench.lexmae.training` import from here.
"""
