"""Files: where finished work is kept, how files are written and read, and what is said of the machine they were made on.

    store         folders of finished work, named by a digest of all that determines their content
    manifest      what a finished folder says of itself
    index_files   what the folder of an index has besides an engine's files
    atomic        writing: a file is there whole or not at all
    reading       reading: digests, lines, blocks of lines, TOML
    stopwatch     how long stages took, beside their files
    environment   the machine and the versions of packages
    children      processes of ours that one of ours starts

It knows nothing of datasets or systems; every package may use it.
"""
