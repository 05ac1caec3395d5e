"""Checkpoints: what the folder of a trained model holds, and how it is read. Nothing here is computed with a model.

From a name to tensors: `hub` finds or downloads the folder, `files` says which files it has and their digests, `settings` how
the model is to be encoded with, `weights` and `pretrained` read tensors, tokenizers and whole models. One module for each kind
of model puts these together: `masked_lm` (LexMAE, SPLADE), `body` (dense, late interaction, term weights), `classifier`
(cross-encoders). Other packages may import any of these; those that run models are `lexbench.neural`, encoders, rerankers and
the training. No code of a checkpoint is run, and nothing is unpickled.
"""
