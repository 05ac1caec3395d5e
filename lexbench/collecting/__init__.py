"""Test collections from a user's own documents: queries, a pool, judgements and a contract, for `lexbench collect`."""
