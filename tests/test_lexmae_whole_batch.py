"""A batch in several processes or pieces: losses and gradients are those of the whole batch in one process.

`pytest -s` with this file prints the largest differences.
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("accelerate", reason="training is in the extra train")

import tiny_recipes
import torch
from checkpoints import masked_lm, random_model
from topics import VOCABULARY, Process, write
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from lexbench.artifacts.graph import Graph
from lexbench.display.progress import Progress
from lexbench.lexmae import recipe
from lexbench.lexmae.data.masking import MaskedTexts, Masking, collate
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import open_corpus
from lexbench.lexmae.model import start
from lexbench.lexmae.model.autoencoder import MaskedAutoencoder
from lexbench.lexmae.model.encoder import LexiconEncoder, load, load_encoder
from lexbench.lexmae.recipe.settings import Hardware, Imitation, Ranking, Selection
from lexbench.lexmae.training import imitation, query_table, ranking, selection
from lexbench.lexmae.training.finetune import FineTuner, StageData, table_of
from lexbench.models.added_terms import ExactTerms
from lexbench.storage.store import Store

SYSTEM = "ensemble(bm25, bm25(k1=2.0))"
STAGES = {
    "stage 1": {"contrast": "in_batch"},
    "stage 1 of the paper": {"contrast": "own"},
    "stage 3": {"contrast": "in_batch", "teacher": "dense", "contrast_weight": 0.2},
    "stage 3 with a system": {"contrast": "in_batch", "teacher": SYSTEM},
    "stage 3 with a system and own lists": {"contrast": "own", "teacher": SYSTEM},
}
OTHERS = ("pretraining", "pretraining without a decoder", "imitation", "imitation of states", "ranking", "ranking by a table")
ARRANGED = {"two processes": (2, 1), "two pieces": (1, 2), "two processes, two pieces": (2, 2)}
EXAMPLES = 8
SELECTED = "scores for selection"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with the collection and a dense teacher."""
    place = write(tmp_path_factory.mktemp("whole"))
    masked_lm(place / "dense", vocabulary=VOCABULARY, seed=3)
    (place / "dense" / "modules.json").write_text("[]")
    return place


@cache
def stage_data(name):
    """Return the data of a stage, whose folder is its own, with exact terms."""
    settings = [f"stage1.{key}={value}" for key, value in STAGES[name].items() if value != "dense"]
    asked = recipe.read(Path("tiny.toml"), ["stage1.start=start", f"output=out {name}", *settings])
    _, tokenizer = load(start.make(asked, Graph(Store())))
    return StageData(asked, 1, TextReader(tokenizer, asked.encoding), Graph(Store()))


def of_a_stage(name, share):
    """Return the learner of a stage, and the share of a batch."""
    data = stage_data(name)
    words = torch.ones(len(VOCABULARY))
    encoder = LexiconEncoder(random_model("bert", vocabulary=VOCABULARY), ExactTerms(words, words, 9.0))
    settings = tiny_recipes.stage(**{"steps": 1, "lambda_d": 0.02, "lambda_q": 0.03} | STAGES[name])
    if settings.teacher == "dense":
        data.teacher = lambda queries, texts: torch.tensor(
            [float(len(set(query.split()) & set(text.text.split()))) for query, text in zip(queries, texts, strict=True)]
        )
    learner = FineTuner(encoder, settings, 10, data.teacher_scores if data.teacher else None)
    drawn = [data.draw(7 * number, np.random.default_rng(number)) for number in range(EXAMPLES)]
    return learner, {**data.collate(drawn[share]), "step": 3}


def of_pretraining(name, share):
    """Return the learner of pretraining, and the share of a batch. Texts have different numbers of masked words."""
    settings = tiny_recipes.pretraining(decoder_layers=0 if "without" in name else 2)
    reader, corpus = texts()
    masked = MaskedTexts([corpus], Masking(settings, 4, len(VOCABULARY)), [0, 1, 2, 3, 4], [2, 3])
    drawn = [masked.example(number, np.random.default_rng(number)) for number in range(EXAMPLES)]
    model = random_model("bert", vocabulary=VOCABULARY)
    torch.manual_seed(5)
    return MaskedAutoencoder(model, settings), collate(reader.pad)(drawn[share])


def of_imitation(name, share):
    """Return the learner of imitation, and the share of a batch. Groups of different processes have texts in common."""
    reader, corpus = texts()
    rows = [corpus[position] for position in range(20)]
    encoder, imitated = (load_encoder(Path(folder))[0].eval() for folder in ("model", "dense"))
    settings = Imitation(
        model="any", corpora=("any",), steps=1, batch_size=1, learning_rate=1.0, states=float("states" in name)
    )
    torch.manual_seed(5)
    of_states = torch.nn.Linear(32, 32) if settings.states else None
    if "ranking" not in name:
        return imitation.Imitator(encoder, imitated, settings, of_states=of_states), reader.tensors(rows[:EXAMPLES][share])
    idf = torch.linspace(0.5, 2.0, len(VOCABULARY))
    asked = Ranking(model="dense", imitated=(0.5, 1.0), distance=(0.5, 2.0), expansions=2)
    vectors = ranking.dense_vectors(rows, reader, "dense", Hardware(device="cpu"), Path(name), Progress())
    given = (rows, np.arange(20) % 2, reader, asked, vectors, np.arange(20) % 2 == 0)
    if name == "ranking":
        learner = imitation.Imitator(encoder, imitated, settings, idf, whole_counts=True)
        groups = ranking.Groups(*given)
    else:
        added = query_table.added_words(imitated, reader, asked)
        learner = query_table.TableRanker(encoder, imitated, settings, idf, added, whole_counts=True)
        groups = query_table.QueryGroups(*given)
    drawn = [np.arange(2 * number, 2 * number + 5) for number in range(EXAMPLES)]
    return learner, groups.tensors(drawn[share])


def texts():
    """Return a reader and the tokens of the collection."""
    asked = recipe.read(Path("tiny.toml"))
    reader, store = TextReader(load(Path("model"))[1], asked.encoding), Store()
    return reader, reader.corpus(open_corpus("topics", Graph(store)), Graph(store))


MADE = {
    **dict.fromkeys(STAGES, of_a_stage),
    **dict.fromkeys(OTHERS[:2], of_pretraining),
    **dict.fromkeys(OTHERS[2:], of_imitation),
}


def computed(name, rank=0, processes=1):
    """Return, by the number of pieces, the losses of a learner and its gradients as DistributedDataParallel has them."""
    each = EXAMPLES // processes
    learner, batch = MADE[name](name, slice(rank * each, (rank + 1) * each))
    learner.eval()
    called = DistributedDataParallel(learner) if processes > 1 else learner
    found = {}
    for pieces in (1, 2):
        learner.pieces = pieces
        learner.zero_grad()
        losses = called(**batch)
        losses["loss"].backward()
        gradients = {key: value.grad.clone() for key, value in learner.named_parameters() if value.requires_grad}
        found[pieces] = {key: value.item() for key, value in losses.items() if key != "usage"}, gradients
    return found


def compute(rank=0, processes=1):
    """Return what all learners compute in this process, by name and by the number of pieces."""
    return {name: computed(name, rank, processes) for name in MADE} | {SELECTED: selected()}


def compute_together(rank, processes):
    """Write what one of several processes computes."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{Path.cwd()}/meeting", rank=rank, world_size=processes)
    torch.save(compute(rank, processes), f"found.{rank}")
    return 0


def selected():
    """Return the scores of the pairs that a model is selected by, of which each process computes some documents."""
    data = stage_data("stage 1")
    settings = tiny_recipes.recipe(selection=Selection(held_out=0.2, depth=20))
    (candidates,) = selection.gather(settings, data.training_sets, Graph(Store())).sets
    reranker = selection.CandidateScorer(LexiconEncoder(random_model("bert", vocabulary=VOCABULARY)), data.reader, "fp32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_BLOCK", 16)
        assert len(candidates.positions) > 3 * selection._BLOCK
        return torch.from_numpy(reranker.scores(candidates, data.corpora[0]))


@pytest.fixture(scope="module")
def results(place):
    """Return what one process computes, which also mines the negatives of all stages, and then each of two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("LEXBENCH_STORE", str(place / "store"))
        found = {1: [compute()]}
    both = [Process(place, compute_together, rank, 2, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    for process in both:
        assert process.code() == 0, process.said
    found[2] = [torch.load(place / f"found.{rank}") for rank in range(2)]
    rows = [f"{'relative differences: losses, gradients':40}{''.join(f'{arranged:>32}' for arranged in ARRANGED)}\n"]
    for name in MADE:
        whole = found[1][0][name][1]
        cells = (
            np.max([differences(one[name][pieces], whole) for one in found[processes]], axis=0)
            for processes, pieces in ARRANGED.values()
        )
        rows.append(f"{name:40}{''.join(f'{losses:22.1e}{gradients:10.1e}' for losses, gradients in cells)}\n")
    sys.stdout.writelines(["\n", *rows])
    return found


def differences(found, whole):
    """Return the largest relative difference of a loss, and that of an element of the gradients, by the largest element."""
    (losses, gradients), (whole_losses, whole_gradients) = found, whole
    assert (losses.keys(), gradients.keys()) == (whole_losses.keys(), whole_gradients.keys())
    largest = max(float(value.abs().max()) for value in whole_gradients.values())
    assert largest > 0
    of_losses = np.max([abs(losses[key] - value) / max(abs(value), 0.01) for key, value in whole_losses.items()])
    return of_losses, np.max([(gradients[key] - value).abs().max() for key, value in whole_gradients.items()]) / largest


@pytest.mark.parametrize("arranged", ARRANGED)
@pytest.mark.parametrize("name", MADE)
def test_losses_and_gradients_are_those_of_one_process(results, name, arranged):
    """Every loss and every gradient is within 1e-4 of the whole batch's, on every process."""
    processes, pieces = ARRANGED[arranged]
    whole = results[1][0][name][1]
    assert np.max([differences(of_process[name][pieces], whole) for of_process in results[processes]]) < 1e-4


def test_selection_scores_are_those_of_one_process(results):
    """Every process has the scores of all pairs, although it encodes a share of the documents."""
    for of_process in results[2]:
        torch.testing.assert_close(of_process[SELECTED], results[1][0][SELECTED], rtol=1e-5, atol=1e-5)


def test_a_table_of_keys():
    """A value is at every row and column of its pair; pairs outside of the batch are skipped."""
    keys = {"queries": torch.tensor([7, 3, 7]), "documents": torch.tensor([5, 9, 5, 4])}
    pairs = torch.tensor([[7, 5], [3, 9], [3, 1], [8, 9]])
    assert table_of(keys, pairs, torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [
        [1.0, 0.0, 1.0, 0.0],
        [0.0, 2.0, 0.0, 0.0],
        [1.0, 0.0, 1.0, 0.0],
    ]
    assert not table_of(keys, torch.zeros((0, 2), dtype=torch.int64), torch.zeros(0)).any()
