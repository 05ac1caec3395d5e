"""The store of finished work, how files are written and read, and the machine that they were made on.

This package knows nothing of datasets or systems; every other package may use it.
"""
