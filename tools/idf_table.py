"""Write a table of query token weights, inverse document frequencies in a corpus, for the encoder `inference_free`.

    python tools/idf_table.py beir/scifact/test MODEL idf.json

MODEL is a folder with a tokenizer. A token in n of the N documents has the weight log(1 + (N - n + 0.5) / (n + 0.5)), as in
BM25. Special tokens and tokens in no document have none. Queries and judgements are not read.
"""

import argparse
import json
import math
from collections import Counter
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer

from lexbench.datasets.location import find_dataset, find_source
from lexbench.encoders.inference_free import load_tokenizer, tokenizer_file
from lexbench.models.token_batches import plain_copy

_DOCUMENTS = 1024  # tokenised at once


def table(dataset: str, tokenizer: Tokenizer) -> dict[str, float]:
    """Return the weight of each token in the documents of *dataset*."""
    contract, source = find_dataset(dataset)
    seen: Counter[int] = Counter()
    documents = 0
    texts = (document.text for document in (source or find_source(contract)).documents())
    while batch := list(islice(texts, _DOCUMENTS)):
        documents += len(batch)
        for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            seen.update(set(encoding.ids))
    weight = {token: math.log(1 + (documents - n + 0.5) / (n + 0.5)) for token, n in sorted(seen.items())}
    return {str(tokenizer.id_to_token(token)): value for token, value in weight.items()}


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="an id, a folder, or hf:ORG/NAME")
    parser.add_argument("model", type=Path, help="the folder with the tokenizer")
    parser.add_argument("file", type=Path, help="the table to write")
    chosen = parser.parse_args()
    weights = table(chosen.dataset, plain_copy(load_tokenizer(tokenizer_file(chosen.model))))
    chosen.file.write_text(json.dumps(weights, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
