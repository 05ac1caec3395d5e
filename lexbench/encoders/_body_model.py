"""Models without a head for words as encoders run them: a body, and all other tensors of the checkpoint."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lexbench.checkpoints import body
from lexbench.checkpoints.files import fetch
from lexbench.neural import packing
from lexbench.neural.token_batches import Batch
from lexbench.neural.transformer_model import Place, TransformerModel, device


class BodyModel(TransformerModel):
    """The body of a checkpoint, and all other tensors of it by name."""

    def __init__(self, place: Place) -> None:
        files = body.body_files(fetch(place.name, place.revision))
        found = body.load(files, dtype=place.torch_dtype, device=device(place.device))
        super().__init__(place, found.body, found.tokenizer, found.config)
        self.width = int(found.config.hidden_size)
        self.others: Mapping[str, Tensor] = found.others
        if packing.usable(self.device.type, place.torch_dtype):
            packing.pack(self.body)

    def states(self, batch: Batch) -> Tensor:
        """Return the last hidden states (n, longest, width) of *batch*; padding is not attended to."""
        given = {"input_ids": batch.ids} | ({} if batch.types is None else {"token_type_ids": batch.types})
        inputs = {name: torch.from_numpy(array).to(self.device) for name, array in given.items()}
        mask = None if batch.real.all() else torch.from_numpy(batch.real).to(self.device)
        states: Tensor = self.body(**inputs, attention_mask=mask).last_hidden_state
        return states

    def other(self, *names: str) -> Tensor | None:
        """Return the first tensor behind the body that is called one of *names*, whatever module it is in, as float32."""
        found = (value for key, value in self.others.items() if key.rpartition("/")[2] in names)
        tensor = next(found, None)
        return None if tensor is None else tensor.float()
