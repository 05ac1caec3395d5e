"""Runs and judgements as arrays, in trec_eval's order, and the files that hold them.

    runs          ranked lists, the order of ties; run files of TREC and MS MARCO
    qrels         judgements; qrels files of TREC, MS MARCO and BEIR
    judged_run    the judged documents of a run with their ranks: all that measures look at
    ids           document ids as bytes, and as codes that sort like ties
    columns       text files of columns

This package knows nothing about datasets or systems. Code that ranks, scores or exports takes `Run` and `Qrels` from here.
"""
