"""LexMAE itself: pretraining, hard-negative mining, and the stages of fine-tuning (T. Shen et al., ICLR 2023).

    recipe     what is trained on what, and how: one TOML file
    start      the masked-language model that training begins with
    pretrain   the lexicon-bottlenecked masked autoencoder (paper, section 3)
    negatives  what a retriever finds that is not relevant, kept as ordinary runs
    finetune   one stage of contrastive learning (paper, section 3.4 and appendix A)

What is not LexMAE's own is transformers': models, and the Trainer with its mixed precision, devices, checkpoints and resuming.
"""
