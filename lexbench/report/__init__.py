"""Results made readable: one model of a table, written for terminals, Markdown and notebooks. Pure: results in, text out."""
