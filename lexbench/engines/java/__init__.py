"""Lucene in a Java virtual machine within this process: what all that searches by Lucene takes from here."""
