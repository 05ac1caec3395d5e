"""The models: the initial masked-language model, the masked autoencoder of pretraining, and the encoder that remains of it.

    start        makes the initial model from the one that the recipe names, whole or with a smaller vocabulary
    heads        a head for a model that has none
    encoder      from texts to weights of words (paper, Eq. 8), max-pooling (Eq. 3), loading and saving
    whole_batch  one batch over several pieces and processes
    autoencoder  the model of pretraining: encoder, lexicon bottleneck, weakened decoder (Eqs. 2 to 7)
    losses       of pretraining and fine-tuning, one function each

`lexbench.lexmae.training` uses all of it. Nothing here knows optimisers or checkpoints.
"""
