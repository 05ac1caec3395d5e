"""Files: the store of finished work, how files are written and read, and the machine that they were made on.

    store             the store: a folder of artifacts, each named by a digest of what determines its content
    artifact_folder   the content of an artifact's folder
    atomic            writing: a file is there whole or not at all
    reading           reading: digests, lines, blocks of lines, TOML
    stopwatch         how long steps took, beside the files of an artifact
    environment       the machine and the versions of packages

This package knows nothing of datasets or systems; every other package may use it.
"""
