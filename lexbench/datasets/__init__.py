"""Datasets: where their data are found, how they are read and checked, and corpora on disk.

Other packages use `open_dataset` and stored corpora. Only `location` knows which source a dataset comes from.
"""
