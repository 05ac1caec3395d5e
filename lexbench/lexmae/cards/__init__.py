"""What a trained folder says of itself, for people and for programs.

    facts       what is told of a training beyond its recipe: data seen, losses, choice of the model, scores, limits
    card        README.md, a model card as the Hugging Face hub reads them; training.json, the same for programs; and how to
                encode, in config.json
    provenance  recipe.json, the settings that decided the weights: no other recipe takes the folder for its own

`lexbench.lexmae.training` writes all of it when a model is finished; the initial model is compared by `provenance` too. Other
packages take `card.finish` and `card.read`.
"""
