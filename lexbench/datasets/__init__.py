"""Datasets: where their data are found, how they are read and checked, and corpora on disk.

    dataset          a dataset that was found and checked: `open_dataset`
    location         where the data of a contract, of a folder or of a name are
    sources          plug-ins that read data: the user's files, ir_datasets, the Hugging Face hub, the docstrings of Python
    records          lines of documents, queries and topics, and how fields become one text
    corpus           documents on disk, in the order of positions
    passages         a corpus whose documents are windows of another corpus
    expansion        text that others generated for documents
    digests          the digests of corpora, queries and qrels that contracts expect
    contamination    whether texts that a model learned from are those of a dataset
    docstrings       the documents of `pydoc`

Other packages use `open_dataset` and stored corpora. Only `location` knows which source a dataset comes from.
"""
