"""Known models: their files are sound, their names expand, and their figures are those that were published."""

import json
import os
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from lexbench import catalog, registry, suites, systems
from lexbench.cli import code
from lexbench.errors import CannotStart, CommandError, InvalidFile, MissingData, MissingExtra, UnknownName
from lexbench.measures import parse
from lexbench.notation import Call
from lexbench.notation import parse as parse_part

OWN = catalog.names()
PACKAGED = Path(catalog.__file__).parent / "encoders" / "catalog"

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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a folder of models of the user's, and name it as a user does."""
    monkeypatch.setenv("LEXBENCH_MODELS", str(tmp_path))
    return tmp_path


def call(text):
    """Read what a user types as a call."""
    return parse_part(text).head


def run(capsys, *arguments):
    """Run the command line; return its exit code, stdout and stderr."""
    exit_code = code(list(arguments))
    captured = capsys.readouterr()
    return exit_code, captured.out, captured.err


# --- our own files


def test_the_splade_family_and_lexmae_are_there():
    """Every system of the SPLADE family that the LexMAE paper compares with is here, with its successors and the presets."""
    compared = {"splade_max", "distilsplade_max", "splade_mask", "splade_self_distil", "co_self_distil"}
    assert compared | {"splade_pp_ed", "splade_v3", "bt_splade_large", "v_splade_large"} <= set(OWN)
    assert {"lexmae", "lexmae_document", "splade"} <= set(OWN)


@pytest.mark.parametrize("name", OWN)
def test_a_model_is_whole(name):
    """Each file reads, says where its weights or its code are, and names hub ids as the hub writes them."""
    found = catalog.model(name)

    assert found.name == name
    assert found.source.startswith("https://")
    assert found.paper
    if found.weights == "included":
        assert Path(str(found.settings["model"])) == PACKAGED / name
    else:
        for setting in ("model", "query_model"):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+", str(found.settings.get(setting, "owner/name")))
    assert (found.license != "") == (found.weights in {"public", "included"})


@pytest.mark.parametrize("name", OWN)
def test_its_settings_are_those_of_its_encoder(name, tmp_path):
    """What a file sets are settings of its encoder, of the right type: the encoder can be made from it."""
    found = catalog.model(name)
    try:
        plugin = registry.load("encoders", found.encoder)
    except MissingExtra as error:
        pytest.skip(str(error))

    assert found.settings.keys() <= {item.name for item in fields(plugin) if item.init}
    given = () if found.weights == "public" else (("model", str(tmp_path)),)
    made = plugin(**dict(catalog.expand(Call(name, kwargs=given)).kwargs))
    expected = {**found.settings, **dict(given)}
    assert {setting: getattr(made, setting) for setting in expected} == expected


@pytest.mark.parametrize("name", OWN)
def test_its_figures_can_be_compared(name):
    """A published figure is of a dataset and in a measure that lexbench has, in 0..1, and none is there twice."""
    found = catalog.model(name)
    for figure in found.published:
        assert figure.dataset in suites.contracts()
        parse(figure.measure)
        assert 0 < figure.value < 1

    assert len({(figure.dataset, figure.measure, figure.source) for figure in found.published}) == len(found.published)


def test_no_model_has_the_name_of_a_plug_in():
    """What is typed means one thing."""
    plugins = {name for group in ("encoders", "retrievers", "engines", "transforms") for name in registry.names(group)}
    assert plugins.isdisjoint(OWN)


REFERENCE = {  # what the reference file calls exactly these weights
    "bt_splade_large": {"naver/efficient-splade-VI-BT-large"},
    "co_self_distil": {"splade-pp-sd-pytorch", "Co-SelfDistil"},
    "distilsplade_max": {"distill-splade-max.cached/distill-splade-max-cached", "DistilSPLADE-max"},
    "lexmae": {"LexMAE"},
    "lexmae_document": {"LexMAE"},
    "splade_mask": {"SPLADE-mask"},
    "splade_max": {"naver/splade_v2_max", "SPLADE-max"},
    "splade_pp_ed": {"splade-pp-ed-pytorch", "splade-pp-ed"},
    "splade_self_distil": {"SelfDistil"},
    "splade_v3": {"splade-v3-pytorch", "splade-v3.onnx"},
    "v_splade_large": {"naver/efficient-splade-V-large"},
}
MODEL_CARDS = {"bt_splade_large": 0.978, "v_splade_large": 0.980}  # R@1000, read there; the reference file has no model cards


def test_figures_are_those_of_the_reference(shared):
    """Each figure is in the reference file under these weights, for the same dataset, measure and source, to the last digit."""
    records = json.loads((shared / "reference" / "reference-results.json").read_text(encoding="utf-8"))["records"]
    sources = {"paper": "LexMAE paper"}
    known = {
        (r["system"], r["dataset"], r["metric"], sources.get(r["source"], r["source"]), r["where"]): r["value"] for r in records
    }
    for name in OWN:
        for figure in catalog.model(name).published:
            if figure.source == "model card":
                assert (figure.measure, figure.value) == ("R@1000", MODEL_CARDS[name])
                continue
            # The paper's passages have their titles and its table does not say so: our id does.
            dataset = figure.dataset.replace("-titled", "")
            place = (dataset, figure.measure, figure.source, figure.where)
            assert figure.value in {known.get((system, *place)) for system in REFERENCE[name]}, (name, place)


@pytest.mark.parametrize(("name", "mean"), [("splade_pp_ed", 0.4780), ("splade_v3", 0.4935)])
def test_all_of_beir_12_is_there(name, mean):
    """The figures of the twelve sets of `beir-12@1` average to what Pyserini's and Anserini's tables average to."""
    members = suites.suite("beir").aggregates[0].members
    found = [figure.value for figure in catalog.model(name).published if figure.dataset in members]

    assert len(found) == 12
    assert sum(found) / 12 == pytest.approx(mean, abs=5e-5)


# --- from a name to a call


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bm25(k1=0.9)", "bm25(k1=0.9)"),
        (
            'lexmae(model="DIR")',
            'sparse_mlm(document_length=144, model="DIR", positions="text", query_length=32, titles="off")',
        ),
        (
            'lexmae("DIR", document_length=128)',
            'sparse_mlm(document_length=128, model="DIR", positions="text", query_length=32, titles="off")',
        ),
        ("splade_v3", 'sparse_mlm(document_length=256, model="naver/splade-v3", positions="all", query_length=256)'),
        (
            'splade_v3(model="mine", dtype="float16")',
            'sparse_mlm(document_length=256, dtype="float16", model="mine", positions="all", query_length=256)',
        ),
        ('splade_mask("DIR")', 'sparse_mlm(document_length=256, model="DIR", positions="all", query_length=256)'),
    ],
)
def test_a_name_stands_for_a_call(typed, meant):
    """A model's name becomes its encoder with its settings; what the user sets wins; other names stay as they are."""
    assert str(catalog.expand(call(typed))) == meant


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            "lexmae",
            'lexmae needs model="FOLDER": nobody has released a trained LexMAE; write lexmae(model="FOLDER")',
        ),
        (
            "splade_mask(query_length=32)",
            'splade_mask needs model="FOLDER": its authors released no weights; write splade_mask(model="FOLDER")',
        ),
        ('splade_v3("DIR")', 'splade_v3("DIR"): splade_v3 takes settings by name; see: lexbench show model splade_v3'),
        (
            "lexmae(144)",
            "lexmae(144): lexmae takes settings by name, or the model alone; see: lexbench show model lexmae",
        ),
        (
            'lexmae("a", "b")',
            'lexmae("a", "b"): lexmae takes settings by name, or the model alone; see: lexbench show model lexmae',
        ),
        (
            'lexmae("a", model=1)',
            'lexmae("a", model=1): lexmae takes settings by name, or the model alone; see: lexbench show model lexmae',
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(typed, said):
    """A model without weights, and settings without names, cost one line that says what to type."""
    with pytest.raises(CommandError) as error:
        catalog.expand(call(typed))
    assert str(error.value) == said


def test_an_unknown_model_says_what_is_near():
    """A name that is almost right is answered with the right one."""
    with pytest.raises(UnknownName, match="no model 'spladev3'; did you mean 'splade_v3'"):
        catalog.model("spladev3")


# --- weights that lie beside their file

INCLUDED = MINE.replace('"public"', '"included"').replace("me/mine", "mine").replace("document_length = 200\n", "")


@pytest.fixture
def packed(folder):
    """Write a model as the package has it: half-precision weights, a tokenizer in one file, its settings in config.json."""
    torch = pytest.importorskip("torch", reason="models are in the extra neural")
    from checkpoints import reconfigure, rewrite, sparsified, tiny_bert
    from transformers import AutoTokenizer

    place = sparsified(tiny_bert(folder / "mine", form="transformers", safetensors=True))
    rewrite(place, lambda state: {key: value.to(torch.float16) for key, value in state.items()})
    AutoTokenizer.from_pretrained(place).save_pretrained(place)
    for name in ("vocab.txt", "tokenizer_config.json"):
        (place / name).unlink()
    reconfigure(place, dtype="float16", lexbench={"positions": "text", "query_length": 9, "document_length": 12})
    (folder / "mine.toml").write_text(INCLUDED)
    return place


def test_weights_beside_the_file_are_found(packed):
    """A model whose weights lie beside its file needs no folder; these say for themselves how they encode."""
    encoder = systems.system("mine|top_k(4)@impact").retriever.encoder

    assert encoder.model == str(packed)
    assert (encoder.positions, encoder.query_length, encoder.document_length) == ("text", 9, 12)


def test_weights_in_half_precision_are_read_as_they_are(packed):
    """Half-precision weights encode in float32: the vectors are those of the same numbers kept as float32, to the last bit."""
    import torch
    from checkpoints import rewrite

    texts = ["sparse retrieval of a document", "the neural model is a term weight in search"]
    encoder = systems.system("mine@impact").retriever.encoder
    half = encoder.encode_document(texts)
    rewrite(packed, lambda state: {key: value.to(torch.float32) for key, value in state.items()})
    whole = encoder.encode_document(texts)

    assert half.nnz > len(texts)
    np.testing.assert_array_equal(half.toarray(), whole.toarray())


def test_weights_that_are_not_there_are_said(folder, capsys):
    """Where weights are missing, running the model is one line, giving another folder works, and it is still shown."""
    (folder / "mine.toml").write_text(INCLUDED)
    (folder / "mine").mkdir()

    with pytest.raises(MissingData) as error:
        catalog.expand(call("mine"))
    assert str(error.value) == (
        f"mine: its weights are not in this copy of lexbench ({folder}/mine has no model.safetensors); install the whole "
        'package again, or write mine(model="FOLDER")'
    )
    assert str(catalog.expand(call('mine(model="other")'))) == 'sparse_mlm(model="other")'
    exit_code, out, _ = run(capsys, "show", "model", "mine")
    assert exit_code == 0
    assert "\nhere: False\n" in out
    (folder / "mine.toml").write_text(INCLUDED.replace('model = "mine"\n', ""))
    with pytest.raises(InvalidFile, match=r'weights = "included" needs settings\.model, their folder, beside this file'):
        catalog.model("mine")


def test_weights_that_are_there_are_shown(folder, capsys):
    """A model in the package is listed as included; its page has size and card, and a line that runs it as it is."""
    (folder / "mine.toml").write_text(INCLUDED)
    (folder / "mine").mkdir()
    (folder / "mine" / "model.safetensors").write_bytes(bytes(1_300_000))

    assert re.search(r"^ mine +sparse_mlm +included +My own *$", run(capsys, "list", "models")[1], re.MULTILINE)
    out = run(capsys, "show", "model", "mine")[1]
    assert "\nsize: 1.3 MB\n" in out
    assert f"\ncard: {folder / 'mine' / 'README.md'}\n" in out
    assert out.endswith("\nrun: lexbench run suite beir -r mine@impact\n")


def test_the_weights_in_the_package():
    """lexmae_nano runs by its name alone; card, notice and licence are with it; the catalogue names its data."""
    place = PACKAGED / "lexmae_nano"
    pytest.importorskip("transformers", reason="models are in the extra neural")
    found = catalog.model("lexmae_nano")
    training = json.loads((place / "training.json").read_text(encoding="utf-8"))
    encoder = systems.system("lexmae_nano@impact").retriever.encoder
    vectors = encoder.encode_query(["sort a list by key"])
    terms = [encoder.token(term) for term in vectors.indices[np.argsort(-vectors.data)]]

    assert {"sort", "list", "key", "sorted", "keys"} <= set(terms[:10])
    assert {"README.md", "NOTICE"} <= {path.name for path in place.iterdir()}
    assert training["recipe"]["license"] == found.license.lower()
    assert all(one["dataset"] in found.data for one in training["facts"]["data"])


# --- models of others


def test_a_file_of_ones_own_is_a_model(folder):
    """A TOML in a folder that LEXBENCH_MODELS names is a model like ours."""
    (folder / "mine.toml").write_text(MINE)

    assert catalog.names() == sorted([*OWN, "mine"])
    assert catalog.expand(Call("mine")) == call('sparse_mlm(model="me/mine", document_length=200)')


def test_ones_own_weights_can_be_named_in_the_file(folder):
    """A file for weights of the user's names their folder, or says why it names none."""
    (folder / "mine.toml").write_text(MINE.replace('"public"', '"bring"').replace("me/mine", "/weights"))
    assert catalog.expand(Call("mine")) == call('sparse_mlm(model="/weights", document_length=200)')

    (folder / "mine.toml").write_text(MINE.replace('"public"', '"bring"').replace('model = "me/mine"\n', ""))
    with pytest.raises(InvalidFile, match=r"without settings\.model the key `why` must say why there is none"):
        catalog.model("mine")


def test_several_folders_are_read(folder, monkeypatch):
    """LEXBENCH_MODELS names folders as PATH does, and a folder that is named twice is read once."""
    for name in ("first", "second"):
        (folder / name).mkdir()
        (folder / name / f"{name}.toml").write_text(MINE.replace('"mine"', f'"{name}"'))
    monkeypatch.setenv("LEXBENCH_MODELS", os.pathsep.join(str(folder / name) for name in ("first", "second", "first")))

    assert catalog.model("first").name == "first"
    assert catalog.model("second").name == "second"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that makes an installed package: one module, and an entry point of `lexbench.models`."""

    def make(module, value):
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[lexbench.models]\ntheirs = {value}\n")
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").write_text("1 / 0\n")
        (tmp_path / module / "mine.toml").write_text(MINE)
        monkeypatch.syspath_prepend(tmp_path)
        catalog._plugged_in.cache_clear()

    yield make
    catalog._plugged_in.cache_clear()


def test_a_package_adds_models_by_an_entry_point(install):
    """The TOMLs beside a module that an entry point of `lexbench.models` names are models; the module is not imported."""
    install("their_models", "their_models")

    assert catalog.model("mine").settings["model"] == "me/mine"


@pytest.mark.parametrize(
    ("value", "said"),
    [("no_such_module", "there is no module no_such_module"), ("their_faults.inner", "ZeroDivisionError: division by zero")],
)
def test_a_package_without_its_module_is_named(install, value, said):
    """An entry point whose module is not there, or inside one that raises, is one line that names the plug-in."""
    install("their_faults", value)

    with pytest.raises(CannotStart, match=f"models of plug-in 'theirs' do not load: {said}"):
        catalog.names()


def test_a_folder_that_is_not_there_is_said(folder, monkeypatch):
    """A wrong LEXBENCH_MODELS is one line."""
    monkeypatch.setenv("LEXBENCH_MODELS", str(folder / "nowhere"))
    with pytest.raises(CommandError, match=r"LEXBENCH_MODELS names .*nowhere, which is no folder"):
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
        (("[settings]", "[settings"), "line"),
    ],
)
def test_a_bad_file_names_itself_and_the_place(folder, change, said):
    """A file that does not read is an error that names it and the key, for its own model and for no other."""
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
    """A name of two files, of a plug-in too, or one that is no name, is an error that names the file."""
    path = folder / f"{name}.toml"
    path.write_text(MINE.replace('"mine"', f'"{name}"'))

    with pytest.raises(InvalidFile, match=said) as error:
        catalog.expand(Call(name))
    assert str(path) in str(error.value)


# --- the command line


def test_list_models(folder, capsys):
    """One row a model; one whose file does not read stands there as broken, and the rest is listed all the same."""
    (folder / "mine.toml").write_text("schema = 2")
    exit_code, out, err = run(capsys, "list", "models")

    assert (exit_code, err) == (0, "")
    for name in [*OWN, "mine"]:
        assert re.search(rf"^ {name} ", out, re.MULTILINE)
    assert re.search(r"^ splade_v3 +sparse_mlm +public +SPLADE-v3 *$", out, re.MULTILINE)
    assert re.search(r"^ mine +\? +broken ", out, re.MULTILINE)


def test_list_models_as_json(folder, capsys):
    """With --json every model is there whole, or with the reason why not."""
    (folder / "mine.toml").write_text("schema = 2")
    exit_code, out, _ = run(capsys, "list", "models", "--json")
    found = {each["name"]: each for each in json.loads(out)}

    assert exit_code == 0
    assert list(found) == sorted([*OWN, "mine"])
    assert "mine.toml" in found["mine"]["error"]
    assert found["splade_v3"]["settings"]["model"] == "naver/splade-v3"
    assert found["lexmae"]["published"][0]["value"] == 0.426


SHOWN = """\
schema: 1
name: splade_mask
summary: SPLADE-mask: SPLADE trained to keep its top-k terms
encoder: sparse_mlm
family: sparse
weights: none
why: its authors released no weights
settings:
  positions: all
  query_length: 256
  document_length: 256
titles: False
source: https://arxiv.org/abs/2112.09628
paper: Yang, Ma and Lin 2021, Sparsifying Sparse Representations for Passage Retrieval by Top-k Masking, arXiv 2112.09628
note: SPLADE is trained and scored on MS MARCO's own passages, which have no titles. The figure is from the LexMAE paper's \
table of index sizes.
published:
  - dataset: msmarco-passage/dev/small, measure: RR@10, value: 0.373, source: LexMAE paper, where: Table 4
run: lexbench run suite beir -r 'splade_mask(model="FOLDER")@impact'
"""


def test_show_model(capsys):
    """All that is known of a model, and the line that runs it."""
    assert run(capsys, "show", "model", "splade_mask") == (0, SHOWN, "")


def test_in_a_terminal_long_lines_are_folded_between_words(capsys, monkeypatch):
    """No line is wider than the terminal, what goes on stands further in, and no word, thus no address, is cut."""
    monkeypatch.setenv("COLUMNS", "72")
    _, out, _ = run(capsys, "show", "model", "splade_mask")

    assert max(map(len, out.splitlines())) <= 72
    assert out.split() == SHOWN.split()
    assert "\nnote: SPLADE is trained and scored on MS MARCO's own passages, which\n  have no titles. The figure" in out
    assert "\n    source: LexMAE paper, where: Table 4\n" in out


def test_show_model_as_json(capsys):
    """With --json the same as one document."""
    exit_code, out, _ = run(capsys, "show", "model", "splade_v3", "--json")

    assert exit_code == 0
    assert json.loads(out)["run"] == "lexbench run suite beir -r splade_v3@impact"
    assert len(json.loads(out)["published"]) == 16
