"""Encoders: texts in, vectors out. Each module here is a plug-in of the group `encoders`, and one file adds one.

Four run a transformer: they share the base classes of `_transformer` and have their models, which need torch, in
`_vocabulary_models` and `_body_models`. Other packages get encoders by name from `lexbench.registry`; they import none of this.
"""
