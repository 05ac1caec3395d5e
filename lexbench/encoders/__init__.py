"""Encoders: texts in, vectors out. Each module is a plug-in of the group `encoders`, and one file adds one.

Encoders that run a transformer share the base classes of `_transformer`; `_torch_models` has their computation and needs torch.
Other packages get encoders by name from `lexbench.registry` and import nothing from here.
"""
