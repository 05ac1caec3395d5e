"""The weights of lexmae_mini, and the entry of lexbench's catalogue that names them; there is no code."""
