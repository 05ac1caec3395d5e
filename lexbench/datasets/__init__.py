"""Datasets: their contracts, where they are found, and corpora on disk."""
