"""Plug-ins that read datasets (group `sources`). The protocols are `lexbench.datasets.source`."""
