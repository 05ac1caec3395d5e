"""The encoder `dense`, compared with transformers for each kind of model, and with sentence-transformers for its folders."""

import json
import shutil
import sys
from io import BytesIO
from pathlib import Path

import checkpoints
import fruit
import numpy as np
import pytest
import torch
import transformers
from samples import texts_of
from torch.nn.modules.module import register_module_forward_pre_hook
from workbench import results

from lexbench.devices import torch_threads
from lexbench.encoders.dense import Dense
from lexbench.encoders.late_interaction import LateInteraction
from lexbench.errors import CannotStart, CommandError, LexbenchError, MissingData
from lexbench.models.loading import load_tokenizer
from lexbench.report.run import tables
from lexbench.rerankers.cross_encoder import CrossEncoder
from lexbench.runner.systems import system
from lexbench.types import Document

TEXTS = ["sparse neural retrieval", "", "the term weight of a query in the search model is dense", "w1 w2 w3 " * 30, "x"]
TITLED = [
    Document("1", "neural search the term weight of a model", 14),
    Document("2", "no title here", 0),
    Document("3", "dense " + "query document " * 40, 6),
]


def dense(folder, **settings):
    """Return an encoder with lengths that suit a tiny model."""
    return Dense(str(folder), **{"query_length": 32, "document_length": 64, "device": "cpu", "pooling": "mean", **settings})


def states(folder, *texts, types=False, **settings):
    """Return the ids and last states of one text or pair, by transformers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    row = tokenizer(*texts, truncation=True, return_tensors="pt", **settings)
    given = {"token_type_ids": row["token_type_ids"]} if types else {}
    with torch.no_grad():
        found = model(input_ids=row["input_ids"], attention_mask=row["attention_mask"], **given).last_hidden_state[0]
    return row["input_ids"][0].tolist(), found.numpy()


def close(found, expected):
    """Return whether the vectors are those expected, but for rounding."""
    return np.allclose(found, np.array(expected), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("architecture", checkpoints.ARCHITECTURES)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_pooling(tmp_path, architecture, pooling):
    """A text's vector is its first state, or the mean of its states, in any batch."""
    folder = checkpoints.masked_lm(tmp_path / "model", architecture)
    encoder = dense(folder, pooling=pooling)
    alone = [states(folder, text, max_length=32)[1] for text in TEXTS]

    assert close(encoder.encode_query(TEXTS), [one[0] if pooling == "cls" else one.mean(axis=0) for one in alone])


@pytest.mark.parametrize(
    ("write", "call"),
    [
        (checkpoints.masked_lm, lambda folder: dense(folder, threads=1).encode_query(TEXTS)),
        (checkpoints.colbert, lambda folder: LateInteraction(folder, threads=1, document_length=32).encode_document(TEXTS)),
        (checkpoints.cross_encoder, lambda folder: CrossEncoder(str(folder), threads=1).score(["x"], [TITLED[0]])),
    ],
    ids=["dense", "late_interaction", "cross_encoder"],
)
def test_threads_are_those_of_one_model(tmp_path, write, call):
    """`threads` holds while its model computes, and not for the process that calls it."""
    folder, seen = write(tmp_path), set()
    call(folder)  # loads it
    with torch_threads(3), register_module_forward_pre_hook(lambda *_: seen.add(torch.get_num_threads())):
        call(folder)

        assert seen == {1}
        assert torch.get_num_threads() == 3


@pytest.mark.parametrize("model_type", ["camembert", "electra", "ernie", "mpnet", "xlm-roberta"])
def test_bodies_of_transformers(tmp_path, model_type):
    """Models that lexbench does not compute itself, e.g. all-mpnet-base-v2, whose attention has one form only."""
    sizes = {"vocab_size": len(checkpoints.VOCABULARY), "max_position_embeddings": 64, "pad_token_id": 0, **checkpoints.SIZES}
    torch.manual_seed(1)
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(model_type, **sizes, initializer_range=0.3))
    model.save_pretrained(tmp_path)
    checkpoints.write_tokenizer(tmp_path, model_type)
    expected = [states(tmp_path, text, max_length=32)[1].mean(axis=0) for text in TEXTS]

    assert close(dense(tmp_path, document_length=32).encode_query(TEXTS), expected)


def test_a_tokenizer_of_sentencepiece_alone(tmp_path, monkeypatch):
    """Old folders have a model of sentencepiece; XLM-RoBERTa's ids are one above those, between <s> (0) and </s> (2)."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="it is no dependency")
    file = BytesIO()
    settings = {"sentence_iterator": iter(TEXTS * 5), "model_writer": file, "vocab_size": 30, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(**settings)
    sizes = {"vocab_size": 64, "max_position_embeddings": 64, **checkpoints.SIZES}
    transformers.XLMRobertaModel(transformers.XLMRobertaConfig(**sizes)).save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer"}')
    with pytest.raises(MissingData, match=r"no tokenizer \(.*sentencepiece\.bpe\.model"):
        dense(tmp_path).identity()
    (tmp_path / "sentencepiece.bpe.model").write_bytes(file.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    found = dense(tmp_path, document_length=60).tokenise_documents([Document("", "the term weight")])

    assert found.ids.tolist() == [0, *(piece + 1 for piece in pieces.encode("the term weight")), 2]
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(CannotStart, match=r"its tokenizer is sentencepiece\.bpe\.model; .* pip install sentencepiece protobuf"):
        load_tokenizer(tmp_path)


def test_settings_of_foreign_code_are_refused_or_noted(tmp_path):
    """A folder with code of its authors is read by its config.json alone, and every setting of it must be known."""
    folder = checkpoints.reconfigure(checkpoints.masked_lm(tmp_path, "bert"), auto_map={"AutoModel": "theirs.Bert"})
    assert dense(folder).notes() == [f"{folder} brings code (auto_map); lexbench runs none of it, and follows config.json"]
    checkpoints.reconfigure(folder, centred=True)
    with pytest.raises(CommandError, match="does not know: centred; type unknown_ok=True to ignore them"):
        dense(folder).identity()
    assert dense(folder, unknown_ok=True).identity()["query_model"] is None


def test_half_precision_that_is_stated_is_noted(tmp_path):
    """Transformers computes in the dtype of config.json, lexbench in the one that is typed; by default float32."""
    folder = checkpoints.reconfigure(checkpoints.masked_lm(tmp_path, "bert"), dtype=None, torch_dtype="bfloat16")
    said = 'config.json states bfloat16, and lexbench computes in float32; for its rounding, type dtype="bfloat16"'
    assert (dense(folder).notes(), dense(folder, dtype="bfloat16").notes()) == ([said], [])
    assert CrossEncoder(
        str(checkpoints.reconfigure(checkpoints.cross_encoder(tmp_path / "pairs"), dtype="float16"))
    ).notes() == [said.replace("bfloat16", "float16")]
    checkpoints.reconfigure(folder, dtype="float32")
    assert dense(folder).notes() == []


def test_documents_are_cut_to_their_own_length(bert):
    """Documents are cut to document_length, and cut documents are counted."""
    tokens = dense(bert).tokenise_documents([Document("", text) for text in TEXTS])

    assert tokens.truncated == 1
    assert np.diff(tokens.starts).max() == 64
    assert close(dense(bert).encode_tokens(tokens), [states(bert, text, max_length=64)[1].mean(axis=0) for text in TEXTS])


def left_padded(folder, texts):
    """Return the mean of the states of each of *texts*, which transformers pads on the left and computes in one batch."""
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    real = tokens["attention_mask"]
    assert not real[:, 0].all()
    with torch.no_grad():
        found = transformers.AutoModel.from_pretrained(folder).eval()(input_ids=tokens["input_ids"], attention_mask=real)
    return ((found.last_hidden_state * real[..., None]).sum(1) / real.sum(1, keepdim=True)).numpy()


LEFT = {"padding": {"strategy": "BatchLongest", "direction": "Left", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}}


@pytest.mark.parametrize("file", ["tokenizer_config.json", "tokenizer.json"])
@pytest.mark.parametrize("architecture", checkpoints.ARCHITECTURES)
def test_padding_on_the_left(tmp_path, architecture, file):
    """It changes no vector where positions do not count padding. Where they do, vectors depend on batches, so it is refused."""
    folder = checkpoints.masked_lm(tmp_path / "model", architecture)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    texts = ["sparse dense", "a b", "term"]
    alone = dense(folder, document_length=48).encode_document(texts)
    checkpoints.reconfigure(folder, file, **(LEFT if file == "tokenizer.json" else {"padding_side": "left"}))
    checkpoints.reconfigure(folder, "tokenizer_config.json", **({"padding_side": None} if file == "tokenizer.json" else {}))
    by_transformers = left_padded(folder, texts)
    if architecture in ("bert", "distilbert"):
        assert np.abs(by_transformers - alone).max() > 0.1
        with pytest.raises(CommandError, match=f"padding_side=left, which moves the positions of a {architecture}"):
            dense(folder, document_length=48).encode_document(texts)
    else:
        assert close(dense(folder, document_length=48).encode_document(texts), by_transformers)


def test_positions_are_counted_from_the_padding_of_the_model(tmp_path):
    """A RoBERTa takes as many tokens as its config.json implies, also if its tokenizer pads with another token."""
    folder = checkpoints.masked_lm(tmp_path / "model", "roberta")
    text = ["a" * 99]
    expected = dense(folder, document_length=62).encode_document(text)
    checkpoints.reconfigure(folder, "tokenizer_config.json", pad_token="</s>")
    assert close(dense(folder, document_length=62).encode_document(text), expected)


@pytest.mark.parametrize("types", [False, True])
def test_titles_as_pairs(bert, types):
    """A pair of title and passage has types 0 and 0 (coCondenser), or 0 and 1 (SimLM). A missing title is "-".

    All tokens of a query have type 0.
    """
    encoder = dense(bert, titles="pair", type_ids=types, pooling="cls", document_length=24)
    pairs = [(one.title or "-", one.body) for one in TITLED]
    expected = [states(bert, *pair, types=types, max_length=24)[1][0] for pair in pairs]

    assert close(encoder.encode_tokens(encoder.tokenise_documents(TITLED)), expected)
    other = dense(bert, titles="pair", type_ids=not types, pooling="cls", document_length=24)
    assert np.abs(other.encode_tokens(other.tokenise_documents(TITLED)) - expected).max() > 0.01
    assert close(encoder.encode_query(TEXTS), [states(bert, text, types=types, max_length=32)[1][0] for text in TEXTS])


def test_tct_colbert_queries(bert):
    """TCT-ColBERT queries: "[CLS] [Q] " before, filled with [MASK] to 36, all attended, mean from position 4 (Pyserini)."""
    encoder = dense(bert, skip=4, special_tokens=False, mask_queries_to=36, query_length=36, query_prompt="[CLS] [Q] ")
    filled = [f"[CLS] [Q] {text}{'[MASK]' * 36}" for text in TEXTS]
    found = [states(bert, text, max_length=36, add_special_tokens=False)[1] for text in filled]

    assert [len(one) for one in found] == [36] * len(TEXTS)
    assert close(encoder.encode_query(TEXTS), [one[4:].mean(axis=0) for one in found])


def test_tct_colbert_documents(bert):
    """TCT-ColBERT documents: "[CLS] [D] " before, nothing behind, mean from position 4, 0 for no text (Pyserini)."""
    encoder = dense(bert, skip=4, special_tokens=False, document_prompt="[CLS] [D] ")
    found = [states(bert, f"[CLS] [D] {text}", max_length=64, add_special_tokens=False)[1][4:] for text in TEXTS]

    assert close(encoder.encode_document(TEXTS), [one.sum(axis=0) / max(len(one), 1) for one in found])
    assert not encoder.encode_document([""]).any()


@pytest.fixture
def ance(tmp_path):
    """Write a RoBERTa with ANCE's head, under the names of its authors."""
    return checkpoints.rewrite(checkpoints.masked_lm(tmp_path / "ance", "roberta"), with_head)


def with_head(state):
    """Return the tensors of a RoBERTa and of a random head: a linear layer to 24 dimensions and a normalisation."""
    draw = torch.Generator().manual_seed(3)
    shapes = {"embeddingHead.weight": (24, 32), "embeddingHead.bias": (24,), "norm.weight": (24,), "norm.bias": (24,)}
    body = {key: value for key, value in state.items() if key.startswith("roberta.")}
    return body | {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


def test_ance(ance):
    """ANCE: the first state through a linear layer and layer normalisation; texts are lower-cased (Pyserini's AnceEncoder)."""
    encoder = dense(ance, pooling="cls", head="linear_layernorm", lowercase=True)
    layers = with_head({})
    expected = []
    for text in ("Neural Search", "x", ""):
        first = torch.from_numpy(states(ance, text.lower(), max_length=32)[1][0])
        made = torch.nn.functional.linear(first, layers["embeddingHead.weight"], layers["embeddingHead.bias"])
        expected.append(torch.nn.functional.layer_norm(made, (24,), layers["norm.weight"], layers["norm.bias"]).numpy())

    assert close(encoder.encode_query(["Neural Search", "x", ""]), expected)
    assert encoder.encode_query([]).shape == (0, 24)


@pytest.mark.parametrize(("asked", "there"), [("none", "linear_layernorm"), ("linear", "linear_layernorm"), ("linear", "none")])
def test_another_head_than_that_of_the_checkpoint_is_refused(ance, bert, asked, there):
    """If the checkpoint has another head than the setting, the error says what to type."""
    model = bert if there == "none" else ance
    with pytest.raises(CommandError, match=f'the head behind its pooling is "{there}" and not "{asked}"; type head="{there}"'):
        dense(model, pooling="cls", head=asked).encode_query(["x"])


def test_dpr(tmp_path):
    """DPR: two towers with different prefixes, first state; documents are (title, text), "" for no title."""
    towers = {}
    for seed, (tower, prefix) in enumerate({"question": "question_encoder", "ctx": "ctx_encoder"}.items()):
        towers[tower] = checkpoints.masked_lm(tmp_path / tower, "bert", seed=seed)
        shutil.copytree(towers[tower], tmp_path / f"{tower}-dpr")
        checkpoints.rewrite(tmp_path / f"{tower}-dpr", lambda state, prefix=prefix: under(state, f"{prefix}.bert_model."))
        checkpoints.reconfigure(tmp_path / f"{tower}-dpr", model_type="dpr", projection_dim=0)
    encoder = dense(tmp_path / "ctx-dpr", query_model=str(tmp_path / "question-dpr"), pooling="cls", titles="pair", no_title="")
    pairs = [(one.title, one.body) for one in TITLED]

    assert close(encoder.encode_query(TEXTS), [states(towers["question"], text, max_length=32)[1][0] for text in TEXTS])
    documents = encoder.encode_tokens(encoder.tokenise_documents(TITLED))
    assert close(documents, [states(towers["ctx"], *pair, max_length=64)[1][0] for pair in pairs])
    identity = encoder.identity()
    assert identity["model"] != identity["query_model"]
    assert encoder.index_identity() == {"model": identity["model"]}


def under(state, prefix):
    """Return the tensors of a BERT's body under another prefix."""
    return {prefix + key.removeprefix("bert."): value.clone() for key, value in state.items() if key.startswith("bert.")}


DAMAGED = {
    "two towers in one file": (
        lambda state: under(state, "lm_q.") | under(state, "lm_p."),
        r"there is 2 \(under lm_[pq]\., lm_[pq]\.\); save the model that encodes by itself",
    ),
    "a layer less than config.json says": (
        lambda state: {key: value for key, value in state.items() if "layer.1." not in key},
        "it has 2 layers, but the weights have 1",
    ),
    "a layer more": (
        lambda state: state | {key.replace("layer.1.", "layer.2."): value.clone() for key, value in state.items()},
        "16 unexpected",
    ),
    "NaN": (
        lambda state: {key: value * float("nan") for key, value in state.items()},
        "gives weights that are not numbers; its weights are damaged",
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_weights_that_do_not_fit_are_refused(tmp_path, bert, damage):
    """Weights that are not those of config.json, or are not numbers, are refused."""
    change, message = DAMAGED[damage]
    with pytest.raises(LexbenchError, match=message):
        dense(checkpoints.rewrite(shutil.copytree(bert, tmp_path / "model"), change)).encode_query(["x"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layers": ["Normalize"]}, {"pooling": "mean", "similarity": "cosine", "head": "none"}),
        ({"pooling": "cls", "similarity_fn_name": "dot"}, {"pooling": "cls", "similarity": "dot", "head": "none"}),
        ({"pooling": "cls", "layers": ["Dense"], "similarity_fn_name": "dot"}, {"head": "linear", "similarity": "dot"}),
        ({"pooling": "cls", "layers": ["Dense", "LayerNorm"], "similarity_fn_name": "dot"}, {"head": "linear_layernorm"}),
        ({"prompts": {"query": "search: ", "document": "in: "}}, {"query_prompt": "search: ", "document_prompt": "in: "}),
    ],
)
def test_folders_of_sentence_transformers(tmp_path, bert, settings, said):
    """A folder of sentence-transformers states its settings, and gives the vectors of sentence-transformers."""
    model = checkpoints.sentence_transformer(tmp_path / "st", bert, **settings)
    encoder = system(f'dense(model="{tmp_path / "st"}", device="cpu")').retriever.encoder

    expected = said | {"query_length": 48, "document_length": 48}
    assert {name: getattr(encoder, name) for name in expected} == expected
    unit_length = encoder.similarity == "cosine"
    for ours, theirs in ((encoder.encode_query, model.encode_query), (encoder.encode_document, model.encode_document)):
        assert close(ours(TEXTS), theirs(TEXTS, normalize_embeddings=unit_length))


def test_the_weights_of_a_head_are_in_the_key(tmp_path, bert):
    """Two models that differ in the head alone have different keys."""
    for name, seed in (("one", 5), ("two", 6)):
        checkpoints.sentence_transformer(tmp_path / name, bert, pooling="cls", layers=["Dense"])
        if seed == 6:
            file = tmp_path / name / "2_Dense" / "model.safetensors"
            file.write_bytes(file.read_bytes()[:-4] + np.float32(1).tobytes())
    settings = {"pooling": "cls", "head": "linear", "query_length": 64, "document_length": 64, "device": "cpu"}
    one, two = (Dense(str(tmp_path / name), **settings).identity() for name in ("one", "two"))

    assert one["model"]["weights"] != two["model"]["weights"]


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "median"}, "it pools by 'median'; lexbench does mean, cls"),
        ("2_Dense/config.json", {"activation_function": "torch.nn.GLU"}, "activation_function is 'torch.nn.GLU', which"),
        ("modules.json", None, "a module Weird, which lexbench does not run, or give the object"),
    ],
)
def test_folders_that_lexbench_cannot_encode_with(tmp_path, bert, file, change, message):
    """A folder that needs another way of encoding is refused in one line."""
    checkpoints.sentence_transformer(tmp_path / "st", bert, pooling="cls", layers=["Dense"])
    path = tmp_path / "st" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change) if change else path.read_text().replace("Dense", "Weird"))

    with pytest.raises(CommandError, match=message):
        system(f'dense(model="{tmp_path / "st"}")')


def test_pooling_has_no_default(bert):
    """Pooling must be given if the folder does not state it."""
    with pytest.raises(CommandError, match='does not say how it pools; type pooling="mean", "cls" or "last"'):
        system(f'dense(model="{bert}")')


def test_a_table_of_settings_in_config_json(tmp_path, bert):
    """A table `lexbench` in config.json has settings; typed ones win, and a note says so."""
    own = shutil.copytree(bert, tmp_path / "own")
    checkpoints.reconfigure(own, lexbench={"pooling": "cls", "similarity": "cosine", "query_length": 16})

    encoder = system(f'dense(model="{own}", similarity="dot", document_length=64)').retriever.encoder
    assert (encoder.pooling, encoder.query_length, encoder.similarity) == ("cls", 16, "dot")
    assert encoder.notes() == ["similarity='dot' was asked for, and the checkpoint says similarity='cosine'"]


def test_from_text_to_table(store, tmp_path, bert):
    """A run on `flat` has a table with the sizes of the vectors."""
    name = f'dense(model="{bert}", pooling="mean", query_length=32, document_length=8)@flat'
    (result,) = results(fruit.write(tmp_path / "fruit"), store, [name], depth=10)
    facts = result.vectors
    assert (facts.dimensions, facts.vectors, facts.bytes_per_document, facts.truncated) == (32, 1.0, 128.0, 6)
    shown = tables([result], None)[1]
    assert shown.header == ("system", "dimensions", "vectors", "bytes\n/doc.", "index bytes\n/doc.")
    assert shown.rows[0][1:4] == ("32", "1.0", "128")
    assert int(shown.rows[0][4]) >= 128
    assert shown.notes[1].endswith(": 6 of 6 texts were cut to the encoder's maximum length")


def test_an_approximate_engine_reports_its_recall_of_exact(store, tmp_path, bert):
    """A result of `faiss` has its recall of exact; one of `flat` has none."""
    pytest.importorskip("faiss")
    name = f'dense(model="{bert}", pooling="mean", query_length=32, document_length=8)'
    approximate, exact = f'{name}@faiss(factory="Flat")', f"{name}@flat"
    systems = [approximate, exact, f"ensemble({approximate}, {exact})"]
    found = results(fruit.write(tmp_path / "fruit"), store, systems, depth=10)

    line = "faiss finds 1.000 of the best 10 and 1.000 of the best 100 of exact search, on 5 of the queries"
    of_qrels = "1 of 5 judged queries have no relevant document: on them every system scores 0"
    both = ["scored on train: there are no judgements called test", of_qrels, fruit.SAME_QUERIES]
    assert [texts_of(result.notes) for result in found] == [[*both, line], both, [*both, line]]
    assert [result.found for result in found] == [{"10": 1.0, "100": 1.0}, {}, {}]  # an ensemble has none
    weights = sum(path.stat().st_size for path in Path(bert).rglob("*.safetensors"))
    assert [result.sizes["model"] for result in found] == [weights] * 3  # what several parts share counts once


CAUSAL = ("llama", "mistral", "qwen2", "qwen3")
WORDED = ["sparse neural search", "the weight of a term is lexical and dense a b c w1 w2 w3", "query", "w5 w6 unheard of w7"]


def causal(folder, **settings):
    """Return an encoder of a causal language model, whose last token is the vector."""
    return dense(folder, **{"query_length": 64, "pooling": "last", **settings})


def last_states(folder, texts):
    """Return the state (texts, width) of each text's last token, by transformers."""
    return [states(folder, text, max_length=64)[1][-1] for text in texts]


@pytest.mark.parametrize("architecture", CAUSAL)
def test_the_last_state_is_that_of_transformers(tmp_path, architecture):
    """A causal model's vector of a text is its last token's state, alone and in a batch."""
    folder = checkpoints.causal_lm(tmp_path / architecture, architecture)
    made, expected = causal(folder), last_states(folder, WORDED)

    assert close(made.encode_query(WORDED), expected)
    assert close(made.encode_document(WORDED), expected)
    assert close(causal(folder, batch_tokens=1).encode_document(WORDED), expected)


def test_an_end_token_is_read_and_pooled(tmp_path):
    """With *end_token* every text ends with </s>, also a cut one; a tokenizer without one is an error (RepLLaMA)."""
    folder = checkpoints.causal_lm(tmp_path / "llama")
    made = causal(folder, end_token=True, query_prompt="query w1 ")
    expected = last_states(folder, [f"query w1 {text} </s>" for text in WORDED])
    assert close(made.encode_query(WORDED), expected)
    long = " ".join(f"w{i}" for i in range(50))
    tokens = causal(folder, end_token=True, document_length=8).tokenise_documents([Document("d", long), Document("e", "w1")])
    ends = tokens.ids[tokens.starts[1:] - 1].tolist()
    assert (np.diff(tokens.starts).tolist(), tokens.truncated, ends) == ([8, 3], 1, [1, 1])  # <s>, words, and </s>, which is 1

    ended = [f"{text} </s>" for text in ["", *WORDED]]  # a second one is not put behind it
    assert np.array_equal(causal(folder, end_token=True).encode_query(ended), causal(folder).encode_query(ended))
    assert causal(folder, end_token=True, special_tokens=False).encode_query(["", "w1 </s>", ""]).any(axis=1).all()
    assert not causal(folder, special_tokens=False).encode_query([""]).any()

    checkpoints.reconfigure(folder, "tokenizer_config.json", eos_token=None)
    with pytest.raises(CommandError, match=r"its tokenizer has no token 'eos'; type end_token=False"):
        causal(folder, end_token=True).encode_query(WORDED)


def test_a_causal_folder_of_sentence_transformers_states_its_settings(tmp_path):
    """A folder like that of Qwen3-Embedding states pooling, prompts and cosine, and gives the same vectors as there."""
    body = checkpoints.causal_lm(tmp_path / "body", "qwen3")
    checkpoints.reconfigure(body, "tokenizer_config.json", pad_token="</s>", padding_side="left", model_max_length=32)
    stated = {"prompts": {"query": "query w1 w2 ", "document": ""}, "similarity_fn_name": "cosine"}
    saved = tmp_path / "saved"
    theirs = checkpoints.sentence_transformer(saved, body, pooling="lasttoken", layers=["Normalize"], **stated)
    defaults = Dense.checkpoint_defaults({"model": str(saved)})
    ours = Dense(str(saved), device="cpu", **defaults)

    assert defaults["pooling"] == "last"
    assert close(ours.encode_query(WORDED), theirs.encode_query(WORDED))
    assert close(ours.encode_document(WORDED), theirs.encode_document(WORDED))

    checkpoints.reconfigure(saved / "1_Pooling", include_prompt=False)
    assert Dense.checkpoint_defaults({"model": str(saved)})["pool_prompts"] is False


def test_settings_that_causal_models_cannot_have(tmp_path):
    """Titles need a separator, `skip` a mean, and code of a model is not run; the mean is of all tokens."""
    folder = checkpoints.causal_lm(tmp_path / "llama")
    with pytest.raises(CommandError, match=r"dense\(titles='pair'\): .* has no token that separates texts; leave it out"):
        causal(folder, titles="pair").encode_document(WORDED)
    with pytest.raises(CommandError, match=r"dense\(skip=2\) leaves out positions of the mean"):
        causal(folder, skip=2)
    for settings in ({"is_causal": False}, {"auto_map": {"AutoModel": "modeling.Model"}}):
        other = checkpoints.reconfigure(checkpoints.causal_lm(tmp_path / next(iter(settings))), **settings)
        with pytest.raises(CommandError, match=r"this model needs its authors' code .* type endpoint\(url=…, model=…\)$"):
            causal(other).identity()
    with pytest.raises(CommandError, match=r"model_type 'llama' is not supported; there is: bert"):
        LateInteraction.checkpoint_files(folder)

    means = [states(folder, text, max_length=64)[1].mean(axis=0) for text in WORDED]
    assert close(causal(folder, pooling="mean").encode_document(WORDED), means)
