"""Passages: cut as a few lines of Python cut them, their scores brought to documents as by hand."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import checkpoints
import numpy as np
import pytest
import tiny
import transformers
import workbench
from scipy import sparse
from workbench import BM25, Bag, Folded, encoded

from lexbench import registry
from lexbench.arrays.vectors import offsets_of
from lexbench.datasets.passages import Windows, passages, sentences, words
from lexbench.display.progress import Progress
from lexbench.errors import CommandError
from lexbench.notation import Call, parse
from lexbench.report.leaderboard.board import family
from lexbench.retrievers.passages import Passages
from lexbench.runner import jobs, plan
from lexbench.runner.systems import resolve
from lexbench.storage.store import Store
from lexbench.types import Document, Kind, MultiVectors

DOCUMENTS, QUERIES, SIZE, STRIDE = 150, 9, 10, 4
VOCABULARY = [f"w{number}" for number in range(60)]


@dataclass(frozen=True)
class Single(Folded):
    """An encoder of several vectors per text: the folded vector of each word."""

    kind: ClassVar[Kind] = Kind.MULTI

    def encode_document(self, texts: Sequence[str]) -> MultiVectors:
        """Return vectors (words, 8)."""
        values = [Folded.encode_document(self, text.split()) for text in texts if text.split()]
        counts = np.array([len(text.split()) for text in texts])
        return MultiVectors(np.concatenate([np.zeros((0, 8), np.float32), *values]), offsets_of(counts))

    encode_query = encode_document


@pytest.fixture(scope="module")
def texts():
    """Make documents of 0 to 60 words, by id; the last twelve have one text."""
    chance = random.Random(2)
    made = [" ".join(chance.choices(VOCABULARY, k=chance.randrange(61))) for _ in range(DOCUMENTS - 12)]
    return {f"d{number:03d}": text for number, text in enumerate(made + made[-1:] * 12)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, texts):
    """Write them as a BEIR folder."""
    chance = random.Random(3)
    queries = {f"q{number}": " ".join(chance.choices(VOCABULARY, k=3)) for number in range(QUERIES)}
    judged = [(query, doc_id, 1) for query in queries for doc_id in chance.sample(sorted(texts), 5)]
    return tiny.write(tmp_path_factory.mktemp("words") / "words", texts, queries, judged)


@pytest.fixture(scope="module")
def bench(folder, tmp_path_factory):
    """Open the dataset in a store for all tests of this file."""
    return workbench.opened(folder, Store(tmp_path_factory.mktemp("store")))


def cut(text, size=SIZE, stride=STRIDE):
    """Cut a text into passages of words, as by hand."""
    found = text.split()
    starts = [0]
    while starts[-1] + size < len(found):
        starts.append(starts[-1] + stride)
    return [" ".join(found[start : start + size]) for start in starts]


def results(folder, systems):
    """Run systems on the folder, in the store of the moment, and return their results."""
    planned = plan.plan_dataset(str(folder), systems, ["nDCG@10"], 100)
    return [outcome.result or outcome.error for outcome in jobs.run(planned, Store())]


def ranked(bench, retriever, k=1000):
    """Return the ids that a retriever finds, with their scores, in the order of its list, for each query."""
    ids = [name.decode() for name in bench.corpus.doc_ids]
    return [[(ids[doc], score) for doc, score in found.items()] for found in workbench.searched(bench, retriever, k)]


def products(encoder, queries, pieces):
    """Return the scores (queries, passages) from an encoder's vectors; of several vectors per text by MaxSim."""
    asked, there = encoder.encode_query(queries), encoder.encode_document(pieces)
    if not isinstance(asked, MultiVectors):
        scores = asked @ there.T
        return scores.toarray() if sparse.issparse(scores) else scores
    rows = [[vectors.values[a:b] for a, b in pairwise(vectors.offsets)] for vectors in (asked, there)]
    return np.array([[(one @ other.T).max(1).sum() if len(other) else -np.inf for other in rows[1]] for one in rows[0]])


def expected(bench, texts, encoder, how, matching):
    """Return the lists that `ranked` must return, from all scores of all passages; with *matching* only those above 0."""
    pieces = [(doc_id, piece) for doc_id, text in texts.items() for piece in (cut(text)[:1] if how == "first" else cut(text))]
    scores = products(encoder, [query.text for query in bench.dataset.queries], [piece for _, piece in pieces])
    lists = []
    for row in scores:
        of_document = {}
        for (doc_id, _), score in zip(pieces, row.tolist(), strict=True):
            of_document.setdefault(doc_id, []).append(score)
        total = {doc_id: sum(of_one) if how == "sum" else max(of_one) for doc_id, of_one in of_document.items()}
        kept = {doc_id: score for doc_id, score in total.items() if score > (0 if matching else -np.inf)}
        lists.append(sorted(kept.items(), key=lambda pair: (pair[1], pair[0]), reverse=True))  # of equals the larger id
    return lists


# ---- cutting ---------------------------------------------------------------------------------------------------------------


def pieces(document, size, stride, units=words, **settings):
    """Return the texts of the passages of a document, a text or a Document."""
    whole = document if isinstance(document, Document) else Document("d", document)
    (found,) = passages([whole], Windows(size, stride, **settings), units)
    return [passage.text for passage in found]


def test_windows_by_hand():
    """Passages begin every *stride* words, and the last is the first that reaches the end; nothing is lost between words."""
    assert pieces("a b  c d\ne f g", 4, 2) == ["a b  c d", "c d\ne f", "e f g"]
    assert pieces("a b c d e f", 3, 3) == ["a b c", "d e f"]
    assert pieces(" a b c ", 3, 1) == [" a b c "]
    assert pieces("", 3, 1) == [""]
    assert pieces("a b c d e f", 2, 2, most=2) == ["a b", "c d"]


def test_passages_have_ids_and_titles():
    """The id is that of the document and a number from 0; the first has the title, or each has."""
    document = Document("D7", "The title\nfour words and six", 10)
    for windows, title in ((Windows(4, 4), ""), (Windows(2, 2, titles="each"), "The title")):
        (found,) = passages([document], windows, words)
        shown = [(passage.doc_id, passage.title, passage.body) for passage in found]
        assert shown == [("D7#0", "The title", "four words"), ("D7#1", title, "and six")]


def test_sentences_by_hand():
    """A sentence ends at its mark, not behind an initial or an abbreviation nor before a small letter, and at an empty line."""
    text = 'Dr. J. Smith (cf. Fig. 2) left. "Why?" he asked! See e.g. this\n\nA heading\n\n3.5 is a number… Is it? Yes'

    first = ["Dr. J. Smith (cf. Fig. 2) left.", '"Why?" he asked!', "See e.g. this", "A heading"]
    assert pieces(text, 1, 1, sentences) == [*first, "3.5 is a number…", "Is it?", "Yes"]
    assert pieces("Contents . . . . 4 Genes . . . . 5", 1, 1, sentences) == ["Contents .", ". . . 4 Genes .", ". . . 5"]
    assert pieces("今日は。明日も!", 1, 1, sentences) == ["今日は。", "明日も!"]
    assert pieces("One. Two. Three. Four.", 2, 1, sentences) == ["One. Two.", "Two. Three.", "Three. Four."]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Write a tiny model whose vectors have some terms."""
    return checkpoints.sparsified(checkpoints.masked_lm(tmp_path_factory.mktemp("model") / "bert", "bert"))


def test_tokens_are_the_models_own(model):
    """Each passage has the wanted number of the text's tokens, and begins at a word."""
    encoder = registry.create("encoders", Call("sparse_mlm", (str(model),), (("document_length", 64), ("query_length", 64))))
    chance = random.Random(5)
    text = " ".join("".join(chance.choices("abcdefghij", k=chance.randrange(1, 6))) for _ in range(80))
    found = pieces(text, 20, 7, encoder.token_spans)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    whole, tokens = tokenizer.tokenize(text), [tokenizer.tokenize(piece) for piece in found]
    at = 0
    for number, (own, next_own) in enumerate(pairwise(tokens)):
        assert own == whole[at : at + 20], number
        assert not own[0].startswith("##")
        beginnings = [start for start in range(at + 1, at + 8) if not whole[start].startswith("##")]
        at = max(beginnings, default=at + 7)
        assert next_own == whole[at : at + 20]

    assert at + 20 >= len(whole) > 150
    assert encoder.own_tokens() == 2  # [CLS] and [SEP]


# ---- from passages to documents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["max", "first", "sum"])
@pytest.mark.parametrize(
    ("encoder", "engine"), [(Bag(), "csr"), (Folded(), "flat"), (Single(), "maxsim")], ids=["sparse", "dense", "multi"]
)
def test_documents_have_the_score_of_their_passages(bench, texts, encoder, engine, how):
    """MaxP, FirstP and SumP equal a full table of scores, ties by the larger id, for all kinds of vectors."""
    found = ranked(bench, Passages((encoded(encoder, f"@{engine}"),), words=SIZE, stride=STRIDE, score=how))
    wanted = expected(bench, texts, encoder, how, matching=engine == "csr")
    for mine, theirs in zip(found, wanted, strict=True):
        finite = [(doc_id, score) for doc_id, score in theirs if score > -np.inf]
        assert dict(mine) == pytest.approx(dict(finite), rel=1e-5, abs=1e-5)
        values = dict(finite)
        assert [values[doc_id] for doc_id, _ in mine] == pytest.approx([score for _, score in finite], rel=1e-5, abs=1e-5)
    if engine == "csr":  # sums of quarters and thirty-seconds: no rounding hides the order
        assert [[doc_id for doc_id, _ in mine] for mine in found] == [[doc_id for doc_id, _ in theirs] for theirs in wanted]


@pytest.mark.parametrize("how", ["max", "sum"])
def test_one_passage_is_the_document(bench, how):
    """With a passage as long as the longest document, each score is that of the retriever alone, to the bit."""
    alone = ranked(bench, resolve(parse(BM25)))

    assert ranked(bench, resolve(parse(f'passages({BM25}, words=60, score="{how}")'))) == alone


@pytest.mark.parametrize(("how", "k"), [("max", 1), ("max", 20), ("sum", 3)])
def test_k_documents_are_found_although_passages_collapse(bench, how, k):
    """Also if many passages of one document come first, k documents are found: the first k of a longer list."""
    retriever = Passages((encoded(Bag(), "|quantize@impact"),), words=3, stride=1, score=how)
    deep = ranked(bench, retriever)

    assert min(map(len, deep)) > 20
    assert ranked(bench, retriever, k) == [found[:k] for found in deep]


def test_passages_score_what_others_found(bench):
    """Later in a pipeline, documents have the scores that a search for all of them gives."""
    inner = f"passages({BM25}, words=5, stride=2)"
    everything = [dict(found) for found in ranked(bench, resolve(parse(inner)))]
    found = ranked(bench, resolve(parse(f'pipeline({BM25}, {inner}, weights=[0, 1], scores="raw", k=20)')))
    for mine, full in zip(found, everything, strict=True):
        assert len(mine) == 20
        assert dict(mine) == pytest.approx({doc_id: full[doc_id] for doc_id, _ in mine}, rel=1e-6)


def test_a_result_says_what_was_indexed(folder, texts, model, store):
    """A result tells of the passages, of the bytes of their index, and of the model."""
    system = f'passages(sparse_mlm(model="{model}", document_length=64, query_length=64)@impact, tokens=32, stride=16)'
    whole = f'sparse_mlm(model="{model}", document_length=64, query_length=64)@impact'
    by_passages, plain = results(folder, [system, whole])
    pattern = r"[\d,]+ passages of 150 documents are indexed, at most \d+ of one"

    assert sum(bool(re.match(pattern, note.text)) for note in by_passages.notes) == 1
    assert by_passages.counts.documents == plain.counts.documents == len(texts)
    assert by_passages.sizes["index"] > plain.sizes["index"]
    assert family(by_passages.recipe) == family(plain.recipe) == "sparse"
    assert by_passages.sizes["model"] == plain.sizes["model"] > 0


def test_parts_of_passages_are_encoded_side_by_side(folder, model, store):
    """`lexbench encode` encodes the passages, and a run finds their vectors."""
    system = f'passages(sparse_mlm(model="{model}", document_length=64, query_length=64)@csr, words=20, stride=10)'
    planned = plan.plan_dataset(str(folder), [system], ["nDCG@10"], 100)
    (done,) = jobs.encode(planned, store, (0, 1), Progress())

    assert done.left == 0
    assert done.corpus.endswith("passages")
    results(folder, [system])
    assert [path.name for path in (store.root / "encodings").iterdir()] == [done.folder.name]


# ---- what cannot be --------------------------------------------------------------------------------------------------------


def test_ids_that_would_mix_are_refused(store, tmp_path):
    """Where one id is another's with a byte below # behind it, passages would be taken for the other's: it is an error."""
    place = tiny.write(tmp_path / "ids", {"a": "x y z " * 9, 'a"b': "x y z " * 9}, {"q": "x"}, [("q", "a", 1)])
    (line,) = results(place, ["passages(bm25, words=4, stride=2)"])

    assert line.startswith("the ids 'a' and 'a\"b' would mix their passages, a#0 and a\"b#0")


def test_a_plan_estimates_its_passages(folder):
    """The disk that it needs grows with the passages that documents will have; impossible depths and lengths are refused."""
    with pytest.raises(CommandError, match="give it document_length=4096"):
        resolve(parse("passages(lexmae_nano, tokens=4096)"))
    with pytest.raises(CommandError, match=re.escape("passages(depth=50) is asked for 100 documents per query; give it depth")):
        plan.plan_dataset(str(folder), ["passages(bm25, words=5, score='sum', depth=50)"], ["nDCG@10"], 100)
    systems = [f"passages(lexmae_nano@impact, words={size})" for size in (20, 4)]
    plans = (plan.plan_dataset(str(folder), [one], ["nDCG@10"], 100) for one in systems)
    few, many = (workbench.bytes_needed(one, folder / "no store") for one in plans)

    assert many > 2 * few
