"""Encodings: the vectors of a corpus, made shard by shard, stored, and read in position order.

`encoding` makes them, `shards` is their format on disk, and `counts` describes them in numbers. All three are for other
packages.
"""
