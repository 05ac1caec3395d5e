"""Known models: their files read, their names expand, and their figures are the published ones."""

import json
import os
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import yaml
from tiny import answer, ended, run, write_files
from tiny import install as install_package

from lexbench import catalog, registry
from lexbench.analysis.verify.published import source
from lexbench.contracts import all_contracts, plugin_folders
from lexbench.errors import CannotStart, CommandError, InvalidFile, MissingData, MissingExtra
from lexbench.interop.formats.mteb import TASKS
from lexbench.lexmae import card
from lexbench.measures import parse
from lexbench.notation import Call, Expression
from lexbench.notation import parse as parse_part
from lexbench.runner import systems
from lexbench.suites import suite as suite_named

PACKAGED = Path(catalog.__file__).parent
OWN = sorted(path.stem for path in PACKAGED.glob("*.toml"))  # without the models of other installed packages
MODELS = {name: catalog.model(name) for name in OWN}
FACTS = tomllib.loads((Path(__file__).parent / "data" / "catalog.toml").read_text(encoding="utf-8"))

FIGURE = '{dataset = "pydoc/test", measure = "RR@10", value = 0.5, source = "me", where = "here"}'
MINE = """
schema = 1
name = "mine"
summary = "My own"
encoder = "sparse_mlm"
family = "sparse"
weights = "public"
source = "https://example.org"
paper = "none"

[settings]
model = "me/mine"
document_length = 200
"""


@pytest.fixture(autouse=True)
def unfolded(monkeypatch):
    """Unset the width of the terminal, so that lines are not folded."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder of the user's models, which LEXBENCH_MODELS names."""
    monkeypatch.setenv("LEXBENCH_MODELS", str(tmp_path))
    return tmp_path


def call(text):
    """Return the call in *text*."""
    return parse_part(text).head


def test_every_file_reads():
    """Ids of the hub have its form, and each is in one file only. Included weights are in the folder of their file."""
    ids = [found.settings[key] for found in MODELS.values() for key in ("model", "query_model") if key in found.settings]
    models = {name: found.settings["model"] for name, found in MODELS.items() if found.weights == "included"}
    included = {name: ids.pop(ids.index(model)) for name, model in models.items()}

    assert {"lexmae", "lexmae_document", "splade", "splade_pp_ed", "splade_v3", "bt_splade_large"} <= set(OWN)
    assert included == {name: str(PACKAGED / name) for name in included}
    assert all(found.source.startswith("https://") for found in MODELS.values())
    assert len(ids) > 25
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+", model) for model in ids)


@pytest.mark.parametrize("name", [name for name in OWN if MODELS[name].encoder])
def test_settings_of_a_model_exist_in_its_encoder(name, tmp_path):
    """The encoder has all settings that a file gives or requires, and can be made with them."""
    found = MODELS[name]
    try:
        plugin = registry.load("rerankers" if found.family == "reranker" else "encoders", found.encoder)
    except MissingExtra as error:
        pytest.skip(str(error))

    assert {*found.settings, *found.asks} <= {item.name for item in fields(plugin) if item.init}
    (tmp_path / "given").touch()
    given = {} if found.weights == "included" else dict.fromkeys(found.required, str(tmp_path / "given"))
    made = plugin(**dict(catalog.expand(Call(name, kwargs=tuple(given.items()))).kwargs))
    expected = {**found.settings, **given}
    assert {setting: getattr(made, setting) for setting in expected} == expected


def calls(part):
    """Yield every call in a part, and the groups that it may belong to."""
    yield part.head, ("encoders", "retrievers", "rerankers")
    yield from ((transform, ("transforms",)) for transform in part.transforms)
    if part.engine:
        yield part.engine, ("engines",)
    for value in (*part.head.args, *dict(part.head.kwargs).values()):
        if isinstance(value, Expression):
            yield from calls(value)


def test_the_suggested_systems_can_be_typed():
    """The system of a file parses. Each name in it is a plug-in or a model, and has the settings that are given."""
    for name in (name for name in OWN if MODELS[name].run):
        for each, groups in calls(parse_part(MODELS[name].run)):
            group, plugin = next(((group, each.name) for group in groups if each.name in registry.names(group)), ("", ""))
            if not group:
                meant = MODELS[each.name]
                group, plugin = "rerankers" if meant.family == "reranker" else "encoders", meant.encoder
            try:
                known = {item.name for item in fields(registry.load(group, plugin)) if item.init}
            except MissingExtra:
                continue
            assert dict(each.kwargs).keys() <= known, f"{name}: {each}"


SUITE = "lexbench run suite"
ADORE, COSTA = 'adore(model="FOLDER", query_model="FOLDER")', 'costa(model="FOLDER")'


@pytest.mark.parametrize(
    ("name", "typed", "command"),
    [
        ("splade_v3", "splade_v3@impact", f"{SUITE} beir -r splade_v3@impact"),
        ("unicoil", 'unicoil(expansions="FILE")@impact', None),
        ("tas_b", "tas_b", None),
        ("minilm_reranker", "rerank(bm25, minilm_reranker, k=100)", None),
        ("doct5query", 'bm25(expansions="FILE")', None),
        ("ar2", "", ""),
        ("adore", ADORE, f"{SUITE} beir -r '{ADORE}'"),
        ("costa", COSTA, f"{SUITE} msmarco_doc -r '{COSTA}'"),  # all its figures are of documents
    ],
)
def test_the_suggested_system_has_an_engine(name, typed, command):
    """Sparse vectors go to `impact`, a reranker comes after BM25; the command runs a suite in which the model has figures."""
    assert catalog.model(name).run == typed
    assert command in (None, catalog.command(catalog.model(name)))


def test_figures_can_be_compared():
    """Each figure has a dataset, measure and source that lexbench knows. MS MARCO is titled if training had titles."""
    for name, found in MODELS.items():
        for figure in found.published:
            assert source(figure.source).origin != source("another").origin
            assert figure.dataset in all_contracts()
            parse(figure.measure)
            assert 0 < figure.value < 1
        where = {one.dataset.split("/")[0] for one in found.published if one.dataset.startswith("msmarco-passage")}
        assert where <= {"msmarco-passage-titled" if found.titles else "msmarco-passage"}, name
        assert found.settings.get("titles", "off") == "off" or found.titles, name


@pytest.mark.parametrize("place", FACTS["printed"])
def test_every_system_of_the_paper_has_a_file(place):
    """Each system in a table or figure of the paper is in the catalogue, runnable or with the reason why not."""
    assert set(FACTS["printed"][place]) <= {printed for found in MODELS.values() for printed in found.named}


MTEB_FILE = re.compile(r"results/[\w.-]+/[\w.-]+/(?P<task>\w+)\.json@[0-9a-f]{8}")  # of embeddings-benchmark/results


def test_figures_are_those_of_the_reference(shared):
    """Each figure is in the reference results: the same weights, dataset, measure, source and all digits."""
    records = json.loads((shared / "reference" / "reference-results.json").read_text(encoding="utf-8"))["records"]
    sources = {"paper": "LexMAE paper"}
    keys = ("model", "dataset", "measure", "source")
    elsewhere = {tuple(one[key] for key in keys): one["value"] for one in FACTS["elsewhere"]}
    known = {
        (label, r["dataset"], r["metric"], sources.get(r["source"], r["source"]), r["where"], r["value"])
        for r in records
        for label in (r["system"], f"{r['system']}: {r.get('variant')}")
    }
    for name in OWN:
        for figure in MODELS[name].published:
            if (place := (name, figure.dataset, figure.measure, figure.source)) in elsewhere:
                assert figure.value == elsewhere[place]
                continue
            if found := MTEB_FILE.fullmatch(figure.where):  # one file per figure, which anyone can look up
                assert (figure.source, figure.measure) == ("MTEB", "nDCG@10")
                assert TASKS[figure.dataset].name == found["task"]
                continue
            # Only our ids tell passages with titles from those without.
            place = (figure.dataset.replace("-titled", ""), figure.measure, figure.source, figure.where, figure.value)
            assert any((label, *place) in known for label in FACTS["reference"][name]), (name, place)


BEIR_12 = {"splade_pp_ed": 0.4780, "splade_v3": 0.4935, "bm25_anserini": 0.4077, "contriever": 0.3369}
BEIR_12 |= {"contriever_msmarco": 0.4408, "bge_base": 0.5219}


@pytest.mark.parametrize(("name", "mean"), BEIR_12.items())
def test_all_of_beir_12_is_there(name, mean):
    """The figures of the twelve datasets of `beir-12@1` have the mean of Pyserini's and Anserini's tables."""
    members = suite_named("beir").aggregates[0].members
    found = [figure.value for figure in catalog.model(name).published if figure.dataset in members]

    assert len(found) == 12
    assert sum(found) / 12 == pytest.approx(mean, abs=5e-5)


LEXMAE = 'positions="text", query_length=32, titles="off"'
SPLADE = 'positions="all", query_length=256'


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bm25(k1=0.9)", "bm25(k1=0.9)"),
        ('lexmae(model="DIR")', f'sparse_mlm(document_length=144, model="DIR", {LEXMAE})'),
        ('lexmae("DIR", document_length=128)', f'sparse_mlm(document_length=128, model="DIR", {LEXMAE})'),
        ("splade_v3", f'sparse_mlm(document_length=256, model="naver/splade-v3", {SPLADE})'),
        ('splade_v3(model="x", dtype="int8")', f'sparse_mlm(document_length=256, dtype="int8", model="x", {SPLADE})'),
        ('splade_mask("DIR")', f'sparse_mlm(document_length=256, model="DIR", {SPLADE})'),
    ],
)
def test_a_name_stands_for_a_call(typed, meant):
    """A model's name becomes its encoder with its settings. The user's settings win, other names stay."""
    assert str(catalog.expand(call(typed))) == meant


def test_a_users_folder_states_its_lengths(tmp_path):
    """Lengths that a folder states win over those of the catalogue; typed ones win over both."""
    pytest.importorskip("torch", reason="models are in the extra neural")
    stated = {"document_length": 512, "query_length": 256}
    (tmp_path / "vocab.txt").touch()
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "keep_special_tokens": False, "lexbench": stated}))
    model, folder = ("model", str(tmp_path)), f'model="{tmp_path}"'

    alone = catalog.expand(Call("lexmae", kwargs=(model,)))
    shorter = catalog.expand(Call("lexmae", kwargs=(("document_length", 96), model)))
    assert str(alone) == f'sparse_mlm({folder}, positions="text", titles="off")'
    assert str(shorter) == f'sparse_mlm(document_length=96, {folder}, positions="text", titles="off")'


INCLUDED = MINE.replace('"public"', '"included"').replace("me/mine", "mine").replace("document_length = 200\n", "")


def test_included_weights_are_found_or_reported_as_missing(folder, capsys):
    """A model without its weights is refused in one line and runs from another folder; with them its page has size and card."""
    (folder / "mine.toml").write_text(INCLUDED)
    (folder / "mine").mkdir()

    with pytest.raises(MissingData) as error:
        catalog.expand(call("mine"))
    assert str(error.value) == (
        f"mine: its weights are not in this copy of lexbench ({folder}/mine has no model.safetensors); install the whole "
        'package again, or write mine(model="FOLDER")'
    )
    assert str(catalog.expand(call('mine(model="other")'))) == 'sparse_mlm(model="other")'
    assert "\nhere: false\n" in ended(capsys, 0, "show", "model", "mine").out
    (folder / "mine" / "model.safetensors").write_bytes(bytes(1_300_000))
    assert re.search(r"^mine +sparse +included +My own *$", run(capsys, "list", "models")[1], re.MULTILINE)
    out = run(capsys, "show", "model", "mine")[1]
    assert "\nsize: 1.3 MB\n" in out
    assert f"\ncard: {folder / 'mine' / 'README.md'}\n" in out
    assert out.endswith("\nrun: lexbench run suite beir -r mine@impact\n")


def test_the_weights_in_the_package():
    """lexmae_nano runs by its name alone, has card, notice and licence, and the catalogue names its data."""
    place = PACKAGED / "lexmae_nano"
    pytest.importorskip("transformers", reason="models are in the extra neural")
    found = catalog.model("lexmae_nano")
    training = card.read(place)
    encoder = systems.system("lexmae_nano@impact").retriever.encoder
    vectors = encoder.encode_query(["sort a list by key"])
    terms = [encoder.token(term) for term in vectors.indices[np.argsort(-vectors.data)]]

    assert {"sort", "list", "key"} == set(terms[:3])
    assert {"sorting", "lists", "keys"} & set(terms)
    assert {"README.md", "NOTICE"} <= {path.name for path in place.iterdir()}
    assert training.recipe.license == found.license.lower()
    assert all(one.dataset in found.data for one in training.facts.data)


BARE = MINE.partition("[settings]")[0].replace('encoder = "sparse_mlm"\n', "").replace('"public"', '"WEIGHTS"')


def test_files_of_a_users_models_say_what_to_type(folder):
    """A file can name the folder of the user's weights, or the expression to type for a system of several parts."""
    (folder / "mine.toml").write_text(MINE.replace('"public"', '"bring"').replace("me/mine", "/weights"))
    assert catalog.expand(Call("mine")) == call('sparse_mlm(model="/weights", document_length=200)')
    (folder / "mine.toml").write_text(BARE.replace('"WEIGHTS"', '"unneeded"\nsystem = "bm25(k1=2.0)"'))
    with pytest.raises(CommandError, match=r"^mine is made of parts: type bm25\(k1=2\.0\)$"):
        catalog.expand(call("mine"))


def test_several_folders_are_read(folder, monkeypatch):
    """LEXBENCH_MODELS lists folders like PATH, and a folder that is listed twice is read once; a missing one costs a line."""
    for name in ("first", "second"):
        (folder / name).mkdir()
        (folder / name / f"{name}.toml").write_text(MINE.replace('"mine"', f'"{name}"'))
    monkeypatch.setenv("LEXBENCH_MODELS", os.pathsep.join(str(folder / name) for name in ("first", "second", "first")))

    assert catalog.model("first").name == "first"
    assert catalog.model("second").name == "second"
    monkeypatch.setenv("LEXBENCH_MODELS", str(folder / "nowhere"))
    with pytest.raises(CommandError, match=r"LEXBENCH_MODELS names .*nowhere, which is no folder"):
        catalog.names()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a package with one module and an entry point of `lexbench.models`."""

    def make(value):
        install_package(tmp_path, "theirs", {"lexbench.models": [f"theirs = {value}"]})
        write_files(tmp_path / "their_models", {"__init__.py": "1 / 0\n", "mine.toml": MINE})
        monkeypatch.syspath_prepend(tmp_path)
        plugin_folders.cache_clear()

    yield make
    plugin_folders.cache_clear()


def test_a_package_adds_models_by_an_entry_point(install):
    """TOML files in the folder of an entry point's module are models; the module is not imported."""
    install("their_models")

    assert catalog.model("mine").settings["model"] == "me/mine"


@pytest.mark.parametrize(
    ("value", "said"),
    [("no_such_module", "there is no module no_such_module"), ("their_models.inner", "ZeroDivisionError: division by zero")],
)
def test_a_package_without_its_module_is_named(install, value, said):
    """If the module of an entry point is missing, or its package raises an error, the message names the plug-in."""
    install(value)

    with pytest.raises(CannotStart, match=f"models of plug-in 'theirs' do not load: {said}"):
        catalog.names()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("schema = 1", "schema = 2"), "$.schema"),
        (('"mine"', '"other"'), "$.name"),
        (("source =", "sauce ="), "sauce"),
        (("document_length = 200", "document_length = [200]"), "$.settings"),
        (("family", "published = [{}]\nfamily"), "$.published[0]"),
        (('model = "me/mine"\n', ""), "settings.model"),
        (('"public"', '"none"'), "settings.model"),
        ((MINE, INCLUDED.replace('model = "mine"\n', "")), 'weights = "included" needs settings.model, their folder, beside'),
        ((MINE, MINE.replace('"public"', '"bring"').replace('model = "me/mine"\n', "")), "the key `why` must say why there is"),
        (('"public"', '"unneeded"'), 'weights = "unneeded" is for a system'),
        (('encoder = "sparse_mlm"\n', ""), "settings are those of an encoder, and none is named"),
        (('encoder = "sparse_mlm"', 'encoder = "sparse_mlm"\nsystem = "bm25"'), "encoder and system exclude each other"),
        (('family = "sparse"', 'family = "spare"'), "$.family"),
        (('weights = "public"', 'weights = "public"\nasks = { query_model = "FOLDER" }'), "give the settings in `asks`"),
        (('"https://example.org"', '""'), "$.source"),
        (('paper = "none"', 'paper = ""'), "$.paper"),
        (('weights = "public"', 'weights = "bring"\nwhy = "x"\nlicense = "mit"'), "license is that of weights"),
        (("family =", f"published = [{FIGURE}, {FIGURE}]\nfamily ="), "two published values"),
        (("[settings]", "[settings"), "line"),
        ((MINE, BARE.replace("WEIGHTS", "public")), 'weights = "public" needs an encoder or a system'),
        ((MINE, BARE.replace("WEIGHTS", "none")), "the key `why` must say why there is none"),
        ((MINE, BARE.replace('"WEIGHTS"', '"bring"\nsystem = "bm25"')), "the key `why` must say why there is none"),
        ((MINE, BARE.replace('"WEIGHTS"', '"none"\nsystem = "bm25"')), "has no settings.model, and no system"),
    ],
)
def test_a_bad_file_names_itself_and_the_place(folder, change, said):
    """The error for a bad file names the file and the key. Other models are not affected."""
    path = folder / "mine.toml"
    path.write_text(MINE.replace(*change))

    with pytest.raises(InvalidFile) as error:
        catalog.expand(Call("mine"))
    assert str(path) in str(error.value)
    assert said in str(error.value)
    assert catalog.expand(Call("bm25")) == Call("bm25")
    assert catalog.model("splade_v3").name == "splade_v3"


@pytest.mark.parametrize(
    ("name", "said"),
    [("splade_v3", "two files for the model 'splade_v3'"), ("bm25", "the name of a plug-in"), ("my-own", "cannot be typed")],
)
def test_a_name_that_is_taken_is_refused(folder, name, said):
    """A name of two files, of a plug-in, or one that cannot be typed is an error that names the file."""
    path = folder / f"{name}.toml"
    path.write_text(MINE.replace('"mine"', f'"{name}"'))

    with pytest.raises(InvalidFile, match=said) as error:
        catalog.expand(Call(name))
    assert str(path) in str(error.value)


def test_list_models(folder, capsys):
    """There is one row per model, or all keys of it with --json; a model whose file cannot be read is listed as broken."""
    (folder / "mine.toml").write_text("schema = 2")
    out, err = ended(capsys, 0, "list", "models")

    assert err == ""
    rows = ("splade_v3 +sparse +download +SPLADE-v3 *$", "colbert_v2 +late interaction +download ", r"mine +\? +broken ")
    for row in (*rows, *(f"{name} " for name in [*OWN, "mine"])):
        assert re.search(f"^{row}", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 100
    found = {each["name"]: each for each in answer(capsys, "list", "models", "--json")}
    assert {*OWN, "mine"} <= found.keys()
    assert "mine.toml" in found["mine"]["error"]
    assert found["splade_v3"]["settings"]["model"] == "naver/splade-v3"
    assert found["lexmae"]["published"][0]["value"] == 0.426


def test_show_model(capsys, monkeypatch):
    """All facts about a model and the command that runs it are YAML, without empty values; a terminal folds lines."""
    out = ended(capsys, 0, "show", "model", "splade_mask").out
    facts = answer(capsys, "show", "model", "splade_mask", "--json")

    assert yaml.safe_load(out) == {name: value for name, value in facts.items() if value not in ("", {}, [], None)}
    assert "\nsettings: {positions: all, query_length: 256, document_length: 256}\n" in out
    assert out.endswith("\nrun: lexbench run suite beir -r 'splade_mask(model=\"FOLDER\")@impact'\n")
    monkeypatch.setenv("COLUMNS", "72")
    folded = ended(capsys, 0, "show", "model", "splade_mask").out
    assert max(map(len, folded.splitlines())) <= 72
    assert folded.split() == out.split()
    assert "\nnote: SPLADE is trained and scored on MS MARCO's own passages, which\n  have no titles. The figure" in folded
