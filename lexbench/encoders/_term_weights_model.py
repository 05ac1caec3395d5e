"""Checkpoints as `term_weights` runs them: a body, and a projection of each token's state onto one number."""

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional

from lexbench.checkpoints import body
from lexbench.checkpoints.files import fetch
from lexbench.errors import InvalidFile
from lexbench.neural import packing
from lexbench.neural.token_batches import Batch
from lexbench.neural.transformer_model import Place, TransformerModel, device

_HEAD = "tok_proj"  # (1, h) and (1,), as COIL's authors call it


class Model(TransformerModel):
    """A body with the projection, and its tokenizer."""

    def __init__(self, place: Place) -> None:
        files = body.body_files(fetch(place.name, place.revision))
        found = body.load(files, dtype=place.torch_dtype, device=device(place.device))
        super().__init__(place, found.body, found.tokenizer, found.config)
        heads = {name.rpartition(".")[2]: tensor for name, tensor in found.others.items() if f"{_HEAD}." in name}
        width = int(found.config.hidden_size)
        if {name: tuple(tensor.shape) for name, tensor in heads.items()} != {"weight": (1, width), "bias": (1,)}:
            shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in found.others.items() if _HEAD in name)
            raise InvalidFile(
                f"{files.place}: a model that weighs terms has {_HEAD}.weight (1, {width}) and {_HEAD}.bias (1,), and here is "
                f"{shapes or 'neither'}; give a uniCOIL"
            )
        self.weight: Tensor = heads["weight"]
        self.bias: Tensor = heads["bias"]
        self.first = int(self.tokenizer.cls_token_id)
        self.vocabulary = int(found.body.get_input_embeddings().num_embeddings)  # type: ignore[operator]
        if packing.usable(self.device.type, place.torch_dtype):
            packing.pack(self.body)

    @torch.inference_mode()
    def vectors(self, batch: Batch) -> sparse.csr_array:
        """Return the vectors (n, vocabulary), float32, indices sorted: of a token's repeats the largest weight, if above 0.

        NaN stays, so that it can be found.
        """
        ids = torch.from_numpy(batch.ids).to(self.device)
        mask = None if batch.real.all() else torch.from_numpy(batch.real).to(self.device)
        states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = functional.linear(states, self.weight, self.bias).relu().squeeze(-1).float().cpu().numpy()
        rows, places = np.nonzero(batch.pools & ~(weights <= 0))
        keys = rows * self.vocabulary + batch.ids[rows, places]
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        largest = np.maximum.reduceat(weights[rows, places][order], starts) if len(starts) else np.zeros(0, np.float32)
        rows, terms = np.divmod(keys[order][starts], self.vocabulary)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(batch.ids)))])
        return sparse.csr_array((largest, terms, offsets), shape=(len(batch.ids), self.vocabulary))
