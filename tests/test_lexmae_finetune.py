"""A stage of fine-tuning: its data, its teachers, its loss, and scoring a model in training."""

import msgspec
import numpy as np
import pytest

pytest.importorskip("accelerate", reason="training is in the extra train")

import tiny_recipes
import torch
from checkpoints import cross_encoder, masked_lm, random_model, sentence_transformer
from tiny import enter
from topics import VOCABULARY, write

from lexbench.artifacts.graph import Graph
from lexbench.display.progress import Progress
from lexbench.errors import CannotStart
from lexbench.lexmae import recipe
from lexbench.lexmae.data import negatives
from lexbench.lexmae.data.batches import tensors
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.model import losses, start
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts, in_groups, load, load_encoder, save
from lexbench.lexmae.recipe.settings import Hardware, TextHeadSettings
from lexbench.lexmae.training import finetune, plan, selection, text_head
from lexbench.lexmae.training.finetune import FineTuner, StageData
from lexbench.models.added_terms import ExactTerms
from lexbench.rerankers.cross_encoder import CrossEncoder
from lexbench.storage.store import Store
from lexbench.testing.executors import RecordedProgress
from lexbench.types import Document

SYSTEM = ["stage1.teacher=ensemble(bm25, bm25(k1=2.0))", "stage1.depth=12"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Return a folder with the collection."""
    return write(tmp_path_factory.mktemp("finetune"))


@pytest.fixture
def place(world, monkeypatch):
    """Return the folder with the collection as current folder."""
    enter(world, monkeypatch)
    return world


@pytest.fixture
def asked(place):
    """Return the recipe with a first stage that starts from the initial model."""
    return recipe.read(place / "tiny.toml", ["stage1.start=start", "encoding.query_length=8"])


@pytest.fixture
def stage(place):
    """Return the data of the first stage."""
    return ranking(place, "encoding.query_length=8")


def ranking(place, *settings, progress=None):
    """Return the data of the first stage of the recipe with other settings."""
    asked = recipe.read(place / "tiny.toml", ["stage1.start=start", *settings])
    _, tokenizer = load(start.make(asked, Graph(Store())))
    return StageData(asked, 1, TextReader(tokenizer, asked.encoding), Graph(Store(), progress or Progress()))


def mined(place, name):
    """Return the mined lists of that name."""
    return negatives.read(place / "out" / "negatives" / "stage1" / name)


def test_batches_have_each_querys_own_documents(stage):
    """A batch has the queries, cut, and for each its relevant document first, then the drawn negatives."""
    (training_set,) = stage.training_sets
    drawn = [stage.draw(number, np.random.default_rng(number)) for number in (0, 25)]
    found = stage.collate(drawn)
    tokenizer = stage.reader.tokenizer
    cut = tokenizer([stage.query(one) for one in drawn], truncation=True, max_length=8)["input_ids"]

    assert found.keys() == {"queries", "documents", "keys", "relevant"}
    assert found["queries"]["ids"].tolist() == cut
    assert found["documents"]["ids"].shape == (8, 14)
    for place, one in enumerate(drawn):
        texts = training_set.corpus.documents
        for offset, position in enumerate([one.positive, *one.negatives.tolist()]):
            (document,) = texts(position, position + 1)
            ids = found["documents"]["ids"][4 * place + offset].tolist()
            assert ids == tokenizer(document.text)["input_ids"]
        assert one.positive in training_set.positives[one.query]
    pools = found["documents"]["pools"]
    assert pools.sum(1).tolist() == [12] * 8  # neither [CLS] nor [SEP]


def test_the_teachers_scores_are_the_documents(stage):
    """The teacher's score of query i and its j-th document is at (i, j)."""

    def lengths(queries, documents):
        return torch.tensor([100.0 * len(query) + len(one.text) for query, one in zip(queries, documents, strict=True)])

    stage.teacher = lengths
    drawn = [stage.draw(number, np.random.default_rng(number)) for number in (3, 30, 60)]
    texts = [[stage.document(one.source, at).text for at in one.documents] for one in drawn]
    expected = [[100.0 * len(stage.query(one)) + len(text) for text in row] for one, row in zip(drawn, texts, strict=True)]

    assert stage.teacher_scores(*stage.collate(drawn)["keys"].values()).tolist() == expected


@pytest.mark.parametrize("contrast", ["own", "in_batch"])
def test_a_system_teaches_by_what_it_finds(place, contrast):
    """A teaching system's scores are scaled to 0 to 1 per list; documents that it does not find have 0."""
    stage = ranking(place, *SYSTEM, f"stage1.contrast={contrast}")
    lists = mined(place, "teacher-topics")
    drawn = [stage.draw(number, np.random.default_rng(number)) for number in (3, 30, 55)]
    own = [one.documents for one in drawn]
    asked_of = own if contrast == "own" else [[at for row in own for at in row]] * 3
    expected = []
    for one, positions in zip(drawn, asked_of, strict=True):
        own_list = slice(*lists.offsets[one.query : one.query + 2])
        scores = dict(zip(lists.docs[own_list].tolist(), lists.scores[own_list].tolist(), strict=True))
        low, high = min(scores.values()), max(scores.values())
        expected.append([(scores.get(at, low) - low) / (high - low) for at in positions])

    collated = stage.collate(drawn)
    tuner = FineTuner(None, stage.stage, 1)
    found = tuner.taught(collated["keys"], collated["keys"], collated["lists"])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    assert 0 < np.mean(np.array(expected) > 0) < 1


def scored(place, training_set, rows, *, without=None):
    """Write *rows* (query, document, score) as a run, and return the setting of this teacher.

    Another query has a score for its first relevant document, except the query *without*.
    """
    names, given = training_set.corpus.doc_ids.astype(str), {query for query, *_ in rows} | {without}
    pairs = zip(training_set.queries, training_set.positives, strict=True)
    others = [(query.query_id, names[docs[0]], 0.5) for query, docs in pairs if query.query_id not in given]
    lines = (
        f"{query} Q0 {name} {1 + number % 3} {score} other" for number, (query, name, score) in enumerate([*rows, *others])
    )
    (place / "scores.trec").write_text("".join(f"{line}\n" for line in lines))
    return ["stage1.teacher=run_file(path='scores.trec')"]


def test_a_file_of_scores_teaches_as_it_is(place):
    """With "given" scores differ as in the file, for a query's own documents; one that the file lacks has the lowest score."""
    stage = ranking(place)
    drawn = [stage.draw(number, np.random.default_rng(number)) for number in (3, 30)]
    (training_set,) = stage.training_sets
    names = training_set.corpus.doc_ids.astype(str)
    rows, expected = [], []
    for one in drawn:
        query = training_set.queries[one.query].query_id
        first, second, *missing = one.documents
        rows += [(query, names[first], 7.5), (query, names[second], -2.5), (query, "elsewhere", -4.5)]
        expected.append([10.0, 0.0, *([0.0] * len(missing))])
    taught = ranking(place, *scored(place, training_set, rows), "stage1.teacher_scores=given", "stage1.contrast=in_batch")
    batch = taught.collate(drawn)
    found = FineTuner(None, taught.stage, 1).taught(batch["keys"], batch["keys"], batch["lists"])

    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_a_file_of_scores_has_all_queries(place, stage):
    """A query without scores is refused unless it is held out; relevant documents without a score are counted."""
    (source,) = stage.examples.sources
    training_set, told = source.training_set, RecordedProgress()
    trained = next(query.query_id for query in training_set.queries if query.query_id not in source.left_out)
    ranking(place, *scored(place, training_set, [], without=min(source.left_out)), progress=told)
    (note,) = [note for note in told.notes if "relevant" in note]  # each query has 10 relevant documents, and one score
    count = len(training_set.queries) - len(source.left_out)
    assert f": {9 * count} of {10 * count} relevant documents of topics have no score" in note
    with pytest.raises(CannotStart, match=rf": 1 of the {count} queries .* have no scores, e.g. {trained};"):
        ranking(place, *scored(place, training_set, [], without=trained))


@pytest.mark.parametrize(
    ("teacher", "is_system"),
    [("bm25", True), ("cross-encoder/ms-marco-MiniLM-L-6-v2", False), ("a-name-that-nobody-has", False), (None, False)],
)
def test_a_teacher_is_a_system_or_a_reranker(teacher, is_system):
    """An expression is a teaching system; any other name is a reranker."""
    assert (negatives.teaching_system(teacher) is not None) == is_system


QUERIES = ["sparse retrieval", "the query", "sparse retrieval", "w7"]
DOCUMENTS = [
    Document("a", "neural search dense term weight model", body_at=14),  # titled: neural search
    Document("b", "lexical"),
    Document("c", "the of and in is sparse dense retrieval neural search term", body_at=4),  # titled: the
    Document("d", "w8 w9 document"),
]


def test_a_cross_encoder_teaches_by_its_logits(tmp_path):
    """The scores are those of the reranker `cross_encoder` for 192 tokens, with a separator behind titles."""
    folder = str(cross_encoder(tmp_path, max_position_embeddings=512))
    pairs = [*QUERIES, "query " * 30], [*DOCUMENTS, Document("e", "the " + "dense " * 400, body_at=4)]
    scores = finetune.load_teacher(folder, Hardware(device="cpu"))(*pairs)

    assert scores.tolist() == CrossEncoder(folder, length=192, titles="string", device="cpu").score(*pairs).tolist()
    assert scores.std() > 0.01, "the pairs can be told apart"


@pytest.mark.parametrize(("pooling", "layers"), [("mean", ["Normalize"]), ("cls", [])])
def test_a_dual_encoder_teaches_by_cosine(tmp_path, pooling, layers):
    """The score is 20 times the cosine of sentence-transformers' vectors."""
    model = sentence_transformer(tmp_path / "saved", masked_lm(tmp_path / "body"), pooling=pooling, layers=layers, length=10)
    queries, documents = (torch.from_numpy(model.encode(texts)) for texts in (QUERIES, [one.text for one in DOCUMENTS]))
    scores = finetune.load_teacher(str(tmp_path / "saved"), Hardware(device="cpu"))(QUERIES, DOCUMENTS)

    torch.testing.assert_close(scores, 20 * torch.cosine_similarity(queries, documents), atol=1e-4, rtol=0)


def batch(generator, lengths):
    """Return random texts of these lengths as arguments of `FineTuner.forward`."""
    rows = [generator.integers(5, len(VOCABULARY), length) for length in lengths]
    return tensors(rows, pad=0, silent=[2, 3])


KEYS = {"queries": torch.arange(2), "documents": torch.arange(4)}


def tuned(terms=None, teach=None, **settings):
    """Return the tuner of a random model with exact *terms* and other settings, two queries, and four documents."""
    encoder = LexiconEncoder(random_model("bert", vocabulary=VOCABULARY), terms)
    generator = np.random.default_rng(0)
    asked = tiny_recipes.stage(**{"steps": 1, "lambda_d": 0.02, "lambda_q": 0.03} | settings)
    tuner = FineTuner(encoder, asked, 10, teach)
    return tuner, batch(generator, [4, 6]), batch(generator, [9, 12, 5, 8])


def test_training_of_a_text_head(asked, stage, tmp_path):
    """Its texts are documents and queries, half each; its terms are words; a saved model has it again."""
    initial = start.make(asked, Graph(Store()))
    (encoder, tokenizer), settings = load_encoder(initial), TextHeadSettings(terms=6, texts=20, steps=3)
    encoding = msgspec.structs.replace(asked.encoding, text_terms=4, query_text_terms=2)
    with_head = msgspec.structs.replace(asked, text_head=settings, encoding=encoding)
    rows = stage.sample(settings.texts, asked.seed)
    encoder.text_head = text_head.train(encoder, stage.reader, rows, with_head, Progress())
    save(encoder, tokenizer, tmp_path)
    again = load_encoder(tmp_path)[0].text_head

    assert len(rows) == 20
    assert all(len(word) > 2 and word[0] != "[" for word in tokenizer.convert_ids_to_tokens(again.words.tolist()))
    torch.testing.assert_close(again.weight, encoder.text_head.weight, rtol=1e-3, atol=1e-3)
    assert again.words.tolist() == encoder.text_head.words.tolist()


@pytest.mark.parametrize("contrast", ["own", "in_batch"])
def test_the_loss_is_the_papers(contrast):
    """The loss is the contrast plus both weighted FLOPS terms (Eq. 11); with a teacher, divergence plus gamma x contrast."""
    teacher = torch.tensor([[1.0, 3.0], [2.0, -1.0]])
    tuner, queries, documents = tuned(contrast=contrast, contrast_weight=0.2)
    taught_tuner, *_ = tuned(None, lambda queries, documents: teacher, contrast=contrast, contrast_weight=0.2)
    with torch.no_grad():
        q, d = tuner.encoder(Texts(**queries)), tuner.encoder(Texts(**documents))
        found, taught = (one(queries, documents, 0, KEYS) for one in (tuner, taught_tuner))
    rows = [d[:2], d[2:]] if contrast == "own" else [d, d]
    wanted = sum(-torch.log_softmax(rows[i] @ q[i], 0)[0 if contrast == "own" else 2 * i] for i in (0, 1)) / 2
    flops = 0.02 * d.mean(0).square().sum() + 0.03 * q.mean(0).square().sum()

    assert found["contrastive"].item() == pytest.approx(wanted.item(), rel=1e-4)
    assert found["loss"].item() == pytest.approx((wanted + flops).item(), rel=1e-4)
    assert found["terms_d"].item() == (d > 0).sum().item() / 4
    own = torch.stack([d[:2] @ q[0], d[2:] @ q[1]])
    divergence = losses.divergence(own, teacher, "teacher_student")
    assert taught["loss"].item() == pytest.approx((0.2 * wanted + flops + divergence).item(), rel=1e-4)


def test_flops_ramp_up():
    """A quadratic ramp over 10 steps weighs FLOPS by 0 at first, a quarter at step 5, and fully from step 10 on."""
    tuner, queries, documents = tuned(ramp="quadratic")
    with torch.no_grad():
        found = [tuner(queries, documents, step, KEYS) for step in (0, 5, 10, 20)]
    added = [(one["loss"] - one["contrastive"]).item() for one in found]

    assert added == pytest.approx([0.0, added[2] / 4, added[2], added[2]], abs=1e-4)
    assert added[2] == pytest.approx((0.02 * found[0]["flops_d"] + 0.03 * found[0]["flops_q"]).item(), rel=1e-4)


def test_flops_are_of_predictions():
    """FLOPS ignores exact terms, however large they are."""
    vocabulary = torch.ones(len(VOCABULARY))
    plain, queries, documents = tuned()
    exact, *_ = tuned(ExactTerms(vocabulary, 9 * vocabulary, 9.0))
    with torch.no_grad():
        without, found = (tuner(queries, documents, 0, KEYS) for tuner in (plain, exact))
    for name in ("flops_d", "flops_q", "predicted_d", "predicted_q"):
        torch.testing.assert_close(found[name], without[name])
    assert found["contrastive"] != without["contrastive"]


def test_groups_of_like_length_change_nothing(monkeypatch):
    """Texts computed in groups of similar length have the same vectors, in order."""
    monkeypatch.setattr("lexbench.lexmae.model.encoder._TOGETHER", {"cpu": 2, "cuda": 2})
    encoder = LexiconEncoder(random_model("bert", vocabulary=VOCABULARY))
    texts = Texts(**batch(np.random.default_rng(1), [3, 9, 5, 14, 5]))
    with torch.no_grad():
        torch.testing.assert_close(in_groups(encoder, texts), encoder(texts), rtol=1e-4, atol=1e-5)


def test_scores_of_a_model_in_training(asked, stage, monkeypatch):
    """A candidate's score is the product of both vectors, without dropout; the block size changes nothing."""
    candidates = selection.gather(asked, stage.training_sets, Graph(Store()))
    encoder = LexiconEncoder(random_model("bert", vocabulary=VOCABULARY, hidden_dropout_prob=0.5))
    encoder.train()
    reranker = selection.CandidateScorer(encoder, stage.reader, "fp32")
    (one,), corpus = candidates.sets, stage.corpora[0]
    found = reranker.scores(one, corpus)
    monkeypatch.setattr(selection, "_BLOCK", 7)
    monkeypatch.setattr(selection, "_DENSE", 3)
    in_blocks = reranker.scores(one, corpus)

    assert encoder.training
    np.testing.assert_allclose(in_blocks, found, rtol=1e-4)
    encoder.eval()
    for pair in (0, len(found) // 2, len(found) - 1):
        ids = stage.reader.queries([one.queries[one.pairs.queries[pair]].text])
        text = corpus[one.positions[one.pairs.documents[pair]]]
        with torch.no_grad():
            q, d = (encoder(Texts(**tensors(rows, pad=0, silent=[2, 3]))) for rows in (ids, [text]))
        assert found[pair] == pytest.approx((q @ d.T).item(), rel=1e-4)

    reader = TextReader(stage.reader.tokenizer, msgspec.structs.replace(stage.reader.encoding, document_terms=1))
    cut = selection.CandidateScorer(encoder, reader, "fp32")
    texts = [corpus[position] for position in one.positions[:5]]
    assert np.diff(cut.documents(texts).indptr).tolist() == [1] * 5


@pytest.mark.parametrize(("stage", "model", "command"), [(1, "pretrained", "pretrain"), (2, "stage1", "finetune --stage 1")])
def test_a_missing_model_is_named_with_its_command(place, monkeypatch, stage, model, command):
    """A missing model, which a stage starts from or finds its negatives with, is named with the command that trains it."""
    enter(place, monkeypatch)
    asked = recipe.read(place / "tiny.toml", ["output=none", "stage2.start=start"])
    with pytest.raises(CannotStart, match=rf"needs none/{model}, which does not exist yet; type: lexbench train {command}$"):
        plan.check(asked, plan.single_task(asked, "finetune", stage))
