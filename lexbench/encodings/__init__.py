"""Encodings: the vectors of a corpus, made shard by shard, stored, and read in position order.

`encode` makes them, `shards` is the format on disk, `vectors` works on vectors in memory, and `statistics` counts what they
look like. All four are for other packages.
"""
