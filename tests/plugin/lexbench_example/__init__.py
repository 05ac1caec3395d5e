"""One plug-in of every kind. Each file stands alone; delete any of them and the others work."""
