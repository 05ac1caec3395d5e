"""LexMAE training: pretraining, hard-negative mining, and the stages of fine-tuning (T. Shen et al., ICLR 2023).

    recipe      what is trained on what, and how: one TOML file
    card        the model card and the facts of a training, in the trained folder
    provenance  which recipe made a folder
    data        corpora, training queries, negatives and batches
    model       the initial model, the masked autoencoder (paper, section 3), the encoder and the losses
    training    pretraining, the stages of fine-tuning (section 3.4 and appendix A), resuming after an interruption

Each imports from those above it only. The command line imports `recipe` and `training.plan`. Models, mixed precision,
devices and checkpoints come from transformers and its Trainer.
"""
