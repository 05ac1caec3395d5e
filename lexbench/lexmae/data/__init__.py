"""What models are trained on, read from disk and drawn by seed: the same examples whatever stops, workers or devices there are.

    sizes          where the datasets and folders that a recipe names are, and how large; nothing is opened
    splits         which queries may be trained on and chosen by: none that are for testing
    training_sets  corpora, training queries with their relevant documents, and searching for these queries
    negatives      hard negatives, mined and kept as TREC runs
    tokens         corpora and queries as token numbers
    batches        the order of draws, and the tensors of a batch
    masking        masked texts, the examples of pretraining
    examples       a query, a relevant document and negatives, the examples of fine-tuning

Nothing here knows a model's weights. `lexbench.lexmae.model` takes corpora from here, and `lexbench.lexmae.training` all of it.
"""
