"""What a system had seen of a dataset in training: zero-shot, corpus seen, in-domain, or unknown."""

import json

import msgspec
import pytest
import samples
import tiny
from tiny import answer, ended

import lexbench
from lexbench import catalog
from lexbench.analysis.seen_in_training import contamination
from lexbench.analysis.seen_in_training import notes as exposures
from lexbench.cli import code
from lexbench.contracts import all_contracts, contract_of
from lexbench.datasets.dataset import open_dataset
from lexbench.encoders.dense import Dense
from lexbench.engines.flat import Flat
from lexbench.errors import MissingData
from lexbench.models.local_model import training_data
from lexbench.notation import parse
from lexbench.results import Exposure, Result, write_results
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.exposure import exposure_of, exposure_of_entry, exposure_to, least_exposure
from lexbench.runner.origin_checks import impossible_origin
from lexbench.runner.plan import plan_dataset
from lexbench.runner.systems import System, system
from lexbench.types import TrainingData

pytestmark = pytest.mark.usefixtures("open_contracts")

CARD = "---\nlanguage: en\ndatasets:\n- ms_marco\n- natural_questions\n- s2orc\ntags:\n- x\n---\n\n# Card\n"


def trained(queries=(), texts=(), chosen=()):
    """Return the training data of a model."""
    return TrainingData(tuple(queries), tuple(texts), (), "its card", chosen=tuple(chosen))


def of_encoder(encoder):
    """Return a system of an encoder without weights."""
    return System("mine", Encoded(encoder, Flat()), {})


def write_training(folder, uses, recipe, what="stage1", **facts):
    """Write a training.json of the model *what*: the *uses* of datasets by their ids, and the *recipe*."""
    data = [{"dataset": dataset, "use": use} for dataset, use in uses.items()]
    (folder / "training.json").write_text(json.dumps({"what": what, "recipe": recipe, "facts": {"data": data, **facts}}))


@pytest.mark.parametrize(
    ("data", "dataset", "status"),
    [
        (trained(["beir/scifact/train"]), "beir/scifact/test", "in-domain"),  # another split of the corpus
        (trained(texts=["beir/nfcorpus/train"]), "beir/nfcorpus/test", "corpus seen"),
        (trained(["beir/scifact/train"]), "beir/nfcorpus/test", "zero-shot"),
        (trained(["msmarco-passage/train/judged"]), "msmarco-passage-titled/dev/small", "in-domain"),
        (trained(["msmarco-passage/train/judged"]), "msmarco-document/trec-dl-2019/judged", "in-domain"),
        (trained(["msmarco"]), "beir/nq", "zero-shot"),
        (trained(["natural-questions"]), "beir/nq", "in-domain"),
        (trained(texts=["wikipedia"]), "beir/nq", "corpus seen"),
        (trained(["fever"]), "beir/climate-fever", "corpus seen"),  # other claims over the same passages
        (trained(["beir/fever/test"]), "beir/climate-fever", "corpus seen"),
        (trained(["pydoc/dev"]), "pydoc/test", "in-domain"),
        (trained(["build/docstrings"]), "beir/scifact/test", "zero-shot"),
        (trained(chosen=["beir/scifact/train"]), "beir/scifact/test", "corpus seen"),  # chosen by judgements of another split
        (trained(chosen=["beir/scifact/train"]), "beir/nfcorpus/test", "zero-shot"),
    ],
)
def test_collections_are_matched_by_their_corpus(data, dataset, status):
    """Training on one split counts for another, and so does a collection with the same texts under another name."""
    found = exposure_to(data, contract_of(dataset), "m")

    assert found.status == status
    assert bool(found.because) == (status != "zero-shot")


# Nobody has written down yet what these were trained on; their exposure is unknown.
UNRECORDED = {
    *("granite_30m_sparse", "linkup_sparseup_v1", "opensearch_doc_v3_gte", "opensearch_v1", "opensearch_v2_distill", "slideon"),
    *("splade_code_600m", "splade_code_8b", "splade_pp_en_v2"),
}
UNDISCLOSED = {"answerai_colbert_small", "mxbai_embed_large"}  # their authors do not say, and their notes say so


def test_every_public_model_of_the_catalogue_states_its_training_data():
    """A model with public weights states its training data unless its authors do not; names refer to known datasets."""
    for name in catalog.names():
        entry = catalog.model(name)
        assert entry.training or entry.weights != "public" or not entry.encoder or name in UNDISCLOSED | UNRECORDED, name
        assert not (entry.training and name in UNDISCLOSED | UNRECORDED), name
        collections = [*entry.training.queries, *entry.training.texts] if entry.training else []
        assert all("/" not in collection or collection in all_contracts() for collection in collections), name


@pytest.mark.parametrize("name", sorted(UNRECORDED))
def test_unknown_training_data_are_shown_and_cannot_be_called_zero_shot(name):
    """Of a model whose training data nobody has written down, a result says "unknown"; the claim "zero-shot" is a fault."""
    expression = parse(catalog.model(name).run)
    exposure = least_exposure(expression, contract_of("pydoc/test"))
    assert (exposure.status, exposure.because) == ("unknown", [f"the catalogue does not say what {name} was trained on"])

    claimed = samples.result(str(expression), exposure=Exposure(status="zero-shot"), recipe={"plugin": "x:retrievers/encoded"})
    faults = list(impossible_origin(claimed, contract_of("pydoc/test")))
    assert f"it says zero-shot, and by the catalogue it is unknown ({exposure.because[0]})" in faults


EXPOSURES = """
minilm beir/nq in-domain; bge_base beir/nq in-domain; tas_b beir/nq zero-shot; contriever beir/nq corpus seen
bm25_anserini beir/nq zero-shot; minilm beir/scifact/test corpus seen; bge_base beir/scifact/test corpus seen
tas_b beir/scifact/test zero-shot; contriever beir/scifact/test zero-shot; tas_b msmarco-passage/dev/small in-domain
bge_base beir/hotpotqa/test in-domain; minilm beir/nfcorpus/test zero-shot; splade_v3 nano-beir/msmarco in-domain
opensearch_doc_v3_distill nano-beir/scifact in-domain; minilm nano-beir/scifact corpus seen
splade_v3 nano-beir/scifact zero-shot; bge_base beir/quora/test in-domain; minilm codesearchnet/test in-domain
bge_m3 miracl/ar/dev in-domain; mxbai_embed_large beir/scifact/test unknown
"""


@pytest.mark.parametrize("line", [one.strip() for one in EXPOSURES.replace("\n", ";").split(";") if one.strip()])
def test_the_catalogue_states_the_training_data_of_known_models(line):
    """By their cards and papers; NanoBEIR's datasets are parts of BEIR's, and some collections have several names."""
    name, dataset, status = line.split(maxsplit=2)

    assert exposure_of_entry(catalog.model(name), contract_of(dataset)).status == status


@pytest.mark.parametrize(
    ("teacher", "models"),
    [
        ("ensemble(bm25, minilm(dtype='bfloat16'), splade_tiny(model='x')|top_k(64)@impact)", ("minilm", "splade_tiny")),
        ("bm25", ()),
        ("owner/reranker", ("owner/reranker",)),
        ("run_file(path='{dataset}.trec')", ('run_file(path="{dataset}.trec")',)),
        ("pipeline(bm25, ensemble(bm25, minilm), k=5)", ("minilm",)),
        (None, ()),
    ],
)
def test_a_teacher_counts_as_the_models_in_it(tmp_path, teacher, models):
    """A teacher's expression names its models; a number of queries is not a collection."""
    recipe = {"stage1": {"queries": ["beir/scifact/train"], "teacher": teacher}, "selection": {"queries": 250}}
    write_training(tmp_path, {"beir/scifact/train": "training"}, recipe)

    assert training_data(tmp_path).models == models
    assert training_data(tmp_path).queries == ("beir/scifact/train",)


@pytest.mark.parametrize(
    ("what", "models", "queries"),
    [
        ("pretrained", ("start",), ()),
        ("imitated", ("start", "imitated", "ranks"), ()),
        ("stage1", ("start",), ("a",)),
        ("stage2", ("start", "taught"), ("b",)),
        ("stage3", ("start", "ranker"), ("c", "a")),
    ],
)
def test_only_what_the_weights_come_from_counts(tmp_path, what, models, queries):
    """Each model of a recipe has learned from what it starts from, and from nothing else in the recipe."""
    stages = [("a", "pretrained", None), ("b", "pretrained", "taught"), ("c", "stage1", "ranker")]
    recipe = {
        f"stage{number}": {"queries": [name], "start": start, "teacher": teacher}
        for number, (name, start, teacher) in enumerate(stages, 1)
    }
    sections = {
        section: {"model": model} for section, model in (("start", "start"), ("imitation", "imitated"), ("ranking", "ranks"))
    }
    write_training(tmp_path, {}, {**sections, **recipe}, what=what)

    assert training_data(tmp_path)[:3] == (queries, (), models)


@pytest.mark.parametrize(
    ("base", "status"),
    [("BAAI/bge-base-en-v1.5", "in-domain"), ("meta-llama/Llama-2-7b-hf", "zero-shot"), ("someone/something", "unknown")],
)
def test_an_adapter_inherits_the_training_data_of_its_base(tmp_path, base, status):
    """An adapter inherits from its base: a retriever's training data, nothing from a language model, otherwise unknown."""
    (tmp_path / "README.md").write_text(CARD.replace("- ms_marco\n- natural_questions\n", ""))
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    adapter = of_encoder(Dense(str(tmp_path), pooling="cls"))

    assert training_data(tmp_path).models == (base,)
    dataset = "beir/hotpotqa/test" if status == "in-domain" else "beir/fiqa/test"
    assert exposure_of(adapter, contract_of(dataset)).status == status


def test_the_head_of_a_card_is_read(tmp_path):
    """Collections under `datasets:` are read, with contracts' names where known; without a head there are none."""
    (tmp_path / "README.md").write_text(CARD)
    assert training_data(tmp_path).queries == ("msmarco", "natural-questions", "s2orc")
    (tmp_path / "README.md").write_text("# A card\n\ndatasets:\n- ms_marco\n")
    assert training_data(tmp_path) is None


def test_a_model_inherits_the_training_data_of_its_start(tmp_path):
    """A model trained on SciFact from MiniLM is in-domain on SciFact and NQ, and zero-shot on ArguAna.

    It was chosen by judgements of NFCorpus.
    """
    uses = {"pydoc/dev": "pretraining", "beir/scifact/train": "training", "beir/nfcorpus/train": "selection"}
    stage = {"queries": ["beir/scifact/train"], "teacher": "build/minilm"}
    recipe = {"start": {"model": "build/minilm"}, "pretrain": {"corpora": ["pydoc/dev"]}, "stage1": stage}
    write_training(tmp_path, uses, recipe, hub_names={"build/minilm": "sentence-transformers/all-MiniLM-L6-v2"})
    mine = of_encoder(Dense(model=str(tmp_path), pooling="mean"))
    found = {name: exposure_of(mine, contract_of(name)) for name in NAMES}

    assert [found[name].status for name in NAMES] == ["in-domain", "corpus seen", "in-domain", "zero-shot", "corpus seen"]
    assert found["beir/scifact/test"].because[0] == f"{tmp_path.name} was trained on beir/scifact/train (its training.json)"
    chosen = f"{tmp_path.name} was chosen by judgements of beir/nfcorpus/train (its training.json)"
    assert found["beir/nfcorpus/test"].because == [chosen]


NAMES = ("beir/scifact/test", "pydoc/test", "beir/nq", "beir/arguana", "beir/nfcorpus/test")


def test_without_information_the_exposure_is_unknown(tmp_path):
    """A folder without card or training.json, a run file and expanded documents are unknown; BM25 is zero-shot."""
    (tmp_path / "run").write_text("q Q0 d 1 1 t\n")
    (tmp_path / "expansions").write_text("")
    texts = ["bm25", f'run_file(path="{tmp_path}/run")', f'bm25(expansions="{tmp_path}/expansions")']
    found = [exposure_of(system(text), contract_of("beir/arguana")).status for text in texts]

    assert found == ["zero-shot", "unknown", "unknown"]
    nobody = of_encoder(Dense(model=str(tmp_path), pooling="mean"))
    assert exposure_of(nobody, contract_of("beir/nq")).status == "unknown"


@pytest.mark.parametrize("text", ["ensemble(bm25, lexmae_nano@impact)", "pipeline(bm25, lexmae_nano@impact, k=10)"])
def test_the_part_that_has_seen_most_decides(text):
    """A fusion of BM25 with a model that was pretrained on the corpus, or was chosen by its queries, has seen the corpus."""
    pytest.importorskip("torch")
    for dataset, status in {"pydoc/test": "corpus seen", "cranfield": "corpus seen", "beir/arguana": "zero-shot"}.items():
        assert exposure_of(system(text), contract_of(dataset)).status == status


def result(name, status=None):
    """Make a result with this exposure."""
    seen = Exposure(status=status, because=[f"{name} was trained on x"]) if status else None
    return samples.result(name, exposure=seen)


def test_tables_and_the_leaderboard_show_it(tmp_path):
    """A table has a note with the evidence; the leaderboard has a column, and results without exposure are unknown."""
    made = [result("bm25", "zero-shot"), result("tuned", "in-domain"), result("old")]
    lines = list(exposures(made))
    write_results(made, "pydoc", tmp_path)
    page = lexbench.leaderboard(tmp_path).pages()[tmp_path / "README.md"]

    assert lines[0] == "seen of pydoc/test in training: zero-shot: bm25; in-domain: tuned"
    assert "pydoc/test: tuned was trained on x" in lines
    assert list(exposures(made[:1])) == []
    marks = {line.split("|")[2]: line.split("|")[-2] for line in page.splitlines() if "0.5000" in line}
    assert marks == {"tuned": "‡‡", "bm25": "yes", "old": "?"}
    assert msgspec.json.decode(msgspec.json.encode(made[1]), type=Result).exposure.status == "in-domain"


def beir_folder(path, documents, queries):
    """Write a BEIR folder of these texts and return it."""
    texts = [{f"{name}{at}": text for at, text in enumerate(given)} for name, given in (("d", documents), ("q", queries))]
    return tiny.write(path, *texts, [("q0", "d0", 1)] + [("q1", "d1", 1)] * (len(queries) > 1))


def test_texts_are_compared_with_a_dataset(tmp_path):
    """A document counts by half of its phrases of eight words, a query by nearly all words; short texts must be equal."""
    words = [f"w{number}" for number in range(40)]
    tested = [" ".join(words[:17]), " ".join(words[20:37]), "too short", "other words"]  # of the first two ten phrases each
    tested_folder = beir_folder(tmp_path / "tested", tested, ["how do bees find a flower", "why is the sky blue"])
    texts = ["x " + " ".join(words[:12]).upper() + " y", " ".join(words[20:31]), "Too short!"]  # five and four phrases of ten
    trained_on = beir_folder(tmp_path / "trained", texts, ["How do bees find a flower?", "the sky"])
    planned = plan_dataset(str(tested_folder), ["bm25"], ["nDCG@10"], 10)
    found = contamination(trained_on, open_dataset(planned.jobs[0].contract, planned.jobs[0].source))

    assert (found.queries, found.near, found.examples) == (2, 1, ["how do bees find a flower"])
    assert (found.documents, found.seen) == (4, 2)
    with pytest.raises(MissingData, match=r"no corpus\.jsonl"):
        contamination(tmp_path, open_dataset(planned.jobs[0].contract, planned.jobs[0].source))


def test_the_command_shows_names_and_texts(tmp_path, capsys):
    """BM25 is zero-shot; the texts of a folder are compared with a dataset."""
    shown = answer(capsys, "exposure", "-r", "bm25", "-d", "pydoc/test", "--json")
    assert shown == {"exposure": {"bm25": {"pydoc/test": {"status": "zero-shot", "because": []}}}, "overlap": []}
    folder = beir_folder(tmp_path / "texts", ["Return the number of items in a container."], ["a question"])
    assert "texts in pydoc/test" in ended(capsys, 0, "exposure", str(folder), "-d", "pydoc/test").out


def test_the_catalogue_is_enough_for_models_that_are_not_here(tmp_path, monkeypatch, capsys):
    """MiniLM's card is enough, without its weights; an unknown model gives one line."""
    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))

    (exposure,) = answer(capsys, "exposure", "-r", "minilm", "-d", "beir/nq", "--json")["exposure"]["minilm"].values()
    assert exposure == {"status": "in-domain", "because": ["minilm was trained on natural-questions (its card)"]}
    assert code(["exposure", "-r", 'dense(model="no/such")@flat', "-d", "beir/nq"]) == 3
