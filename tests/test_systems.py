"""From an expression or an object to a system."""

import json

import pytest
from samples import Length

from lexbench import registry
from lexbench.errors import CommandError, MissingExtra, require
from lexbench.notation import parse
from lexbench.runner.plan import systems_of
from lexbench.runner.systems import describe, named_systems, system


def test_one_system_has_one_recipe():
    """Defaults are filled in, threads are left out, and systems that differ in settings of searching share an index."""
    plain, tuned = system("bm25"), system("bm25(k1=1.2)")
    assert plain.recipe == system("bm25(b=0.4, k1=0.9)").recipe == system("bm25(threads=2)").recipe
    assert plain.recipe != tuned.recipe
    assert describe(tuned.retriever, index=True) == describe(plain.retriever, index=True)


def test_a_setting_of_the_search_on_one_engine_can_be_one_of_the_index_on_another():
    """The order of ties decides the order of documents in Lucene's index, so it is in the key of the index."""
    pytest.importorskip("pyserini", reason="bm25@lucene is in the extra lucene")
    ascending, descending = system("bm25@lucene").retriever, system("bm25(ties='trec_eval')@lucene").retriever
    assert describe(ascending, index=True) != describe(descending, index=True)


def test_an_object_is_never_taken_for_another():
    """Two objects have two recipes, also if they are equal or have no hash, unless `identity()` says that they are one."""

    class Same(Length):
        __hash__ = None

        def __eq__(self, other):
            return True

    class Known(Length):
        def identity(self):
            return {"weights": "abc"}

    first, second = Same(), Same()
    assert system(first).recipe != system(second).recipe
    assert not system(Length()).reusable
    assert system("bm25").reusable
    assert describe(Known()) == describe(Known())
    assert [found.name for found in systems_of({"mine": Length(), "base": "bm25"})] == ["mine", "base"]


def test_a_missing_extra_names_what_to_type():
    """A package that is not installed gives one line with the command that installs it."""
    with pytest.raises(MissingExtra, match=r"engine 'x' needs the package 'no_such_module'.*pip install 'lexbench\[x\]'"):
        require("engine 'x'", ["no_such_module"], "x")


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
        (["Router"], "BertModel", "sentence_transformer(model={})"),
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
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "modules.json").unlink(missing_ok=True)
    with pytest.raises(CommandError, match=r"do not say what model it is; type sparse_mlm\(model=.*, dense\(model="):
        named_systems(str(tmp_path))
