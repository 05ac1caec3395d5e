"""The models: the masked-language model that training begins with, the masked autoencoder, and the encoder that is left of it.

    start        the initial model, made of one that the recipe names: all or less of it, with or without its weights
    vocabulary   a smaller vocabulary for it
    shape        the sizes of the initial model, as far as they are known before it is made
    folders      loading and saving models as ordinary folders of transformers
    encoder      texts into weights of words (paper, Eq. 8), from the largest logit of each word (Eq. 3)
    autoencoder  pretraining's model: encoder, lexicon bottleneck, weakened decoder (Eqs. 2 to 7)
    losses       of pretraining and fine-tuning, one function each

Nothing here knows an optimiser or a store of checkpoints: that is `lexbench.lexmae.training`, which takes all of it from here.
"""
