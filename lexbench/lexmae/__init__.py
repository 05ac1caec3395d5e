"""LexMAE itself: pretraining, hard-negative mining, and the stages of fine-tuning (T. Shen et al., ICLR 2023).

    recipe    what is trained on what, and how: one TOML file; everything below is told by it
    cards     what a trained folder says of itself
    data      corpora, training queries, negatives and batches
    model     the initial model, the masked autoencoder (paper, section 3) and the encoder that is left of it
    training  pretraining, the stages of fine-tuning (section 3.4 and appendix A), and going on after a stop

Each takes from those above it and from none below. Other packages take `recipe`, `training.plan` and `training.estimate` to
train, and `cards.card` to read what a trained folder says.

What is not LexMAE's own is transformers': models, and the Trainer with its mixed precision, devices, checkpoints and resuming.
"""
