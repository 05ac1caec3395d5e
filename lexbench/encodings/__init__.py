"""Encodings: the vectors of a corpus, made shard by shard, kept, and read in position order."""
