"""Runs and judgements as arrays, in trec_eval's order, and the files that the field exchanges them in.

    runs      ranked lists; TREC's and MS MARCO's run files
    qrels     judgements; TREC's, MS MARCO's and BEIR's qrels files
    judged_run    where the judged documents of a run stand: all that measures look at
    order     the order of ties: score, then document id, both descending
    ids       document ids as bytes, and as codes whose order is that of ties
    columns   text files of columns, read with numpy

It knows nothing of datasets or systems; whatever ranks, scores or exports takes `Run` and `Qrels` from here.
"""
