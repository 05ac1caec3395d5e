"""From an expression or an object to a system."""

import json
import re

import numpy as np
import pytest
from scipy import sparse

from lexbench import registry
from lexbench.errors import CommandError, LexbenchError, MissingExtra, UnknownName, require
from lexbench.notation import parse
from lexbench.runner.plan import systems_of
from lexbench.runner.systems import describe, named_systems, system


class Dense:
    """A user's encoder object: no kind, no settings."""

    def encode_document(self, texts):
        """Return the length of each text."""
        return np.array([[len(text)] for text in texts], np.float32)

    encode_query = encode_document


class Sparse(Dense):
    """An encoder object that returns sparse vectors."""

    def encode_document(self, texts):
        """Return the length of each text."""
        return sparse.csr_array(Dense.encode_document(self, texts))

    encode_query = encode_document


def test_defaults_are_filled_in():
    """`bm25` and `bm25(k1=0.9, b=0.4)` are one system with one recipe; another setting makes another system."""
    assert system("bm25").recipe == system("bm25(b=0.4, k1=0.9)").recipe
    assert system("bm25").recipe != system("bm25(k1=1.2)").recipe


def test_settings_of_the_search_share_an_index():
    """Systems that differ only in settings of searching share an index; other systems do not."""
    tuned, plain = system("bm25(k1=1.2)").retriever, system("bm25").retriever
    assert describe(tuned, index=True) == describe(plain, index=True)
    assert describe(tuned) != describe(plain)


def test_a_setting_of_the_search_on_one_engine_can_be_one_of_the_index_on_another():
    """The order of ties decides the order of documents in Lucene's index, so it is in the key of the index."""
    pytest.importorskip("pyserini", reason="bm25@lucene is in the extra lucene")
    ascending, descending = system("bm25@lucene").retriever, system("bm25(ties='trec_eval')@lucene").retriever
    assert describe(ascending, index=True) != describe(descending, index=True)


def test_runtime_settings_are_in_no_recipe():
    """A setting that cannot change an answer is not in the recipe."""
    assert system("bm25").recipe == system("bm25(threads=2)").recipe


@pytest.mark.parametrize(("encoder", "engine"), [(Dense(), "Flat"), (Sparse(), "Csr")])
def test_an_object_with_two_methods_is_enough(encoder, engine):
    """An encoder object is searched by the exact engine of its kind of vectors."""
    assert type(system(encoder).retriever.engine).__name__ == engine


def test_an_object_is_never_taken_for_another():
    """Two objects of one class have two recipes."""
    assert system(Dense()).recipe != system(Dense()).recipe
    assert not system(Dense()).reusable
    assert system("bm25").reusable


def test_an_object_that_says_what_it_is_is_recognised():
    """An object with `identity()` has the same recipe as long as the identity is the same."""

    class Known(Dense):
        def identity(self):
            return {"weights": "abc"}

    assert describe(Known()) == describe(Known())


def test_a_mapping_gives_labels():
    """A mapping gives systems their names."""
    assert [found.name for found in systems_of({"mine": Dense(), "base": "bm25"})] == ["mine", "base"]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ("bm26", UnknownName, "did you mean 'bm25'?"),
        ("bm25@nowhere", UnknownName, "lucene"),
        ("bm25|top_k(3)", CommandError, "is no encoder"),
        ("bm25(k2=1)", UnknownName, "there is: analyzer, b, expansions, k1"),
        ("bm25(k1='a')", CommandError, "takes float, not 'a'"),
        ("bm25(k1=True)", CommandError, "takes float, not True"),
        ("bm25(1, 2, 3, 4, 5, 6, 7, 8)", CommandError, "8 given"),
        ("bm25(1.2, k1=0.9)", CommandError, "k1 is given twice"),
        ("run_file", CommandError, "needs path"),
        (3, CommandError, "cannot be benchmarked"),
    ],
)
def test_a_mistake_costs_one_line(given, error, said):
    """An error says in one line what is wrong, what exists and what to type."""
    with pytest.raises(error, match=re.escape(said)) as caught:
        system(given)

    assert "\n" not in str(caught.value)


def test_one_label_is_one_system():
    """Two systems with one name are refused: they would overwrite each other in every table."""
    with pytest.raises(CommandError, match="two systems are called 'bm25': bm25 and bm25; name one"):
        systems_of(["bm25", "bm25"])


def test_a_missing_extra_names_what_to_type():
    """A package that is not installed gives one line with the command that installs it."""
    with pytest.raises(MissingExtra, match=r"engine 'x' needs the package 'no_such_module'.*pip install 'lexbench\[x\]'"):
        require("engine 'x'", ["no_such_module"], "x")


def test_vectors_of_an_unknown_kind_are_refused():
    """An encoder that returns texts is refused before anything is built."""

    class Texts(Dense):
        def encode_query(self, texts):
            return texts

    with pytest.raises(LexbenchError, match="the encoder returned list of str"):
        system(Texts())


def test_listing_imports_nothing(monkeypatch):
    """Names of plug-ins come from file names and entry points; no module is imported."""
    monkeypatch.setattr(registry, "import_module", lambda name: pytest.fail(f"imported {name}"))

    assert "bm25" in registry.names("retrievers")
    assert registry.summary("engines", "flat").startswith("Exact dense search")


@pytest.mark.parametrize(
    ("modules", "architecture", "written"),
    [
        ([], "BertForMaskedLM", "sparse_mlm(model={})@impact"),
        (["MLMTransformer", "SpladePooling"], "BertForMaskedLM", "sparse_mlm(model={})@impact"),
        (["Transformer", "Pooling", "Normalize"], "BertModel", "dense(model={})"),
        (["Transformer", "Dense"], "BertModel", "late_interaction(model={})"),
        (["Router"], "BertModel", "inference_free(model={})@impact"),
        ([], "BertForSequenceClassification", "rerank(bm25, cross_encoder(model={}))"),
    ],
)
def test_a_model_folder_is_run_as_what_its_files_say(tmp_path, modules, architecture, written):
    """The modules of sentence-transformers and the architecture decide, with and without a name."""
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    if modules:
        listed = [
            {"type": f"sentence_transformers.models.{kind}", "path": "", "name": str(at)} for at, kind in enumerate(modules)
        ]
        (tmp_path / "modules.json").write_text(json.dumps(listed))
    expected = str(parse(written.format(json.dumps(str(tmp_path)))))

    assert named_systems(str(tmp_path)) == [(None, expected)]
    assert named_systems(f"mine = {tmp_path}") == [("mine", expected)]


def test_a_model_folder_that_says_nothing_is_refused(tmp_path):
    """The message has the expressions to choose from."""
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(CommandError, match=r"do not say what model it is; type sparse_mlm\(model=.*, dense\(model="):
        named_systems(str(tmp_path))


def test_a_run_file_is_a_system(tmp_path):
    """The path of a file stands for run_file."""
    path = tmp_path / "x.run"
    path.write_text("q Q0 d 1 1.0 t\n")

    assert named_systems(str(path)) == [(None, str(parse(f"run_file({json.dumps(str(path))})")))]
