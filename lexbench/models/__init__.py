"""Models on disk and in memory: from the name that a user types to a transformer that computes.

    checkpoint         the folder of a model: its files, digests, and the download from the hub
    stated_settings    settings that a folder states, read by `stated_modules` from files of sentence-transformers
    architectures      the kinds of models, with `loading` (tensors), `lora` (adapters), `added_terms`, `wordpiece` (tokens)
    native             architectures that lexbench computes itself: BERT, ModernBERT and GTE's BERT, one file each
    token_batches      texts as batches of tokens
    transformer_model  models in memory, with `int8` and `dtype_speed`
    local_model        the base class of plug-ins that run one, and what a model has learned from
    pair_scoring       query and document read together
    served             models behind an address

Encoders, rerankers, judges and LexMAE's training use them. No code of a checkpoint is run, and nothing is unpickled.
"""
