"""The work behind `lexbench verify`: measured scores against published ones of the same system, dataset and measure."""
