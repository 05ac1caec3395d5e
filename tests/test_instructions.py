"""Instructions of queries: of a model, of a dataset, and of single queries. They reach the model, the keys and the results."""

import hashlib
import json
from dataclasses import replace

import checkpoints
import msgspec
import numpy as np
import pytest

import lexbench
from lexbench import catalog
from lexbench.catalog.dataset_prompts import prompt_for
from lexbench.contracts import all_contracts
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.encoders.dense import Dense
from lexbench.encoders.late_interaction import LateInteraction
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.encoders.static_embedding import StaticEmbedding
from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.runner.systems import describe, system
from lexbench.timing import measuring, protocol
from lexbench.types import Query

TEMPLATE = {"query_prompt": "w1 {instruction} w2 ", "instruction": "search"}
BEHIND = "{query} {instruction}"
CORPUS = {"d1": "sparse neural retrieval", "d2": "dense search model", "d3": "the weight of a term"}
QUERIES = {"q1": {"text": "neural", "instruction": "term weight"}, "q2": "model"}
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 1}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a tiny masked-language model."""
    return str(checkpoints.masked_lm(tmp_path_factory.mktemp("model") / "bert"))


@pytest.fixture(scope="module")
def makers(folder, tmp_path_factory):
    """Return a function for each encoder with a prompt of queries, which makes one with given settings."""
    static = checkpoints.static_embedding(tmp_path_factory.mktemp("static") / "model")
    colbert = str(checkpoints.colbert(tmp_path_factory.mktemp("colbert")))
    lengths = {"query_length": 32, "document_length": 32, "device": "cpu"}
    return {
        "dense": lambda **given: Dense(folder, pooling="mean", **lengths, **given),
        "without pooling prompts": lambda **given: Dense(folder, pooling="mean", pool_prompts=False, **lengths, **given),
        "sparse_mlm": lambda **given: SparseMLM(folder, dense_ok=True, **lengths, **given),
        "late_interaction": lambda **given: LateInteraction(colbert, **lengths, **given),
        "static_embedding": lambda **given: StaticEmbedding(str(static), **given),
    }


def numbers(vectors):
    """Return vectors of any kind as one array."""
    return vectors.toarray() if hasattr(vectors, "toarray") else getattr(vectors, "values", vectors)


def prompts_file(path, table):
    """Write a file of prompts, and return its path."""
    path.write_text("[prompts]\n" + "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in table.items()))
    return str(path)


def run(systems, queries, store, name="mine"):
    """Return the results of *systems* on data in memory."""
    data = {"corpus": CORPUS, "queries": queries, "qrels": QRELS, "name": name}
    return list(lexbench.run(data, systems, measures=["RR@3"], depth=3, store=store))


# ---- of a dataset ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "found"),
    [
        ("beir/arguana", "arguana"),  # people write beir/arguana/test
        ("beir/cqadupstack/gis", "gis"),
        ("beir/cqadupstack/tex", "forums"),
        ("beir/nfcorpus/dev", "food"),
        ("miracl/fi/dev", "wiki"),
        ("miracles", None),
        ("beir", None),
    ],
)
def test_the_longest_beginning_of_an_id_counts(dataset, found):
    """A prompt is for a dataset, or for all whose ids begin with the same parts."""
    table = {"beir/arguana/test": "arguana", "beir/cqadupstack": "forums", "beir/cqadupstack/gis": "gis"}
    assert prompt_for(dataset, {**table, "beir/nfcorpus": "food", "miracl": "wiki"}) == found


def test_prompts_of_the_catalogue_are_for_known_datasets():
    """Each key is a dataset of ours, or the beginning of the ids of some."""
    with_prompts = {name: table for name in catalog.names() if (table := catalog.prompts_of(catalog.model(name)))}
    assert {"qwen3_embedding_600m", "qwen3_embedding_8b", "e5_mistral_7b", "bge_base"} <= with_prompts.keys()
    known = list(all_contracts())
    for name, table in with_prompts.items():
        assert all(any(prompt_for(one, {key: ""}) is not None for one in known) for key in table), name


def test_models_of_the_catalogue_have_the_prompts_of_mteb(folder):
    """By hand: MTEB's template of the model, and its instruction for SciFact; other datasets have that of the card."""
    qwen = system(f'qwen3_embedding_600m(model="{folder}", query_length=64, document_length=64)')
    assert qwen.for_dataset("beir/scifact/test").retriever.encoder.asked_prompt == (
        "Instruct: Given a scientific claim, retrieve documents that support or refute the claim\nQuery:"
    )
    assert qwen.for_dataset("nano-beir/scifact").retriever.encoder.asked_prompt.startswith("Instruct: Given a scientific claim")
    assert qwen.for_dataset("pydoc/test") is qwen
    assert qwen.retriever.encoder.asked_prompt.startswith("Instruct: Given a web search query")
    bge = system(f'bge_base(model="{folder}", query_length=64, document_length=64)')
    assert bge.retriever.encoder.asked_prompt
    assert bge.for_dataset("beir/arguana").retriever.encoder.asked_prompt == ""
    for typed in ('instruction="mine"', 'query_prompt="mine"'):  # what is typed holds for every dataset
        own = system(f'qwen3_embedding_600m(model="{folder}", query_length=64, document_length=64, {typed})')
        assert own.for_dataset("beir/scifact/test") is own
        assert "mine" in own.retriever.encoder.asked_prompt


def test_a_model_file_of_a_user_has_prompts(folder, tmp_path, monkeypatch):
    """A table `prompts` in the file of a model; the name of unknown prompts is refused."""
    entry = f"""schema = 1
name = "mine"
summary = "a model"
encoder = "dense"
family = "dense"
weights = "bring"
why = "it is a test"
source = "here"
paper = "none"
prompts = PROMPTS

[settings]
model = "{folder}"
pooling = "mean"
query_prompt = "w1 "
query_length = 32
document_length = 32
"""
    monkeypatch.setenv("LEXBENCH_MODELS", str(tmp_path))
    (tmp_path / "mine.toml").write_text(entry.replace("PROMPTS", '{ "beir/arguana/test" = "w2 " }'))
    made = system("mine")
    assert made.for_dataset("beir/arguana").retriever.encoder.asked_prompt == "w2 "
    assert made.for_dataset("beir/scidocs").retriever.encoder.asked_prompt == "w1 "
    (tmp_path / "mine.toml").write_text(entry.replace("PROMPTS", '"mtep"'))
    with pytest.raises(InvalidFile, match=r"there are no prompts 'mtep'; there is: mteb - at `\$\.prompts`"):
        system("mine")


@pytest.mark.parametrize("name", ["dense", "without pooling prompts", "sparse_mlm", "late_interaction", "static_embedding"])
def test_the_instruction_of_a_dataset_is_in_the_prompt(makers, name, tmp_path):
    """Vectors are those of the prompt with the instruction in it; other datasets have the model's own."""
    make = makers[name]
    file = prompts_file(tmp_path / "prompts.toml", {"here": "dense retrieval"})
    encoder = make(**TEMPLATE, prompts=file)
    by_hand = {"here": "w1 dense retrieval w2 ", "there": "w1 search w2 "}
    for dataset, prompt in by_hand.items():
        expected = numbers(make(query_prompt=prompt).encode_query(["neural model"]))
        found = encoder.for_dataset(dataset)
        assert np.array_equal(numbers(found.encode_query(["neural model"])), expected)
        assert np.array_equal(numbers(found.encode_queries([Query("q", "neural model")])), expected)
        assert any(repr(prompt)[:10] in note for note in found.notes())
    whole = make(query_prompt="w3 ", prompts=prompts_file(tmp_path / "whole.toml", {"here": "w4 "}))
    assert whole.for_dataset("here").query_prompt == "w4 "


def test_results_have_the_prompt_of_their_dataset(folder, tmp_path):
    """Runs on two datasets differ in their keys and recipes by the instruction; the corpus is encoded once."""
    file = prompts_file(tmp_path / "prompts.toml", {"here": "weight of a term"})
    settings = 'pooling="mean", query_length=32, document_length=32, query_prompt="{instruction} ", instruction="search"'
    typed = f'dense(model="{folder}", {settings}, prompts="{file}")'
    (here,), (there,) = (run([typed], QUERIES, tmp_path / "store", name) for name in ("here", "there"))
    found = [one.recipe["settings"]["encoder"]["settings"]["instruction"] for one in (here, there)]
    assert found == ["weight of a term", "search"]
    assert any("queries begin with 'weight of a term '" in note.text for note in here.notes)
    stored = {kind: len(list((tmp_path / "store" / kind).iterdir())) for kind in ("encodings", "runs")}
    assert stored == {"encodings": 1, "runs": 2}
    described = describe(system(typed).for_dataset("here").retriever, index=True)
    assert described == describe(system(typed).retriever, index=True)


def test_a_missing_file_and_faulty_settings_are_refused(makers, tmp_path):
    """One line names the file or the setting."""
    make = makers["dense"]
    with pytest.raises(MissingData, match=r"there is no file of prompts .*no\.toml"):
        make(prompts=str(tmp_path / "no.toml")).for_dataset("here")
    (tmp_path / "other.toml").write_text('[prompt]\nhere = "x"\n')
    with pytest.raises(InvalidFile, match=r"other\.toml: Object missing required field `prompts`"):
        make(prompts=str(tmp_path / "other.toml")).for_dataset("here")
    with pytest.raises(CommandError, match=r"dense: query_prompt='w1 ' and instruction='x'; give a query_prompt with"):
        make(query_prompt="w1 ", instruction="x")
    with pytest.raises(CommandError, match=r"query_prompt='{instruction}' and instruction=''; give an instruction for it"):
        make(query_prompt="{instruction}")
    with pytest.raises(CommandError, match=r"instructed_query='{instruction}'\): write {query} and {instruction} in it"):
        make(instructed_query="{instruction}")


# ---- of a query ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (BEHIND, "neural term weight"),  # MTEB's for FollowIR
        ("{instruction} [SEP] {query}", "term weight [SEP] neural"),  # InstructIR's
        ("", "neural"),
    ],
)
@pytest.mark.parametrize("name", ["dense", "sparse_mlm", "late_interaction", "static_embedding"])
def test_a_query_is_written_with_its_instruction(makers, name, form, written):
    """The model gets query and instruction as the setting says; a query without one as it is."""
    encoder = makers[name](query_prompt="w1 ", instructed_query=form)
    plain = makers[name](query_prompt="w1 ")
    found = encoder.encode_queries([Query("q1", "neural", "term weight"), Query("q2", "model")])
    assert np.array_equal(numbers(found), numbers(plain.encode_query([written, "model"])))


def test_texts_with_braces_stay_as_they_are(makers):
    """Placeholders in the texts of users are texts."""
    encoder = makers["dense"](instructed_query="{instruction} {query}")
    found = encoder.encode_queries([Query("q", "{instruction}", "{query}")])
    assert np.array_equal(found, makers["dense"]().encode_query(["{query} {instruction}"]))


def rows(path, lines):
    """Write a file of data."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def in_folder(folder, form):
    """Write the data into a folder in one *form*, and return it."""
    rows(folder / "corpus.jsonl", [json.dumps({"_id": name, "text": text}) for name, text in CORPUS.items()])
    rows(folder / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", "q1\td1\t1", "q2\td2\t1"])
    if form == "csv":
        rows(folder / "queries.csv", ["id,text,instruction", "q1,neural,term weight", "q2,model,"])
    elif form == "mteb":
        rows(
            folder / "queries.jsonl", [json.dumps({"_id": "q1", "text": "neural"}), json.dumps({"_id": "q2", "text": "model"})]
        )
        rows(folder / "instruction" / "test.jsonl", [json.dumps({"query-id": "q1", "instruction": "term weight"})])
    elif form == "json":
        (folder / "queries.json").write_text(json.dumps(QUERIES))
    else:
        lines = [
            {"_id": "q1", "text": "neural", "instruction": "term weight"},
            {"_id": "q2", "text": "model", "instruction": None},
        ]
        rows(folder / "queries.jsonl", map(json.dumps, lines))
    return folder


@pytest.mark.parametrize("form", ["jsonl", "csv", "json", "mteb", "memory"])
def test_instructions_are_read_and_digested(form, tmp_path):
    """Every form of data has the same queries and the same digest, which is not that of queries without instructions."""
    data = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS} if form == "memory" else in_folder(tmp_path / "data", form)
    found = open_dataset(*find_dataset(data))
    assert found.queries == (Query("q1", "neural", "term weight"), Query("q2", "model"))
    without = {"corpus": CORPUS, "queries": {"q1": "neural", "q2": "model"}, "qrels": QRELS}
    by_hand = b"2:q1,6:neural,i11:term weight,2:q2,5:model,"
    assert found.digests["queries"] == hashlib.sha256(by_hand).hexdigest()
    assert open_dataset(*find_dataset(without)).digests["queries"] != found.digests["queries"]


def test_instructions_of_nobody_and_of_another_type_are_refused(tmp_path):
    """A file of instructions for other queries, and an instruction that is no text."""
    folder = in_folder(tmp_path / "data", "mteb")
    rows(folder / "instruction" / "test.jsonl", [json.dumps({"query-id": "q9", "instruction": "x"})])
    with pytest.raises(InvalidFile, match=r"test\.jsonl: it has instructions of 'q9', and of no query here"):
        open_dataset(*find_dataset(folder))
    rows(folder / "instruction" / "test.jsonl", [json.dumps({"query-id": "q1", "text": "x"})])
    with pytest.raises(InvalidFile, match=r"test\.jsonl, line 1: no instruction of 'q1'; it has: query-id, text"):
        open_dataset(*find_dataset(folder))
    queries = {"q1": {"text": "neural", "instruction": ["x"]}, "q2": "model"}
    with pytest.raises(InvalidFile, match="queries: the instruction of 'q1' is list; it must be a text"):
        open_dataset(*find_dataset({"corpus": CORPUS, "queries": queries, "qrels": QRELS}))


def test_a_system_that_reads_no_instructions_says_so(folder, tmp_path):
    """The note names each part that is not given them, and what to type if it can be; a model that gets them has none."""
    settings = f'model="{folder}", pooling="mean", query_length=32, document_length=32'
    plain, able = f"dense({settings})", f'dense({settings}, instructed_query="{BEHIND}")'
    made = run(["bm25", plain, able, f"ensemble(bm25, {able})"], QUERIES, tmp_path / "store")
    lines = [[note.text for note in one.notes if "an instruction" in note.text] for one in made]
    advice = '; to put them behind the query, type instructed_query="{query} {instruction}"'
    said = "1 of 2 judged queries have an instruction, which {} does not read{}"
    assert lines == [[said.format("BM25", "")], [said.format("Dense", advice)], [], [said.format("BM25", "")]]
    without = run([plain], {"q1": "neural", "q2": "model"}, tmp_path / "store")
    assert not [note for note in without[0].notes if "an instruction" in note.text]


def test_equal_texts_with_other_instructions_are_other_queries(tmp_path):
    """FollowIR asks the same query with two instructions, which is no mistake in the data."""
    queries = {"q1": {"text": "neural", "instruction": "old"}, "q2": {"text": "neural", "instruction": "new"}}
    (found,) = run(["bm25"], queries, tmp_path / "store")
    assert not [note for note in found.notes if "the text of another query" in note.text]
    assert replace(Dense("x", pooling="mean"), instructed_query=BEHIND).reads_instructions


def test_a_system_is_timed_with_the_prompt_of_its_dataset(folder, tmp_path):
    """The process that measures makes the system from its expression, and encodes queries as the run did."""
    file = prompts_file(tmp_path / "prompts.toml", {"here": "weight of a term"})
    settings = 'pooling="mean", query_length=32, document_length=32, query_prompt="{instruction} ", instruction="search"'
    query = Query("q1", "neural", "term weight")
    task = protocol.TimingTask(
        system=f'dense(model="{folder}", {settings}, prompts="{file}")',
        dataset="here",
        place=None,
        queries=[query],
        k=1,
        threads=1,
        single=True,
        out="",
    )
    sent = msgspec.json.decode(msgspec.json.encode(task), type=protocol.TimingTask)
    assert sent.queries == [query]
    assert measuring._retriever(sent).encoder.asked_prompt == "weight of a term "
