"""Datasets: the contracts that decide their numbers, where their data are found, and corpora on disk.

    contracts    the facts of each dataset, `suites/datasets/<id>.toml`
    dataset      a dataset that was found and checked: `open_dataset`
    find         where the data of a contract, or of a folder of files, are
    source       what a plug-in of the group `sources` has to be
    sources      the plug-ins: files of the user's, ir_datasets, our own docstrings of Python
    corpus       documents on disk, in the order of positions
    records      the lines of documents and queries, and how fields become one text
    digests      the digests of corpora, queries and qrels that contracts expect
    expansion    text that others generated for documents
    docstrings   the documents of `pydoc`

Others take contracts, `open_dataset` and stored corpora; which source a dataset comes from is nobody's business but `find`'s.
"""
