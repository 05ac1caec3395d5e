"""Training: the work of a recipe in order, pretraining, the stages of fine-tuning, and going on after a stop.

    plan        the parts of a recipe's work, what each needs, and doing them
    estimate    operations, time, memory and disk of each part, before any of it is done
    pretrain    the lexicon-bottlenecked masked autoencoder (paper, section 3)
    finetune    a stage of fine-tuning (paper, section 3.4 and appendix A)
    stages/     the kinds of stages, one file each: their examples, batches and loss
    teachers/   the kinds of frozen rerankers that a stage can learn from, one file each
    kinds       finding the files of these two
    selection   choosing the best model of a stage, on queries that no table reports
    trainer     transformers' Trainer, with LexMAE's losses and order of texts
    resuming    the state of a training while it goes on
    processes   one process, or those that torchrun starts
    publishing  the finished folder of a model, with its card

The command line takes `plan` and `estimate`, and nothing else need be known to train.
"""
