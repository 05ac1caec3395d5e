"""Known models: their files are sound, their names expand, and their figures are those that were published."""

import json
import os
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from lexbench import catalog, registry, suites
from lexbench.cli import code
from lexbench.contracts import all_contracts
from lexbench.errors import CannotStart, CommandError, InvalidFile, MissingData, MissingExtra, UnknownName
from lexbench.interop.formats.mteb import TASKS
from lexbench.measures import parse
from lexbench.notation import Call, Part
from lexbench.notation import parse as parse_part
from lexbench.runner import systems

OWN = catalog.names()
MODELS = {name: catalog.model(name) for name in OWN}
PACKAGED = Path(catalog.__file__).parent

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
    """Leave lines as long as they are, whatever started the tests says of the terminal's width."""
    monkeypatch.delenv("COLUMNS", raising=False)


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
    found = MODELS[name]

    assert found.name == name
    assert found.source.startswith("https://")
    assert found.paper
    if found.weights == "included":
        assert Path(str(found.settings["model"])) == PACKAGED / name
    else:
        for setting in ("model", "query_model"):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+", str(found.settings.get(setting, "owner/name")))
    assert not found.license or found.weights in {"public", "included"}


def test_no_weights_are_in_two_files():
    """A name on the hub is in one file, so that what is known of its weights stands in one place."""
    ids = [found.settings[key] for found in MODELS.values() for key in ("model", "query_model") if key in found.settings]

    assert len(ids) > 25
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", [name for name in OWN if MODELS[name].encoder])
def test_its_settings_are_those_of_its_encoder(name, tmp_path):
    """What a file sets, and what it asks for, are settings of its encoder, of the right type: it can be made from them."""
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
    """Yield every call in a part with the groups that it may be of."""
    yield part.head, ("encoders", "retrievers", "rerankers")
    yield from ((transform, ("transforms",)) for transform in part.transforms)
    if part.engine:
        yield part.engine, ("engines",)
    for value in (*part.head.args, *dict(part.head.kwargs).values()):
        if isinstance(value, Part):
            yield from calls(value)


@pytest.mark.parametrize("name", [name for name in OWN if MODELS[name].run])
def test_what_is_typed_reads(name):
    """The system of a file reads in the notation; each name in it is a plug-in's or a model's, and each setting one of that."""
    for each, groups in calls(parse_part(MODELS[name].run)):
        group, plugin = next(((group, each.name) for group in groups if each.name in registry.names(group)), ("", ""))
        if not group:
            meant = MODELS[each.name]
            group, plugin = "rerankers" if meant.family == "reranker" else "encoders", meant.encoder
        try:
            known = {item.name for item in fields(registry.load(group, plugin)) if item.init}
        except MissingExtra:
            continue
        assert dict(each.kwargs).keys() <= known, str(each)


def test_a_family_of_weights_is_typed_with_its_engine(folder):
    """Sparse vectors go to `impact`, a reranker comes after BM25, and other encoders have the exact engine of their kind."""
    assert catalog.model("splade_v3").run == "splade_v3@impact"
    assert catalog.model("unicoil").run == 'unicoil(expansions="FILE")@impact'
    assert catalog.model("tas_b").run == "tas_b"
    assert catalog.model("minilm_reranker").run == "rerank(bm25, minilm_reranker, k=100)"
    assert catalog.model("doct5query").run == 'bm25(expansions="FILE")'
    assert catalog.model("ar2").run == ""
    assert catalog.command(catalog.model("ar2")) == ""
    assert catalog.command(catalog.model("adore")) == (
        """lexbench run suite beir -r 'adore(model="FOLDER", query_model="FOLDER")'"""
    )


def test_models_for_documents_are_run_on_documents():
    """A model whose figures are all of whole documents has a line that runs it on these."""
    assert catalog.command(catalog.model("costa")) == """lexbench run suite msmarco_doc -r 'costa(model="FOLDER")'"""


@pytest.mark.parametrize("name", OWN)
def test_its_figures_can_be_compared(name):
    """A published figure is of a dataset and in a measure that lexbench has, in 0..1, and none is there twice."""
    found = MODELS[name]
    for figure in found.published:
        assert figure.dataset in all_contracts()
        parse(figure.measure)
        assert 0 < figure.value < 1

    assert len({(figure.dataset, figure.measure, figure.source) for figure in found.published}) == len(found.published)


def test_no_model_has_the_name_of_a_plug_in():
    """What is typed means one thing."""
    groups = ("encoders", "rerankers", "retrievers", "engines", "transforms")
    assert {name for group in groups for name in registry.names(group)}.isdisjoint(OWN)


# --- the systems of the LexMAE paper

PRINTED = {  # what each table and figure prints, by hand
    "Table 1, dense": "ANCE, ADORE, TAS-B, TCT-ColBERT, coCondenser, ColBERTv2, RocketQAv2, AR2, SimLM",
    "Table 1, lexicon-based": "BM25, DeepCT, RepCONC, SPLADE-max, DistilSPLADE-max, SelfDistil, Co-SelfDistil, LexMAE",
    "Table 2": "BM25, DocT5, SPLADE, ColBERT, DPR, ANCE, GenQ, TAS-B, Contriever, UnifieR, LexMAE",
    "Table 3": "BERT, ICT, B-PROP, SEED, COSTA, LexMAE",
    "Table 4": "ColBERTv2, AR2, SimLM, BM25, SPLADE-max, SPLADE-mask, LexMAE",
    "Table 5": "LexMAE-pipeline, LexMAE-ensemble, UnifieR-uni, Ensemble of SPLADE, COIL-full, CLEAR",
    "Table 6": "coCondenser, SimLM, LexMAE",
    "Table 7": "LexMAE",
    "Table 8": "RocketQA, PAIR, RocketQAv2, AR2, UnifieR-lexicon, UnifieR-dense, LexMAE",
    "Table 9": "RepBERT, ME-HYBRID, RocketQA, RocketQAv2, LexMAE",
    "Table 10": "LexMAE, SimLM, Enc-Dec MLM, Condenser, MLM, Enc-Dec RTD, AutoEncoder, BERT-base",
    "Figure of speeds": "SimLM, AR2, RepCONC, ADORE-IVF, SPLADEv2, BT-SPLADE, DocT5query, BM25, LexMAE",
    "Figure of zero-shot retrieval": "BM25, SGPT-CE",
    "Appendix, the teacher": "R2anker",
}


def named():
    """Return what the models say that the paper calls them."""
    return {printed for found in MODELS.values() for printed in found.named}


@pytest.mark.parametrize("place", PRINTED)
def test_every_system_of_the_paper_has_a_file(place):
    """Whatever a table or figure of the paper names is in the catalogue, runnable or with the reason why not."""
    assert set(PRINTED[place].split(", ")) <= named()


def test_every_system_of_the_papers_records_has_a_file(shared):
    """None of the systems that the paper has a figure of is forgotten."""
    records = json.loads((shared / "reference" / "reference-results.json").read_text(encoding="utf-8"))["records"]
    printed = {record["system"] for record in records if record["source"] == "paper"}

    assert len(printed) == 47
    assert printed <= named()


def test_what_the_paper_has_twice_is_one_system_or_two_roles():
    """A printed name stands in two files only where the paper means two things by it."""
    printed = [each for found in MODELS.values() for each in found.named]

    assert {each for each in printed if printed.count(each) > 1} == {
        "LexMAE",  # of passages, and of documents
        "RocketQA",  # the retriever, and in Table 9 the reranker
        "RocketQAv2",
    }


# --- figures

REFERENCE = {  # what the reference file calls exactly these weights: a system, or one of its variants
    "adore": {"ADORE", "ADORE+STAR"},
    "ance": {"ANCE", "ance-pytorch"},
    "ar2": {"AR2"},
    "b_prop_document": {"B-PROP"},
    "bert_document": {"BERT"},
    "bge_base": {"bge-base-en-v1.5.faiss-flat.pytorch", "bge-base-en-v1.5.faiss"},
    "bm25_anserini": {"BM25: None", "bm25-default", "bm25-flat"},
    "bm25_tuned": {"bm25-tuned"},
    "bt_splade_large": {"naver/efficient-splade-VI-BT-large"},
    "clear": {"CLEAR"},
    "co_self_distil": {"splade-pp-sd-pytorch", "Co-SelfDistil"},
    "cocondenser": {"coCondenser: None"},
    "coil_full": {"COIL-full: None", "COIL-full: without hard negatives"},
    "colbert_v2": {"ColBERTv2: None"},
    "contriever": {"contriever"},
    "contriever_msmarco": {"contriever-msmarco"},
    "cosdpr_distil": {"cosdpr-distil.faiss-flat.pytorch"},
    "costa": {"COSTA: None", "COSTA: 2nd iteration"},
    "deepct": {"DeepCT"},
    "distilsplade_max": {"distill-splade-max.cached/distill-splade-max-cached", "DistilSPLADE-max"},
    "doct5query": {"bm25-d2q-t5-default", "DocT5query: None"},
    "dpr_multiset": {"DPR"},
    "genq": {"GenQ: None"},
    "ict_document": {"ICT"},
    "lexmae": {"LexMAE"},
    "lexmae_document": {"LexMAE"},
    "lexmae_ensemble": {"LexMAE-ensemble"},
    "lexmae_pipeline": {"LexMAE-pipeline"},
    "me_hybrid": {"ME-HYBRID"},
    "pair": {"PAIR"},
    "pretraining_auto_encoder": {"AutoEncoder"},
    "pretraining_bert_base": {"BERT-base"},
    "pretraining_condenser": {"Condenser"},
    "pretraining_enc_dec_mlm": {"Enc-Dec MLM"},
    "pretraining_enc_dec_rtd": {"Enc-Dec RTD"},
    "pretraining_mlm": {"MLM"},
    "repbert_reranker": {"RepBERT: retrieve+rerank"},
    "repconc": {"RepCONC: None"},
    "retromae": {"RetroMAE: distilled"},
    "rocketqa": {"RocketQA: None"},
    "rocketqa_reranker": {"RocketQA: retrieve+rerank"},
    "rocketqa_v2": {"RocketQAv2: None"},
    "rocketqa_v2_reranker": {"RocketQAv2: retrieve+rerank"},
    "seed_document": {"SEED"},
    "simlm": {"SimLM: None", "SimLM: simlm-base-msmarco-finetuned"},
    "splade_ensemble": {"Ensemble of SPLADE"},
    "splade_mask": {"SPLADE-mask"},
    "splade_max": {"naver/splade_v2_max", "SPLADE-max"},
    "splade_pp_ed": {"splade-pp-ed-pytorch", "splade-pp-ed"},
    "splade_self_distil": {"SelfDistil"},
    "splade_v3": {"splade-v3-pytorch", "splade-v3.onnx"},
    "star": {"STAR"},
    "tas_b": {"TAS-B: None", "distilbert-kd-tasb-pytorch"},
    "tct_colbert_v2_hnp": {"TCT-ColBERT", "tct_colbert-v2-hnp-pytorch"},
    "unicoil": {"unicoil-pytorch"},
    "unicoil_noexp": {"unicoil-noexp-pytorch"},
    "unifier_dense": {"UnifieR-dense"},
    "unifier_lexicon": {"UnifieR-lexicon"},
    "unifier_uni": {"UnifieR-uni"},
    "v_splade_large": {"naver/efficient-splade-V-large"},
}
ELSEWHERE = {  # read there; the reference file has neither model cards nor MTEB
    ("bt_splade_large", "msmarco-passage/dev/small", "R@1000", "model card"): 0.978,
    ("v_splade_large", "msmarco-passage/dev/small", "R@1000", "model card"): 0.980,
    ("minilm", "beir/scifact/test", "nDCG@10", "MTEB"): 0.64508,
    ("minilm", "beir/nfcorpus/test", "nDCG@10", "MTEB"): 0.31594,
    ("splade_v3_lexical", "msmarco-passage/dev/small", "RR@10", "model card"): 0.400,
    ("opensearch_doc_v3_gte", "beir/arguana", "nDCG@10", "model card"): 0.520,
    ("opensearch_doc_v3_gte", "beir/fiqa/test", "nDCG@10", "model card"): 0.407,
    ("opensearch_doc_v3_gte", "beir/hotpotqa/test", "nDCG@10", "model card"): 0.716,
    ("opensearch_doc_v3_gte", "beir/nfcorpus/test", "nDCG@10", "model card"): 0.360,
    ("opensearch_doc_v3_gte", "beir/nq", "nDCG@10", "model card"): 0.582,
    ("opensearch_doc_v3_gte", "beir/trec-covid", "nDCG@10", "model card"): 0.734,
}
MTEB_FILE = re.compile(r"results/[\w.-]+/[\w.-]+/(?P<task>\w+)\.json@[0-9a-f]{8}")  # of embeddings-benchmark/results


def test_figures_are_those_of_the_reference(shared):
    """Each figure is in the reference file under these weights, for the same dataset, measure and source, to the last digit."""
    records = json.loads((shared / "reference" / "reference-results.json").read_text(encoding="utf-8"))["records"]
    sources = {"paper": "LexMAE paper"}
    known = {
        (label, r["dataset"], r["metric"], sources.get(r["source"], r["source"]), r["where"], r["value"])
        for r in records
        for label in (r["system"], f"{r['system']}: {r.get('variant')}")
    }
    for name in OWN:
        for figure in MODELS[name].published:
            if (elsewhere := (name, figure.dataset, figure.measure, figure.source)) in ELSEWHERE:
                assert figure.value == ELSEWHERE[elsewhere]
                continue
            if found := MTEB_FILE.fullmatch(figure.where):  # one file a figure, which anyone can look up
                assert (figure.source, figure.measure) == ("MTEB", "nDCG@10")
                assert TASKS[figure.dataset].name == found["task"]
                continue
            # Passages that have their titles are told apart by our id only.
            place = (figure.dataset.replace("-titled", ""), figure.measure, figure.source, figure.where, figure.value)
            assert any((label, *place) in known for label in REFERENCE[name]), (name, place)


@pytest.mark.parametrize("name", ["gte_moderncolbert", "gte_modernbert_base", "opensearch_doc_v3_distill"])
def test_every_task_of_mteb_that_is_a_set_of_beir_is_there(name):
    """Models of today that MTEB has whole have a figure on each of our sets that is a task of MTEB's, and on no other."""
    assert {figure.dataset for figure in MODELS[name].published} == set(TASKS)


def test_figures_with_titles_stand_apart():
    """Figures of MS MARCO stand under the titled dataset where a model was trained with titles, else under the other."""
    for name, found in MODELS.items():
        where = {one.dataset.split("/")[0] for one in found.published if one.dataset.startswith("msmarco-passage")}
        assert where <= {"msmarco-passage-titled" if found.titles else "msmarco-passage"}, name


@pytest.mark.parametrize("name", [name for name in OWN if "titles" in MODELS[name].settings])
def test_titles_are_asked_for_where_a_model_knows_them(name):
    """Titles are put apart by default only for weights whose training data had them."""
    found = MODELS[name]

    assert found.settings["titles"] == "off" or found.titles


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("splade_pp_ed", 0.4780),
        ("splade_v3", 0.4935),
        ("bm25_anserini", 0.4077),
        ("contriever", 0.3369),
        ("contriever_msmarco", 0.4408),
        ("bge_base", 0.5219),
    ],
)
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


def test_a_folder_of_ones_own_says_how_it_is_read(tmp_path):
    """What a trained model's folder states beats the paper's 144 tokens, which `lexmae` means; what is typed beats both."""
    from checkpoints import tiny_bert

    config = tiny_bert(tmp_path / "mine") / "config.json"
    stated = {"document_length": 512, "query_length": 256}
    config.write_text(json.dumps(json.loads(config.read_text()) | {"lexbench": stated}))
    model = ("model", str(config.parent))
    folder = f'model="{config.parent}"'

    alone = catalog.expand(Call("lexmae", kwargs=(model,)))
    shorter = catalog.expand(Call("lexmae", kwargs=(("document_length", 96), model)))
    assert str(alone) == f'sparse_mlm({folder}, positions="text", titles="off")'
    assert str(shorter) == f'sparse_mlm(document_length=96, {folder}, positions="text", titles="off")'


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            "lexmae",
            (
                'lexmae needs model="FOLDER": its authors released no trained one; ours are lexmae_nano and lexmae_mini; '
                'write lexmae(model="FOLDER")'
            ),
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


@pytest.mark.parametrize(
    ("typed", "error", "said"),
    [
        ("bm25_anserini", CommandError, "bm25_anserini is made of parts: type bm25"),
        (
            "deepct(k1=2)",
            CommandError,
            'deepct is made of parts: type bm25(term_weights="FILE", k1=10, b=0.9); FILE holds each document',
        ),
        (
            "ar2@flat",
            CannotStart,
            "ar2 cannot be run: its authors released weights for Natural Questions and TriviaQA only, none for MS MARCO; see: ",
        ),
        (
            'adore("STAR")',
            CommandError,
            'adore needs query_model="FOLDER": its weights are on the authors\' Google Drive (lexbench show model adore says',
        ),
    ],
)
def test_what_is_no_encoder_says_what_to_type(typed, error, said):
    """The name of a system of parts is answered with its parts, that of what cannot be run with the reason, in one line."""
    with pytest.raises(error) as raised:
        systems.system(typed)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_a_reranker_by_its_name_comes_after_a_retriever():
    """Typed alone it is answered with how it is used."""
    with pytest.raises(CommandError, match=r"rerank\(bm25, minilm_reranker, k=100\)"):
        systems.system("minilm_reranker")


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

    assert re.search(r"^ mine +sparse +included +My own *$", run(capsys, "list", "models")[1], re.MULTILINE)
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

    assert {"sort", "list", "key"} == set(terms[:3])
    assert {"sorting", "lists", "keys"} & set(terms)
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


BARE = MINE.partition("[settings]")[0].replace('encoder = "sparse_mlm"\n', "")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((), 'weights = "public" needs an encoder or a system'),
        (('"public"', '"none"'), "the key `why` must say why there is none"),
        (('"public"', '"bring"\nsystem = "bm25"'), "the key `why` must say why there is none"),
        (('"public"', '"none"\nsystem = "bm25"'), "has no settings.model, and no system"),
    ],
)
def test_a_system_of_ones_own_says_what_it_needs(folder, change, said):
    """A file without encoder names a system, or says why there is nothing to run."""
    (folder / "mine.toml").write_text(BARE.replace(*change) if change else BARE)
    with pytest.raises(InvalidFile) as error:
        catalog.model("mine")
    assert said in str(error.value)

    (folder / "mine.toml").write_text(BARE.replace('"public"', '"unneeded"\nsystem = "bm25(k1=2.0)"'))
    with pytest.raises(CommandError, match=r"^mine is made of parts: type bm25\(k1=2\.0\)$"):
        catalog.expand(call("mine"))


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
        (('"public"', '"unneeded"'), 'weights = "unneeded" is for a system'),
        (('encoder = "sparse_mlm"\n', ""), "settings are those of an encoder, and none is named"),
        (('encoder = "sparse_mlm"', 'encoder = "sparse_mlm"\nsystem = "bm25"'), "encoder and system exclude each other"),
        (('family = "sparse"', 'family = "spare"'), "$.family"),
        (('weights = "public"', 'weights = "public"\nasks = { query_model = "FOLDER" }'), "why something is asked"),
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
    assert re.search(r"^ splade_v3 +sparse +public +SPLADE-v3 *$", out, re.MULTILINE)
    assert re.search(r"^ colbert_v2 +late interaction +public ", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 100
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
named: SPLADE-mask
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
