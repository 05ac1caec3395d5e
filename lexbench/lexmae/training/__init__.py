"""Training: the tasks of a recipe in order, pretraining, the stages of fine-tuning, and resuming after an interruption.

    command     what `lexbench train` does
    plan        the tasks of a recipe, what each needs, and carrying them out
    cost        time, memory and disk space of a recipe's parts
    pretrain    the lexicon-bottlenecked masked autoencoder (paper, section 3)
    imitation   learning another sparse model's predictions
    ranking     learning to rank texts as a dense model does, in imitation
    text_head   the text head of a finished model
    finetune    one stage of fine-tuning (paper, section 3.4 and appendix A)
    selection   choosing the best model of a stage, on queries that no table reports
    trainer     transformers' Trainer with LexMAE's losses and order of texts
    resuming    the state of an unfinished training
    processes   one process, or several started by torchrun
    publishing  the finished folder of a model, with its card

The Python API imports `command`.
"""
