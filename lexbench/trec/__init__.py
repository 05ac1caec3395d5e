"""Runs and judgements as arrays, in trec_eval's order, and the files that hold them.

This package knows nothing about datasets or systems. Code that ranks, scores or exports takes `Run` and `Qrels` from here.
"""
