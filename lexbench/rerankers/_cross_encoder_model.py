"""Cross-encoders as `cross_encoder` runs them: which files they are, and the model in memory, loaded once a process."""

import torch

from lexbench.checkpoints.classifier import ROLE, classifier, classifier_files
from lexbench.checkpoints.masked_lm import check_tokens, tokenizer_of
from lexbench.neural import packing
from lexbench.neural.frozen import Frozen
from lexbench.neural.transformer_model import Place, TransformerModel, device


class CrossEncoderModel(TransformerModel):
    """A sequence classifier on its device, in its type."""

    def __init__(self, place: Place) -> None:
        files = classifier_files(place.name, place.revision)
        tokenizer = tokenizer_of(files)
        model = classifier(files.place, ROLE).to(place.torch_dtype)
        check_tokens(tokenizer, model.get_input_embeddings().num_embeddings, files)
        super().__init__(place, model, tokenizer, model.config)
        self.longest = min(tokenizer.model_max_length, self.longest or tokenizer.model_max_length)
        if packing.usable(self.device.type, place.torch_dtype):
            packing.pack(model)
        self.frozen = Frozen(model, tokenizer, torch.device(device(place.device)), place.torch_dtype)
