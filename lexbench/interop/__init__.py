"""Reading and writing other tools' files."""
