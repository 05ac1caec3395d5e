"""The weights of lexmae_doc, and the entry of lexbench's catalogue that names them; there is no code."""
