"""Where datasets come from: every module is a plug-in of the group `sources`, see `lexbench.datasets.source`."""
