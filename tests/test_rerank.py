"""Retrieve and rerank, compared with the scores of transformers."""

import filecmp
import json
import pickle
import random
import re
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import checkpoints
import numpy as np
import pytest
import tiny
import torch
import transformers
from model_server import ModelServer
from workbench import BM25, RAY, opened, searched

import lexbench
from lexbench.errors import CommandError, InvalidFile, LexbenchError, MissingData
from lexbench.executors import executor
from lexbench.executors._workers import Holder, Reply, Rerankers, workers_with
from lexbench.executors.here import Here
from lexbench.models.int8 import int8_works
from lexbench.rerankers.cross_encoder import CrossEncoder
from lexbench.retrievers import rerank
from lexbench.runner import plan
from lexbench.runner.systems import system
from lexbench.storage.store import Store
from lexbench.types import Document

DOCUMENTS, QUERIES = 300, 32
WORDS = checkpoints.WORDS[4:]  # those that no stop list has


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Write two tiny cross-encoders, the second with two logits."""
    path = tmp_path_factory.mktemp("models")
    return checkpoints.cross_encoder(path / "one"), checkpoints.cross_encoder(path / "two", labels=2, seed=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a BEIR folder of 300 documents, every second one with a title, some longer than models read."""
    chance = random.Random(5)
    documents = {
        f"d{i:03d}": (chance.choice(WORDS) * (i % 2), " ".join(chance.choices(WORDS, k=1 + i % 20 * (1 + 3 * (i % 7 == 0)))))
        for i in range(DOCUMENTS)
    }
    queries = {f"q{i}": " ".join(chance.choices(WORDS, k=3)) for i in range(QUERIES)}
    judged = [(f"q{i}", f"d{j:03d}", 1) for i in range(QUERIES) for j in range(i, DOCUMENTS, 40)]
    path = tiny.write(tmp_path_factory.mktemp("words") / "words", documents, queries, judged)
    lines = [{"_id": name, "title": title, "text": text} for name, (title, text) in documents.items()]
    (path / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


@pytest.fixture(scope="module")
def bench(folder, tmp_path_factory):
    """Open the dataset in a store for all tests of this file."""
    return opened(folder, Store(tmp_path_factory.mktemp("store")))


def written(model, first=BM25, k=20, settings=""):
    """Return the system as a user types it."""
    return f'rerank({first}, cross_encoder(model="{model}"{settings}), k={k})'


@cache
def loaded(model):
    """Return the tokenizer and the model of transformers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    return tokenizer, transformers.AutoModelForSequenceClassification.from_pretrained(model).eval()


def reference(model, query, text, length=64):
    """Return the score of one pair by transformers."""
    tokenizer, network = loaded(model)
    with torch.no_grad():
        given = tokenizer([query], [text], truncation=True, max_length=length, return_tensors="pt")
        logits = network(**given).logits[0]
    return float(logits[0] if len(logits) == 1 else logits[1] - logits[0])


def same_runs(one, other):
    """Return whether two folders of runs have the same files and the same hits."""
    names = [{file.name for file in run.iterdir()} for run in (one, other)]
    return names[0] == names[1] and filecmp.cmp(one / "run.safetensors", other / "run.safetensors", shallow=False)


class Spy:
    """Records the pairs that cross-encoders score, and stops after some calls."""

    def __init__(self, monkeypatch, most=10**9):
        self.calls, self.most = [], most
        score = CrossEncoder.scored_pairs

        def counted(given, queries, documents):
            if len(self.calls) == self.most:
                raise KeyboardInterrupt
            self.calls.append([(query, document.doc_id) for query, document in zip(queries, documents, strict=True)])
            return score(given, queries, documents)

        monkeypatch.setattr(CrossEncoder, "scored_pairs", counted)


@pytest.mark.parametrize("number", [0, 1])
def test_the_candidates_come_in_the_order_of_the_models_scores(bench, models, number):
    """The top k of BM25 are reranked by the scores of transformers, with one logit and with two."""
    found = searched(bench, written(models[number], k=10))
    candidates = searched(bench, BM25, 10)
    queries = bench.dataset.queries
    for row in range(0, QUERIES, 9):
        texts = [document.text for document in bench.corpus.documents()]
        expected = {doc: reference(models[number], queries[row].text, texts[doc]) for doc in candidates[row]}
        assert len(expected) == 10
        assert found[row] == pytest.approx(expected, abs=1e-4)
        assert list(found[row]) == sorted(expected, key=expected.get, reverse=True)
        assert list(found[row]) != list(candidates[row])


def test_equal_scores_leave_the_lower_position_first(bench, models, tmp_path):
    """Documents with equal scores are in the order of their positions."""
    checkpoints.rewrite(checkpoints.cross_encoder(tmp_path), lambda state: {key: value * 0 for key, value in state.items()})
    for scored in searched(bench, written(tmp_path)):
        assert set(scored.values()) == {0.0}
        assert list(scored) == sorted(scored)


def test_titles_can_be_separated(bench, models):
    """With titles="string" a separator is between title and body, if there is a title."""
    plain, apart = (searched(bench, written(models[0], settings=f', titles="{titles}"')) for titles in ("off", "string"))
    query = bench.dataset.queries[0].text
    documents = {doc: next(bench.corpus.documents(doc, doc + 1)) for doc in plain[0]}
    titled = {doc: one for doc, one in documents.items() if one.title}

    assert 0 < len(titled) < len(documents)
    for doc, one in documents.items():
        text = f"{one.title}[SEP]{one.body}" if one.title else one.text
        assert apart[0][doc] == pytest.approx(reference(models[0], query, text), abs=1e-4)
        assert (apart[0][doc] == pytest.approx(plain[0][doc], abs=1e-4)) == (doc not in titled)


def test_the_longer_text_of_a_pair_is_cut_first(models):
    """A long query and a long document are cut to halves; with a short query only the document is cut."""
    long, document = "query " * 80, Document("d", "dense " * 80)
    found = CrossEncoder(str(models[0])).score([long], [document])[0]
    shorter = CrossEncoder(str(models[0]), length=10).score(["query"], [document])[0]

    assert found == pytest.approx(reference(models[0], "query " * 30, "dense " * 31), abs=1e-4)
    assert shorter == pytest.approx(reference(models[0], "query", "dense " * 6), abs=1e-4)


@pytest.mark.parametrize("architecture", ["distilbert", "roberta", "modernbert"])
def test_other_architectures_read_pairs_as_their_tokenizers_make_them(tmp_path, architecture):
    """Models with two separators, without segments, or with shifted positions score like in transformers."""
    model = checkpoints.cross_encoder(tmp_path, architecture)
    texts = ["ab", "cde " * 40, "f"]
    expected = [reference(model, "abc", text, 62 if architecture == "roberta" else 64) for text in texts]
    found = CrossEncoder(str(model)).score(["abc"] * 3, [Document("d", text) for text in texts])

    assert found == pytest.approx(expected, abs=1e-4)


def test_a_model_for_texts_of_any_length(tmp_path):
    """XLNet states -1 positions."""
    sizes = {
        "vocab_size": len(checkpoints.VOCABULARY),
        "d_model": 32,
        "n_layer": 1,
        "n_head": 2,
        "d_inner": 64,
        "pad_token_id": 0,
    }
    torch.manual_seed(2)
    transformers.XLNetForSequenceClassification(transformers.XLNetConfig(**sizes, num_labels=1)).save_pretrained(tmp_path)
    checkpoints.write_tokenizer(tmp_path, "xlnet")
    found = CrossEncoder(str(tmp_path)).score(["term"], [Document("d", "weight " * 90)])

    assert found == pytest.approx([reference(tmp_path, "term", "weight " * 90, 512)], abs=1e-4)


@pytest.mark.parametrize(("first", "sign"), [("entailment", -1), ("not_entailment", 1)])
def test_names_of_labels_say_which_logit_means_relevant(tmp_path, first, sign):
    """A model of entailment has that label first; transformers' difference, second minus first, is then the other way round."""
    model = checkpoints.cross_encoder(tmp_path, labels=2)
    second = {"entailment": "not_entailment", "not_entailment": "entailment"}[first]
    checkpoints.reconfigure(model, id2label={"0": first, "1": second}, label2id={first: 0, second: 1})
    found = CrossEncoder(str(model)).score(["term"], [Document("d", "weight")])

    assert found == pytest.approx([sign * reference(model, "term", "weight")], abs=1e-4)


MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}]
STATES = {"transformer_task": "sequence-classification", "module_output_name": "scores"}
SAVED = {
    "modules.json": MODULES,
    "sentence_bert_config.json": STATES,
    "config_sentence_transformers.json": {"model_type": "CrossEncoder"},
}
LENGTHS = {
    "positions": ({}, 700),
    "the tokenizer": ({"tokenizer_config.json": {"model_max_length": 600}}, 600),
    "a module": (SAVED | {"sentence_bert_config.json": STATES | {"max_seq_length": 12}}, 12),
    "a module's tokenizer": (SAVED | {"tokenizer_config.json": {"model_max_length": 20}}, 20),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_pairs_are_as_long_as_the_folder_states(tmp_path, case):
    """Without `length` a pair is cut where sentence-transformers cuts it, above 512 tokens too, and cut pairs are counted."""
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the extra test")
    files, length = LENGTHS[case]
    model = checkpoints.cross_encoder(tmp_path, max_position_embeddings=700, num_hidden_layers=1)
    for name, content in files.items():
        old = json.loads((model / name).read_bytes()) if (model / name).exists() else {}
        (model / name).write_text(json.dumps(content if isinstance(content, list) else old | content))
    texts = ["neural weight", "weight " * (length - 5), "weight " * (length - 4), "term weight " * 400]
    reranker = system(written(model)).retriever.reranker
    scores, cut = reranker.scored_pairs(["term"] * 4, [Document("d", text) for text in texts])

    assert reranker.length == length
    assert cut.tolist() == [False, False, False, True]
    identity = torch.nn.Identity()
    found = library.CrossEncoder(str(model), device="cpu").predict([("term", text) for text in texts], activation_fn=identity)
    assert scores == pytest.approx(found, abs=1e-4)


def test_cut_pairs_are_noted(models, tmp_path):
    """A result says how many pairs per query the reranker has cut, also where it is a member of another system."""
    data = {
        "corpus": {"d1": "sparse " * 90, "d2": "sparse", "d3": "dense weight " * 50},
        "queries": {"q1": "sparse", "q2": "dense sparse"},
        "qrels": {"q1": {"d1": 1}, "q2": {"d2": 1}},
    }
    reranker = written(models[0], k=3)
    systems = {
        "alone": reranker,
        "second": f"ensemble(bm25, {reranker}, depth=3)",
        "inner": f"pipeline(ensemble({reranker}, bm25, depth=3), bm25, k=3)",
    }
    results = lexbench.run(data, systems, measures=["RR@3"], store=tmp_path, depth=3)

    found = {result.system: [note.text for note in result.notes if "cut" in note.text] for result in results}
    assert found == {
        "alone": ["its reranker cut 1.50 pairs per query to its maximum length"],
        "second": ["member 2: its reranker cut 1.50 pairs per query to its maximum length"],
        "inner": ["member 1: member 1: its reranker cut 1.50 pairs per query to its maximum length"],
    }


def test_other_modules_are_no_reranker(tmp_path):
    """A reranker is a Transformer alone."""
    model = checkpoints.cross_encoder(tmp_path)
    (tmp_path / "modules.json").write_text(json.dumps([*MODULES, MODULES[0] | {"path": "1_Dense", "type": "theirs.Dense"}]))
    with pytest.raises(CommandError, match=r"a model of Transformer and theirs\.Dense; a reranker of lexbench is"):
        CrossEncoder(str(model)).identity()


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_in_a_smaller_type_scores_are_nearly_the_same(models, dtype):
    """Smaller types change scores only by rounding."""
    if dtype == "int8" and not int8_works():
        pytest.skip("this torch has no int8 products for this processor")
    documents = [Document("a", "neural search"), Document("b", "lexical dense retrieval")]
    encoders = [CrossEncoder(str(models[0]), dtype=one, device="cpu") for one in ("float32", dtype)]
    exact, rounded = (encoder.score(["term"] * 2, documents) for encoder in encoders)

    assert rounded.dtype == np.float32
    assert 0 < np.abs(rounded - exact).max() < 0.1 * np.abs(exact).max()


def test_any_retriever_can_find_candidates(bench, models):
    """Ensembles, pipelines and other rerankers can find the candidates."""
    for first in (f"ensemble({BM25}, bm25(k1=2.0))", f"pipeline({BM25}, bm25(k1=2.0), k=30)", written(models[1], k=30)):
        candidates = searched(bench, first, 12)
        found = searched(bench, written(models[0], first=first, k=12))
        assert [set(one) for one in found] == [set(one) for one in candidates]
        assert found != candidates


def test_an_interrupted_run_continues(folder, models, tmp_path, monkeypatch):
    """With k=10 a block of 150 pairs has 15 queries; after an interruption in the third, the first two are not scored again."""
    monkeypatch.setattr(rerank, "_PAIRS", 150)
    job = plan.plan_dataset(str(folder), [written(models[0], first="bm25", k=10)], ["nDCG@10"], 1000).jobs[0]
    calm = opened(folder, Store(tmp_path / "calm")).run(job.system, 1000)
    with pytest.MonkeyPatch.context() as patch:
        Spy(patch, most=2)
        with pytest.raises(KeyboardInterrupt):
            opened(folder, Store(tmp_path / "hurried")).run(job.system, 1000)
    (draft,) = (tmp_path / "hurried" / "runs").iterdir()
    parts = sorted(path.name for path in draft.iterdir())
    spy = Spy(monkeypatch)
    bench = opened(folder, Store(tmp_path / "hurried"))
    run = bench.run(job.system, 1000)

    assert parts == ["part-0000000-0000015.safetensors", "part-0000015-0000030.safetensors"]
    assert {query for query, _ in spy.calls[0]} <= {query.text for query in bench.dataset.queries[30:]}
    assert [len(call) for call in spy.calls] == [2 * 10]
    assert same_runs(run, calm)


@pytest.mark.parametrize(
    ("name", "served"),
    [
        pytest.param("processes(2)", True, id="processes"),
        pytest.param("processes(2)", False, id="processes, a model", marks=pytest.mark.slow),  # two imports of transformers
        pytest.param("ray", False, id="ray, a model", marks=RAY.marks),
    ],
)
def test_executors_score_the_same_bits(name, on, served, folder, models, tmp_path):
    """Runs scored by an executor have the bytes and the folder name of runs without.

    Here processes ask a server. That models can be sent to a process is also in `test_rerankers_in_members_score_on_executors`.
    """
    made = f'rerank(bm25, endpoint_reranker(url="{ModelServer(info=True).url}"), k=30)' if served else written(models[0], k=100)
    runs = []
    for place, workers in (("alone", None), ("elsewhere", executor(on))):
        bench = opened(folder, Store(tmp_path / place), workers)
        runs.append(bench.run(system(made), 1000))

    assert runs[0].name == runs[1].name
    assert same_runs(*runs)


class WorkerHere(Here):
    """An executor whose one worker is this process, which gets all as another one would; *held* gets the rerankers."""

    def __init__(self, held):
        object.__setattr__(self, "held", held)

    @contextmanager
    def reranking_workers(self, rerankers, _note):
        """Yield this process."""
        self.held.extend(rerankers)
        holder = Holder()

        def ask(method, *arguments):
            return Reply(getattr(holder, method)(*pickle.loads(pickle.dumps(arguments))))

        direct = SimpleNamespace(ask=ask, end=lambda: None)
        with workers_with(Rerankers(tuple(rerankers)), 1, lambda: direct, print) as workers:
            yield workers


@pytest.mark.parametrize(
    "text",
    ["ensemble({0}, {1}, scores='raw')", "pipeline({0}, {2}, k=5)", "rerank({0}, cross_encoder(model='{3}'), k=4)"],
    ids=["ensemble of two", "pipeline", "a reranker of a reranker"],
)
def test_rerankers_in_members_score_on_executors(text, folder, models, tmp_path):
    """All pairs of each reranker in a fusion are scored by the executor, none while searching."""
    parts = written(models[0], k=6), written(models[0], first="bm25(k1=0.1, b=1.0)", k=6), BM25, models[1]
    named = system(text.format(*parts))
    runs, scored, held = [], [], []

    for place, on in (("alone", None), ("elsewhere", WorkerHere(held))):
        with pytest.MonkeyPatch.context() as patch:
            spy = Spy(patch)
            runs.append(opened(folder, Store(tmp_path / place), on).run(named, 100))
            scored.append(sorted(pair for call in spy.calls for pair in call))

    assert scored[0] == scored[1]
    assert {one.model for one in held} == {str(models[0]), *([str(models[1])] if "cross_encoder" in text else [])}
    assert same_runs(*runs)


def test_models_share_the_index_and_not_the_run(folder, models, tmp_path):
    """Another model, length or k makes another run of the same index; another path or batch size does not."""
    bench = opened(folder, Store(tmp_path))
    (tmp_path / "copy").mkdir()
    copy = checkpoints.cross_encoder(tmp_path / "copy")
    given = [(models[0], "", 5), (models[1], "", 5), (models[0], ", length=32", 5), (models[0], "", 4)]
    runs = {bench.run(system(written(model, settings=settings, k=k)), 100) for model, settings, k in given}
    same = bench.run(system(written(copy, settings=", batch_tokens=99", k=5)), 100)

    assert len(runs) == 4
    assert same in runs
    assert len(list((tmp_path / "indexes").glob("*-*"))) == 1  # BM25's


def test_a_catalogued_reranker_is_called_by_its_name(models, tmp_path, monkeypatch):
    """The name of a reranker in the catalogue stands for the reranker with its settings."""
    lines = ["schema = 1", 'name = "little"', 'summary = "s"', 'encoder = "cross_encoder"', 'family = "reranker"']
    lines += ['weights = "public"', 'source = "s"', 'paper = "p"', "[settings]", f'model = "{models[0]}"', "length = 32"]
    (tmp_path / "little.toml").write_text("\n".join(lines))
    monkeypatch.setenv("LEXBENCH_MODELS", str(tmp_path))

    named = system("rerank(bm25, little, k=5)")
    assert named.recipe == system(written(models[0], first="bm25", k=5, settings=", length=32")).recipe
    assert named.name == "rerank(bm25, little, k=5)"


def changed(change):
    """Return a function that writes a model with weights that *change* returns."""
    return lambda path: checkpoints.rewrite(checkpoints.cross_encoder(path), change)


def activated(path, labels, about=None, **config):
    """Write a model with an activation, in config.json or in the file of sentence-transformers."""
    model = checkpoints.reconfigure(checkpoints.cross_encoder(path, labels=labels), **config)
    (model / "config_sentence_transformers.json").write_text(json.dumps({"activation_fn": about}))
    return model


def with_prompt(path):
    """Write a model that puts a prompt before queries."""
    checkpoints.cross_encoder(path)
    (path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "query: "}}))


@pytest.mark.parametrize(
    ("write", "kind", "said"),
    [
        (lambda path: checkpoints.masked_lm(path, "bert"), CommandError, "BertForMaskedLM is no *ForSequenceClassification"),
        (lambda path: checkpoints.cross_encoder(path, labels=3), CommandError, "it has 3 logits; a reranker has one, or two"),
        (with_prompt, CommandError, "it puts a prompt before texts"),
        *(
            (
                lambda path, labels=labels, change=change: activated(path, labels, **change),
                CommandError,
                f"its activation {name}",
            )
            for labels, name, change in (
                (1, "torch.nn.Softmax", {"sentence_transformers": {"activation_fn": "torch.nn.Softmax"}}),
                (2, "torch.nn.modules.activation.ReLU", {"about": "torch.nn.modules.activation.ReLU"}),
                (1, "theirs.Negative", {"sbert_ce_default_activation_function": "theirs.Negative"}),
            )
        ),
        (
            lambda path: checkpoints.reconfigure(checkpoints.cross_encoder(path), auto_map={"AutoModel": "x.Y"}, scores="all"),
            CommandError,
            "(auto_map) that lexbench does not know: scores; type unknown_ok=True to ignore them",
        ),
        (
            lambda path: checkpoints.reconfigure(
                checkpoints.cross_encoder(path), auto_map={"AutoModel": "x.Y"}, model_type="x"
            ),
            InvalidFile,
            "the model does not load (",
        ),
        (
            lambda path: checkpoints.cross_encoder(path, type_vocab_size=1),  # and its tokenizer marks the second text
            LexbenchError,
            "the model cannot score a pair (IndexError: index out of range in self); take another reranker",
        ),
        (Path.mkdir, MissingData, "no config.json"),
        (
            changed(lambda state: {key: value for key, value in state.items() if "classifier" not in key}),
            InvalidFile,
            "2 weights are missing (classifier.bias); a reranker needs all of them",
        ),
        (
            changed(lambda state: {key: value * float("nan") for key, value in state.items()}),
            LexbenchError,
            "gives scores that are not numbers; its weights are damaged",
        ),
    ],
)
def test_other_and_damaged_models_are_refused(tmp_path, write, kind, said):
    """A model that is no reranker, or has damaged weights, gives an error of one line. Only damage is found while scoring."""
    write(tmp_path / "model")

    def use():
        reranker = system(written(tmp_path / "model")).retriever.reranker
        return reranker.identity(), reranker.score(["a"], [Document("d", "b")])

    with pytest.raises(kind, match=re.escape(said)) as caught:
        use()
    assert "\n" not in str(caught.value)
