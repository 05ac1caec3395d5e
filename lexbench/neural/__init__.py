"""Neural models at inference: what encoders, rerankers and the training have in common when they run a transformer.

`token_batches` makes batches of texts, `transformer_model` holds models in memory on their device, `cross_encoder` scores pairs
of query and document. Any package above may import these; what a model's files hold is `lexbench.checkpoints`.
"""
