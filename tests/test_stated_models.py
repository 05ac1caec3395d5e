"""What sentence-transformers can save: its folder and its object have the scores of its own `similarity`, setting by setting.

All models have random weights, and are written by the `save` of the installed version.
"""

import json
import shutil
from functools import cache
from pathlib import Path
from string import punctuation

import checkpoints
import numpy as np
import pytest
import torch
import transformers

from lexbench.encoders.static_embedding import StaticEmbedding
from lexbench.errors import CommandError, InvalidFile, LexbenchError
from lexbench.models.stated_settings import expression_of_folder
from lexbench.runner.systems import system
from lexbench.testing.retrievers import Bench

library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the extra test")
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer  # noqa: E402
from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling, MultiVectorMask  # noqa: E402
from sentence_transformers.sentence_transformer import modules as of  # noqa: E402
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # of torch, about its sparse tensors
QUERIES = ["sparse neural retrieval", "the weight of a term, w1 w2", "x"]
DOCUMENTS = [
    "neural search. the term weight of a model",
    "dense",
    "w1 w2 w3 " * 30,
    "query document, x y z",
    "a b c w5 unheard of w6",
]


@cache
def body(folder, kind="bert"):
    """Return the folder of a tiny model without pooling, or of a masked-language model with few weights above 0."""
    vocabulary = (*checkpoints.COLBERT_VOCABULARY, *(f"w{i}" for i in range(60)))
    architecture = kind if kind in checkpoints.ARCHITECTURES else "bert"
    made = checkpoints.masked_lm(Path(folder) / kind, architecture, vocabulary=vocabulary, seed=3)
    return checkpoints.sparsified(made, 1.5) if kind == "sparse" else made


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder for the bodies of all models."""
    return tmp_path_factory.mktemp("bodies")


@cache
def transformer(folder, kind="bert", **settings):
    """Return the module that computes states; models share it, because loading it takes longer than all else."""
    return Transformer(str(body(folder, kind)), **settings)


def rarely(cases, slow):
    """Return the names of *cases*; those in *slow*, which are like another one, run with the slow tests."""
    assert {*slow} <= {*cases}
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in cases]


def scores(given, path):
    """Return the scores (queries, documents) of exact search; a document that is not found has 0."""
    plugin = system(given).retriever
    bench = Bench(path, {f"d{number}": text for number, text in enumerate(DOCUMENTS)})
    searcher = bench.searcher(plugin)
    hits = searcher.search(searcher.encode(QUERIES), len(DOCUMENTS))
    order = [int(name[1:]) for name in bench.corpus.doc_ids.astype(str)]
    found = np.zeros((len(QUERIES), len(DOCUMENTS)))
    for row, (docs, values) in enumerate(zip(hits.docs, hits.scores, strict=True)):
        for doc, value in zip(docs.tolist(), values.tolist(), strict=True):
            if doc >= 0:
                found[row, order[doc]] = value
    return found


CHECKED = set()  # kinds of objects


def check(model, path, per_token=False):
    """Save *model* and compare the scores of the folder and of the object with those of its method `similarity`.

    Of objects, which the library computes whatever the settings of their modules are, one of each kind is checked.
    """
    model.save(str(path / "saved"), create_model_card=False)
    expected = model.similarity(model.encode_query(QUERIES), model.encode_document(DOCUMENTS)).numpy()
    assert np.ptp(expected) > 1e-3
    typed = expression_of_folder(path / "saved").replace("@impact", "@csr")
    kind = type(model), str(model.similarity_fn_name), *map(type, model)
    for number, given in enumerate((typed,) if kind in CHECKED else (typed, model)):
        found = scores(given, path / f"store{number}")
        if per_token:  # the mean divides the scores of each query by one number
            found, expected = (one / np.abs(one).max(1, keepdims=True) for one in (found, expected))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    CHECKED.add(kind)
    return typed


# ---- dense -----------------------------------------------------------------------------------------------------------------

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
IDENTITY = torch.nn.Identity()


def pooled(place, *modules, pooling="mean", include_prompt=True, length=48, **settings):
    """Return a model with *modules* behind its pooling."""
    first = [transformer(place, max_seq_length=length), of.Pooling(32, pooling, include_prompt=include_prompt)]
    return library.SentenceTransformer(modules=[*first, *modules], device="cpu", **settings)


def dense(out, into=32, function=None, **settings):
    """Return a layer with random weights."""
    torch.manual_seed(7)
    return Dense(into, out, activation_function=function or IDENTITY, **settings)


def norm(width):
    """Return a layer of random scales."""
    layer = of.LayerNorm(width)
    torch.nn.init.normal_(layer.norm.weight, 1, 0.3)
    torch.nn.init.normal_(layer.norm.bias)
    return layer


PROMPTS = {"query": "w1 search: ", "document": "w2 w3 "}
DENSE = {
    **{f"pools by {mode}": lambda place, mode=mode: pooled(place, pooling=mode) for mode in POOLINGS},
    **{
        f"{mode} without the prompt": lambda place, mode=mode: pooled(
            place, pooling=mode, include_prompt=False, prompts=PROMPTS
        )
        for mode in POOLINGS
    },
    "two poolings": lambda place: pooled(place, pooling=("max", "cls")),
    "three poolings and a layer": lambda place: pooled(place, dense(8, 96), pooling=("cls", "mean", "weightedmean")),
    **{
        f"compared by {name}": lambda place, name=name: pooled(place, similarity_fn_name=name)
        for name in ("cosine", "dot", "euclidean", "manhattan")
    },
    **{
        f"cut to 12 and compared by {name}": lambda place, name=name: pooled(place, similarity_fn_name=name, truncate_dim=12)
        for name in ("cosine", "dot", "euclidean", "manhattan")
    },
    **{
        f"normalised, cut and compared by {name}": lambda place, name=name: pooled(
            place, Normalize(), similarity_fn_name=name, truncate_dim=12
        )
        for name in ("cosine", "dot", "euclidean", "manhattan")
    },
    "normalised, compared by dot": lambda place: pooled(place, Normalize(), similarity_fn_name="dot"),
    "cut to more than there is": lambda place: pooled(place, truncate_dim=32),
    "normalised before a layer": lambda place: pooled(place, Normalize(), dense(24), similarity_fn_name="dot"),
    "Tanh": lambda place: pooled(place, dense(24, function=torch.nn.Tanh()), similarity_fn_name="dot"),
    **{
        name: lambda place, name=name: pooled(place, dense(24, function=getattr(torch.nn, name)()), similarity_fn_name="dot")
        for name in ("ReLU", "GELU", "Sigmoid", "SiLU", "LeakyReLU", "ELU", "Softplus", "Mish", "Hardtanh")
    },
    "without bias": lambda place: pooled(place, dense(24, bias=False), similarity_fn_name="dot"),
    "a residual": lambda place: pooled(place, dense(32, function=torch.nn.Tanh(), use_residual=True), similarity_fn_name="dot"),
    "a projected residual": lambda place: pooled(place, dense(24, use_residual=True), similarity_fn_name="dot"),
    "five modules": lambda place: pooled(
        place, dense(24, function=torch.nn.Tanh()), of.Dropout(0.5), norm(24), dense(16, 24), Normalize(), truncate_dim=9
    ),
    "prompts": lambda place: pooled(place, prompts=PROMPTS),
    "a default prompt": lambda place: pooled(place, prompts={"query": "w1 ", "other": "w9 "}, default_prompt_name="other"),
    "a short length": lambda place: pooled(place, length=8),
}


LIKE = {
    *(f"{mode} without the prompt" for mode in ("cls", "max", "mean_sqrt_len_tokens")),
    *(f"cut to 12 and compared by {name}" for name in ("cosine", "dot", "manhattan")),
    *(f"normalised, cut and compared by {name}" for name in ("cosine", "euclidean", "manhattan")),
    *("two poolings", "normalised, compared by dot", "ReLU", "Sigmoid", "SiLU", "ELU", "Softplus", "Mish", "Hardtanh"),
}


@pytest.mark.parametrize("case", rarely(DENSE, LIKE))
def test_dense_models(place, tmp_path, case):
    """Every pooling, similarity, width, layer, activation, prompt and length of a SentenceTransformer."""
    assert check(DENSE[case](place), tmp_path).startswith("dense(")


def test_what_was_taken_is_noted(place, tmp_path):
    """A note says which unusual settings were taken from the folder, and one per setting that was typed otherwise."""
    pooled(place, truncate_dim=12, prompts=PROMPTS).save(str(tmp_path / "saved"), create_model_card=False)
    taken = "the folder of its model states dimensions=12, query_prompt='w1 search: ', document_prompt='w2 w3 '"
    typed = f'dense(model="{tmp_path / "saved"}"'
    assert system(f"{typed})").retriever.encoder.notes() == [taken]
    assert system(f'{typed}, pooling="cls", dimensions=8, document_prompt="", query_length=9)').retriever.encoder.notes() == [
        "pooling='cls' was asked for, and the checkpoint says pooling='mean'",
        "dimensions=8 was asked for, and the checkpoint says dimensions=12",
        "document_prompt='' was asked for, and the checkpoint says document_prompt='w2 w3 '",
        "the folder of its model states query_prompt='w1 search: '",
    ]


HAND_WRITTEN = {  # config_sentence_transformers.json: what notes say, of the folder and of the object
    "passage": (
        {"prompts": {"query": "w1 search: ", "passage": "w2 w3 "}},
        "its prompt 'passage' is put before no documents, as in sentence-transformers; to put it there, ",
        ["type document_prompt='w2 w3 '", "set its prompts[\"document\"] = 'w2 w3 '"],
    ),
    "default": (
        {"prompts": {"query": "w1 ", "other": "w9 "}, "default_prompt_name": "other"},
        "its prompt 'other' is put before no documents, as in sentence-transformers; to put it there, ",
        ["type document_prompt='w9 '", "set its prompts[\"document\"] = 'w9 '"],
    ),
    "none": ({"prompts": {"query": "w1 ", "STS": "w9 "}, "default_prompt_name": "query"}, "", []),
}


@pytest.mark.parametrize("case", HAND_WRITTEN)
def test_prompts_of_other_names(place, tmp_path, case):
    """Folders and objects put the same prompts before texts as the library's own methods, and note those without a use."""
    about, said, typed = HAND_WRITTEN[case]
    pooled(place).save(str(tmp_path / "saved"), create_model_card=False)
    file = tmp_path / "saved" / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | about))
    model = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    model.save = lambda *_, **__: None  # `check` reads the file as it is

    given = [check(model, tmp_path), model]
    notes = [[line for line in system(one).retriever.encoder.notes() if "is put before" in line] for one in given]
    assert notes == ([[f"{said}{instead}"] for instead in typed] or [[], []])


def test_special_tokens_in_texts_are_split_if_the_tokenizer_says_so(place, tmp_path):
    """With split_special_tokens a text's "[SEP]" is read as words. transformers keeps this beside the tokenizer."""
    pooled(place).save(str(tmp_path / "saved"), create_model_card=False)
    checkpoints.reconfigure(tmp_path / "saved", "tokenizer_config.json", split_special_tokens=True)
    texts = ["w1 [SEP] w2", "[CLS]"]
    theirs = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode_document(texts)
    ours = system(expression_of_folder(tmp_path / "saved")).retriever.encoder.encode_document(texts)
    np.testing.assert_allclose(ours, theirs / np.linalg.norm(theirs, axis=1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_lengths_of_queries_and_documents(place, tmp_path):
    """A Transformer may have two lengths; a class of the model that is null is that of dense models."""
    first = Transformer(str(body(place)), query_length=10, document_length=20)
    assert check(library.SentenceTransformer(modules=[first, of.Pooling(32)], device="cpu"), tmp_path).startswith("dense(")
    settings = system(expression_of_folder(tmp_path / "saved")).retriever.encoder
    assert (settings.query_length, settings.document_length) == (10, 20)
    (tmp_path / "saved" / BERT).unlink()
    (tmp_path / "saved" / ABOUT).write_text('{"model_type": null}')
    checkpoints.reconfigure(tmp_path / "saved", "tokenizer_config.json", model_max_length=None, max_len=12)  # its old name
    assert system(expression_of_folder(tmp_path / "saved")).retriever.encoder.document_length == 12


@pytest.mark.parametrize(
    "normalizer",
    [{"type": "BertNormalizer", "lowercase": True}, {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}, None],
)
def test_texts_are_lower_cased_once(place, tmp_path, normalizer):
    """do_lower_case changes nothing if the tokenizer does so itself, and then "[SEP]" in a text stays a special token."""
    pooled(place).save(str(tmp_path / "saved"), create_model_card=False)
    checkpoints.reconfigure(tmp_path / "saved", BERT, do_lower_case=True)
    file = tmp_path / "saved" / "tokenizer.json"
    content = json.loads(file.read_text())
    whole = content["normalizer"] | normalizer if normalizer and "lowercase" in normalizer else normalizer
    file.write_text(json.dumps(content | {"normalizer": whole}))
    checkpoints.reconfigure(tmp_path / "saved", "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    texts = ["The Term", "w1 [SEP] QUERY" if normalizer else "w1 QUERY"]
    theirs = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode_document(texts)
    encoder = system(expression_of_folder(tmp_path / "saved")).retriever.encoder
    assert encoder.lowercase is (normalizer is None)
    expected = theirs / np.linalg.norm(theirs, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode_document(texts), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("file", ["tokenizer_config.json", "tokenizer.json"])
def test_texts_are_cut_on_the_side_that_the_tokenizer_states(place, tmp_path, file):
    """Either file may say that the beginning is cut off."""
    pooled(place, length=8).save(str(tmp_path / "saved"), create_model_card=False)
    left = {"direction": "Left", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
    change = {"truncation": left} if file == "tokenizer.json" else {"truncation_side": "left"}
    content = json.loads((tmp_path / "saved" / file).read_text())
    (tmp_path / "saved" / file).write_text(json.dumps(content | change))
    model = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    ours = system(expression_of_folder(tmp_path / "saved")).retriever.encoder.encode_document(DOCUMENTS)
    np.testing.assert_allclose(ours, model.encode_document(DOCUMENTS, normalize_embeddings=True), rtol=1e-4, atol=1e-5)


def towers(place):
    """Return the modules of queries and of documents, with other weights and another pooling."""
    other = checkpoints.masked_lm(
        Path(place) / "queries", vocabulary=(*checkpoints.COLBERT_VOCABULARY, *(f"w{i}" for i in range(60))), seed=9
    )
    queries = [Transformer(str(other), max_seq_length=12), of.Pooling(32, "mean")]
    return queries, [Transformer(str(body(place)), max_seq_length=48), of.Pooling(32, "cls")]


def routed(queries, documents, *behind, before=(), default=None, **settings):
    """Return a model whose Router sends queries and documents through other modules."""
    router = Router.for_query_document(query_modules=queries, document_modules=documents, default_route=default)
    return library.SentenceTransformer(modules=[*before, router, *behind], device="cpu", **settings)


BY_THE_LIBRARY = {  # modules that `dense` does not have
    "a Router": lambda place: routed(*towers(place)),
    "a Router with a default": lambda place: routed(*towers(place), default="document"),
    "a Router, cut, with prompts": lambda place: routed(
        *towers(place), Normalize(), prompts=PROMPTS, truncate_dim=9, similarity_fn_name="dot"
    ),
    "a Router of layers": lambda place: routed([dense(24)], [dense(24, function=torch.nn.Tanh())], before=towers(place)[1]),
    "a Router of poolings": lambda place: routed(
        [of.Pooling(32, "max")], [of.Pooling(32, "cls")], before=towers(place)[1][:1], similarity_fn_name="manhattan"
    ),
    "queries of a table": lambda place: routed([of.StaticEmbedding(tokenizer_of(place), embedding_dim=32)], towers(place)[1]),
    "a layer behind a table": lambda place: library.SentenceTransformer(
        modules=[of.StaticEmbedding(tokenizer_of(place), embedding_dim=32), dense(8)], device="cpu"
    ),
    "weighted layers": lambda place: library.SentenceTransformer(
        modules=[
            Transformer(str(body(place)), config_kwargs={"output_hidden_states": True}),
            of.WeightedLayerPooling(32, num_hidden_layers=2, layer_start=1),
            of.Pooling(32),
        ],
        device="cpu",
    ),
    "a CNN": lambda place: library.SentenceTransformer(
        modules=[Transformer(str(body(place))), of.CNN(32, 16, [1, 3]), of.Pooling(32)], device="cpu"
    ),
}


@pytest.mark.parametrize("case", rarely(BY_THE_LIBRARY, {"a Router with a default", "a Router of poolings", "a CNN"}))
def test_other_modules_are_computed_by_the_library(place, tmp_path, case):
    """Routers, with a default route or modules around them, layers behind a table, weighted layers and convolutions."""
    assert check(BY_THE_LIBRARY[case](place), tmp_path).startswith("sentence_transformer(")


def other_body(path, kind, auto_class):
    """Write a tiny model of a type that lexbench does not compute; return the module Transformer around it."""
    sizes = {"vocab_size": len(checkpoints.VOCABULARY), "embedding_size": 16, **checkpoints.SIZES, "initializer_range": 0.3}
    torch.manual_seed(4)
    auto_class.from_config(transformers.AutoConfig.for_model(kind, **sizes)).save_pretrained(path)
    checkpoints.write_tokenizer(path, kind)
    task = "fill-mask" if auto_class is transformers.AutoModelForMaskedLM else "feature-extraction"
    return Transformer(str(path), transformer_task=task)


def test_other_models_are_computed_by_the_library(place, tmp_path):
    """A model_type that lexbench does not compute, e.g. of EmbeddingGemma or GTR: sentence-transformers does, or its object."""
    first = other_body(tmp_path / "albert", "albert", transformers.AutoModel)
    assert check(library.SentenceTransformer(modules=[first, of.Pooling(32)], device="cpu"), tmp_path).startswith("sentence_tr")
    typed = f'sentence_transformer(model="{tmp_path / "saved"}")'
    with pytest.raises(CommandError) as raised:
        system(f'dense(model="{tmp_path / "saved"}")')
    assert str(raised.value).endswith(f"lexbench does not compute model_type 'albert'; type {typed}")
    encoder = system(typed).retriever.encoder
    assert encoder.encode_query(["x"]).shape == (1, 32)
    checkpoints.rewrite(tmp_path / "saved", lambda state: {key: value for key, value in state.items() if ".query." not in key})
    with pytest.raises(InvalidFile, match=r"2 weights are missing \(encoder\..*attention\.query\.bias, .*would be random"):
        encoder.encode_query(["x"])

    first = other_body(tmp_path / "electra", "electra", transformers.AutoModelForMaskedLM)
    library.SparseEncoder(modules=[first, SpladePooling()], device="cpu").save(str(tmp_path / "e"), create_model_card=False)
    with pytest.raises(CommandError, match=r"model_type 'electra'; give the object: lexbench.run\(data, \[SparseEncoder"):
        system(expression_of_folder(tmp_path / "e"))


def test_what_the_library_cannot_do_is_one_line(place, tmp_path):
    """A Router without queries, code of the authors, other kinds of models, and files that are missing."""
    saved = tmp_path / "saved"
    model = library.SentenceTransformer(modules=[Router({"document": towers(place)[1]})], device="cpu")
    model.save(str(saved), create_model_card=False)
    typed = f'sentence_transformer(model="{saved}")'
    assert expression_of_folder(saved) == typed
    encoder = system(typed).retriever.encoder
    with pytest.raises(LexbenchError, match=r"cannot encode it: ValueError: No route found for task type 'query'"):
        encoder.encode_query(["x"])
    assert encoder.encode_document([]).shape == (0, 32)
    before = encoder.identity()
    (saved / "README.md").write_text("a card")
    assert encoder.identity() == before
    with pytest.raises(CommandError, match=r"a Router, which has several models; its files say that it is sentence_trans"):
        system(f'dense(model="{saved}", pooling="mean")')
    place_of_types = saved / "router_config.json"
    types = place_of_types.read_text()
    place_of_types.write_text(types.replace("sentence_transformers.sentence_transformer.modules.pooling", "theirs"))
    with pytest.raises(CommandError, match=r"a module theirs\.Pooling, which is code of its authors; lexbench runs none"):
        system(typed)
    place_of_types.write_text(types)
    shutil.rmtree(saved / "document_0_Transformer")
    with pytest.raises(LexbenchError, match="sentence-transformers cannot load it: ") as raised:
        system(typed).retriever.encoder.encode_document(["x"])
    assert "\n" not in str(raised.value)
    with pytest.raises(LexbenchError, match=r"no modules\.json, so this is no folder of sentence-transformers"):
        system(f'sentence_transformer(model="{body(place)}")')
    splade(place).save(str(tmp_path / "sparse"), create_model_card=False)
    with pytest.raises(CommandError, match=r"a SparseEncoder, and no SentenceTransformer; its files say that it is sparse_mlm"):
        system(f'sentence_transformer(model="{tmp_path / "sparse"}")')
    with pytest.raises(CommandError, match=r"sentence_transformer\(batch=0\): give a number of texts from 1"):
        system(f'sentence_transformer(model="{saved}", batch=0)')


STATIC = {
    "a table": {},
    "a normalised table": {"behind": [Normalize()]},
    "a normalised table, dot": {"behind": [Normalize()], "similarity_fn_name": "dot"},
    "a table behind dropout, dot": {"behind": [of.Dropout(0.5)], "similarity_fn_name": "dot"},
    "a cut table": {"truncate_dim": 6},
    "a normalised table, cut": {"behind": [Normalize()], "truncate_dim": 6},
    **{f"a table, {name}": {"similarity_fn_name": name} for name in ("dot", "euclidean", "manhattan")},
    "a table with prompts": {"prompts": PROMPTS},
}


def tokenizer_of(place):
    """Return the tokenizer of the body."""
    return library.SentenceTransformer(modules=[Transformer(str(body(place)))], device="cpu").tokenizer


@pytest.mark.parametrize("case", rarely(STATIC, {"a table, euclidean", "a table, manhattan", "a cut table"}))
def test_static_embeddings(place, tmp_path, case):
    """A StaticEmbedding, with Normalize or not."""
    settings = dict(STATIC[case])
    torch.manual_seed(2)
    modules = [of.StaticEmbedding(tokenizer_of(place), embedding_dim=16), *settings.pop("behind", [])]
    assert check(library.SentenceTransformer(modules=modules, device="cpu", **settings), tmp_path).startswith(
        "static_embedding("
    )


def test_model2vec(place, tmp_path):
    """A folder of model2vec: as sentence-transformers reads it, or as model2vec does without modules.json.

    model2vec leaves out [UNK] and cuts texts to 512 tokens; `unheard` is unknown.
    """
    static = of.StaticEmbedding(tokenizer_of(place), embedding_dim=16)
    made = library.SentenceTransformer(modules=[static], device="cpu", similarity_fn_name="dot")
    folder = tmp_path / "m2v"
    folder.mkdir()
    static.save(str(folder))
    table = static.embedding.weight.detach().numpy()
    mapping = np.arange(len(table)) % 50
    weights = np.linspace(0.5, 2, len(table), dtype=np.float32)
    from safetensors.numpy import save_file

    save_file({"embeddings": table[:50].copy(), "mapping": mapping, "weights": weights}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": False, "max_length": 8}))
    assert expression_of_folder(folder).startswith("static_embedding(")
    encoder = system(expression_of_folder(folder)).retriever.encoder
    assert (encoder.similarity, encoder.metric) == ("dot", "dot")
    tokenizer = made.tokenizer
    characters = 8 * int(np.median([len(token) for token in tokenizer.get_vocab()]))  # of a text, as in model2vec
    for text, found in zip(DOCUMENTS, encoder.encode_document(DOCUMENTS), strict=True):
        ids = [token for token in tokenizer.encode(text[:characters], add_special_tokens=False).ids[:8] if token != 1]
        expected = (table[mapping[ids]] * weights[ids, None]).mean(0)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert not encoder.encode_query([""]).any()
    identity = encoder.identity()

    modules = [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
    modules.append({"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"})
    (folder / "modules.json").write_text(json.dumps(modules))
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    ours = system(expression_of_folder(folder)).retriever.encoder
    np.testing.assert_allclose(ours.encode_document(DOCUMENTS), theirs.encode_document(DOCUMENTS), rtol=1e-4, atol=1e-5)
    assert ours.similarity == "cosine"
    assert ours.identity() != identity


# ---- sparse ----------------------------------------------------------------------------------------------------------------


def splade(place, strategy="max", activation="relu", **settings):
    """Return a SparseEncoder."""
    modules = [transformer(place, "sparse", transformer_task="fill-mask"), SpladePooling(strategy, activation)]
    return library.SparseEncoder(modules=modules, device="cpu", **settings)


SPARSE = {
    **{
        f"{strategy} of {activation}": (strategy, activation, {})
        for strategy in ("max", "sum")
        for activation in ("relu", "log1p_relu")
    },
    "few terms": ("max", "relu", {"max_active_dims": 7}),
    "cosine": ("max", "relu", {"similarity_fn_name": "cosine"}),
    "few terms, cosine, prompts": ("sum", "relu", {"max_active_dims": 5, "similarity_fn_name": "cosine", "prompts": PROMPTS}),
    "prompts": ("max", "relu", {"prompts": PROMPTS}),
}


@pytest.mark.parametrize("case", rarely(SPARSE, {"sum of relu", "max of log1p_relu", "prompts"}))
def test_sparse_encoders(place, tmp_path, case):
    """Both poolings, both activations, the number of terms, cosine and prompts of a SparseEncoder."""
    strategy, activation, settings = SPARSE[case]
    assert check(splade(place, strategy, activation, **settings), tmp_path).startswith("sparse_mlm(")


ROUTED = {
    "a table of query weights": {},
    "few terms": {"max_active_dims": 12},
    "cosine": {"similarity_fn_name": "cosine"},
    "prompts": {"prompts": PROMPTS},
}


@pytest.mark.parametrize("strategy", ["max", pytest.param("sum", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", ROUTED)
def test_sparse_routers(place, tmp_path, case, strategy):
    """A Router whose queries go through a table of weights, with the same settings."""
    documents = [transformer(place, "sparse", transformer_task="fill-mask"), SpladePooling(strategy)]
    tokenizer = documents[0].tokenizer
    weights = torch.linspace(0.1, 3, len(tokenizer))
    queries = [SparseStaticEmbedding(tokenizer, weight=weights)]
    router = Router.for_query_document(query_modules=queries, document_modules=documents)
    settings = ROUTED[case]
    assert check(library.SparseEncoder(modules=[router], device="cpu", **settings), tmp_path).startswith("inference_free(")
    queries = tmp_path / "saved" / "query_0_SparseStaticEmbedding"
    before = system(f'inference_free(model="{tmp_path / "saved"}")').retriever.encoder.identity()
    checkpoints.reconfigure(queries, "tokenizer_config.json", do_lower_case=False, model_max_length=12, truncation_side="left")
    ours = system(f'inference_free(model="{tmp_path / "saved"}", similarity="dot")').retriever.encoder
    asked = ["Sparse w1 ", "w2 w3 w4 " * 9 + "w5"]  # [UNK], and the end of a text
    model = library.SparseEncoder(str(tmp_path / "saved"), device="cpu", max_active_dims=settings.get("max_active_dims"))
    np.testing.assert_allclose(ours.encode_query(asked).toarray(), model.encode_query(asked).to_dense().numpy(), atol=1e-6)
    assert ours.identity() != before
    checkpoints.reconfigure(queries, power=2)
    with pytest.raises(CommandError, match=r"does not know the setting power \(2\)"):
        system(f'inference_free(model="{tmp_path / "saved"}")')


# ---- late interaction ------------------------------------------------------------------------------------------------------

TOKENS = {"module_input_name": "token_embeddings"}


def multi(place, *modules, mask=None, unit=True, first=None, kind="bert", **settings):
    """Return a MultiVectorEncoder with *modules* between its Transformer and its mask."""
    masked = MultiVectorMask(**(mask or {}))
    last = [Normalize("token_embeddings")] if unit else []
    listed = [Transformer(str(body(place, kind)), **(first or {})), *modules, masked, *last]
    return library.MultiVectorEncoder(modules=listed, device="cpu", **settings)


EXPANSION = {"strategy": "fixed", "length": 16}
MULTI = {
    "a layer": lambda place: multi(place, dense(8, **TOKENS)),
    "no layer": multi,
    "two layers": lambda place: multi(place, dense(24, function=torch.nn.GELU(), **TOKENS), dense(8, 24, **TOKENS)),
    "a residual": lambda place: multi(place, dense(8, use_residual=True, **TOKENS)),
    "not scaled": lambda place: multi(place, dense(8, **TOKENS), unit=False),
    "expansion": lambda place: multi(place, dense(8, **TOKENS), first={"query_expansion": EXPANSION}),
    "expansion of ModernBERT": lambda place: multi(
        place, dense(8, **TOKENS), kind="modernbert", first={"query_expansion": EXPANSION, "max_seq_length": 48}
    ),
    "attended": lambda place: multi(place, dense(8, **TOKENS), first={"query_expansion": EXPANSION | {"attend": True}}),
    "at least": lambda place: multi(
        place, dense(8, **TOKENS), first={"query_expansion": EXPANSION | {"strategy": "min", "length": 8}}
    ),
    "another token": lambda place: multi(
        place, dense(8, **TOKENS), first={"query_expansion": EXPANSION | {"token": "[unused0]"}}
    ),
    "lengths": lambda place: multi(place, dense(8, **TOKENS), first={"query_length": 9, "document_length": 14}),
    "punctuation": lambda place: multi(place, dense(8, **TOKENS), mask={"skiplist_words": list(punctuation)}),
    "some words": lambda place: multi(place, dense(8, **TOKENS), mask={"skiplist_words": [",", "w1", "nowhere"]}),
    "words of both": lambda place: multi(
        place, dense(8, **TOKENS), mask={"skiplist_words": ["w1", "of"], "skiplist_tasks": ["query", "document"]}
    ),
    "prompts": lambda place: multi(place, dense(8, **TOKENS), prompts={"query": "[Q] ", "document": "[D] "}),
    "the mean": lambda place: multi(place, dense(8, **TOKENS), similarity_fn_name="meanmaxsim"),
}


@pytest.mark.parametrize("case", rarely(MULTI, {"two layers", "words of both"}))
def test_multi_vector_encoders(place, tmp_path, case):
    """Layers, expansion, lengths, skipped tokens, prompts and both similarities of a MultiVectorEncoder."""
    assert check(MULTI[case](place), tmp_path, per_token=case == "the mean").startswith("late_interaction(")


# ---- what cannot be done ---------------------------------------------------------------------------------------------------

INSTEAD = r"give the object: lexbench.run\(data, \[SentenceTransformer\(FOLDER\)\]\)"
ABOUT, BERT = "config_sentence_transformers.json", "sentence_bert_config.json"
CHANGED = {  # a file, its change, and the message
    "a key to come": (
        ABOUT,
        {"a_key_to_come": 3},
        rf"{ABOUT}: lexbench does not know the setting a_key_to_come \(3\), .* {INSTEAD}",
    ),
    "a similarity to come": (
        ABOUT,
        {"similarity_fn_name": "jaccard"},
        r"states the similarity 'jaccard', and lexbench has dot",
    ),
    "a length in words": (BERT, {"max_seq_length": "48"}, "max_seq_length is '48', which lexbench does not do"),
    "half a token": (BERT, {"query_length": 12.5}, "query_length is 12.5, which lexbench does not do"),
    "a prompt of numbers": (ABOUT, {"prompts": {"query": 5}}, "prompts is {'query': 5}, which lexbench does not do"),
    "no mask": (
        "tokenizer_config.json",
        {"model_input_names": ["input_ids"]},
        "has no attention_mask in its model_input_names",
    ),
    "a switch in words": (BERT, {"do_lower_case": "false"}, "do_lower_case is 'false', which lexbench does not do"),
    "an old switch": ("1_Pooling/config.json", {"pooling_mode_cls_token": 1}, "pooling_mode_cls_token is 1, which lexbench"),
    "null for false": ("1_Pooling/config.json", {"include_prompt": None}, "include_prompt is None, which lexbench does not do"),
    "no dimensions": (ABOUT, {"truncate_dim": 0}, "truncate_dim is 0, which lexbench does not do"),
    "another class": (ABOUT, {"model_type": "CrossEncoder"}, "a CrossEncoder, and no SentenceTransformer"),
    "expansion to come": (BERT, {"query_expansion": EXPANSION | {"strategy": "max"}}, "query_expansion is {'strategy': 'max'"),
    "no such default": (ABOUT, {"default_prompt_name": "x"}, "default_prompt_name is 'x', and there is no such prompt"),
    "no number": (ABOUT, {"truncate_dim": "many"}, r"truncate_dim is 'many', which lexbench does not do"),
    "too wide": (ABOUT, {"truncate_dim": 64}, r"dense\(dimensions=64\): .* makes 32 dimensions; type fewer"),
    "another task": (BERT, {"transformer_task": "text-generation"}, "transformer_task is 'text-generation'"),
    "a chat": (BERT, {"modality_config": {"message": {"method": "forward"}}}, "modality_config is .*message"),
    "a processor": (BERT, {"processing_kwargs": {"text": {"padding": True}}}, "processing_kwargs is"),
    "a Transformer's key": (BERT, {"layers": [1, 2]}, r"does not know the setting layers \(\[1, 2\]\)"),
    "expansion": (BERT, {"query_expansion": EXPANSION}, "it fills queries"),
    "a pooling to come": ("1_Pooling/config.json", {"pooling_mode": "median"}, "it pools by 'median'; lexbench does mean, cls"),
    "a Pooling's key": ("1_Pooling/config.json", {"temperature": 2}, r"does not know the setting temperature \(2\)"),
    "a foreign function": (
        "2_Dense/config.json",
        {"activation_function": "theirs.Swish"},
        "activation_function is 'theirs.Swish'",
    ),
    "another input": (
        "2_Dense/config.json",
        {"module_input_name": "token_embeddings"},
        "module_input_name is 'token_embeddings'",
    ),
    "foreign code": (
        "modules.json",
        [{"idx": 0, "name": "0", "path": "", "type": "custom_st.Transformer"}],
        "a model of custom_st.Transformer; the encoder `dense` takes",
    ),
}


@pytest.mark.parametrize("case", CHANGED)
def test_other_settings_are_refused_by_name(place, tmp_path, case):
    """A key or value that lexbench does not obey is one line with the file, the key and what to do instead."""
    file, change, message = CHANGED[case]
    saved = tmp_path / "saved"
    pooled(place, dense(32)).save(str(saved), create_model_card=False)
    content = change if isinstance(change, list) else json.loads((saved / file).read_text()) | change
    (saved / file).write_text(json.dumps(content))
    with pytest.raises(LexbenchError, match=message) as raised:
        system(f'dense(model="{saved}")').retriever.encoder.encode_query(["x"])
    assert "\n" not in str(raised.value)


BIASES = {"norm.bias", "linear.bias"}
MISFITS = {  # how the tensors of a module change, and what does not fit
    "scale": (lambda state: state | {"scale": torch.ones(24)}, r"2 unexpected \(2_Dense/scale, 3_LayerNorm/scale\)"),
    "bias": (
        lambda state: {name: one for name, one in state.items() if name not in BIASES},
        r"2 missing \(2_Dense/linear.bias, 3_LayerNorm/norm.bias\)",
    ),
    "shape": (
        lambda state: {name: one[:9] if name in BIASES else one for name, one in state.items()},
        r"2 of another shape \(2_Dense/linear.bias \(9,\) for \(24,\), 3_LayerNorm/norm.bias \(9,\) for \(24,\)\)",
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_tensors_that_modules_do_not_state_are_refused_by_name(place, tmp_path, case):
    """The file of a module has the tensors that its config.json implies, no more and no fewer, as in the library."""
    change, message = MISFITS[case]
    pooled(place, dense(24), norm(24)).save(str(tmp_path), create_model_card=False)
    for module in ("2_Dense", "3_LayerNorm"):
        checkpoints.rewrite(tmp_path / module, change)
    with pytest.raises(InvalidFile, match=message):
        system(f'dense(model="{tmp_path}")').retriever.encoder.encode_query(["x"])


def test_modules_may_be_in_folders_of_one_last_name(place, tmp_path):
    """A layer is known by its whole path in modules.json."""
    pooled(place, dense(24), dense(8, 24)).save(str(tmp_path), create_model_card=False)
    vectors = system(f'dense(model="{tmp_path}")').retriever.encoder.encode_query(["the sparse term"])
    listed = (tmp_path / "modules.json").read_text()
    for old, new in (("2_Dense", "a/Dense"), ("3_Dense", "b/Dense")):
        (tmp_path / new).parent.mkdir()
        (tmp_path / old).rename(tmp_path / new)
        listed = listed.replace(old, new)
    (tmp_path / "modules.json").write_text(listed)
    again = system(f'dense(model="{tmp_path}")').retriever.encoder.encode_query(["the sparse term"])
    assert again.shape == (1, 8)
    assert again.tolist() == vectors.tolist()


def test_layers_of_another_width_are_refused(place, tmp_path):
    """A layer takes as many dimensions as the one before it has, or the joined poolings, and its sizes are numbers."""
    pooled(place, dense(24), dense(8, 16)).save(str(tmp_path), create_model_card=False)
    encoder = system(f'dense(model="{tmp_path}")').retriever.encoder
    with pytest.raises(InvalidFile, match="a linear layer behind the model takes 16 dimensions, and gets 24"):
        encoder.encode_query(["x"])
    checkpoints.reconfigure(tmp_path / "3_Dense", in_features=None)
    with pytest.raises(InvalidFile, match=r"3_Dense/config.json: in_features must be a whole number, and is None"):
        system(f'dense(model="{tmp_path}")')


def test_other_modules_are_refused_by_name(place, tmp_path):
    """Token pooling, sparse distances, and Routers of models that are not dense are refused by name."""
    cases = (
        (
            multi(place, dense(8, **TOKENS), HierarchicalTokenPooling()),
            r"HierarchicalTokenPooling, which .*\[MultiVectorEncoder\(F",
        ),
        (splade(place, similarity_fn_name="euclidean"), "its similarity is euclidean .* this encoder does dot, cosine"),
        (
            library.SparseEncoder(
                modules=[Router.for_query_document(query_modules=list(splade(place)), document_modules=list(splade(place)))],
                device="cpu",
            ),
            r"its queries go through Transformer and SpladePooling; .* give the object: lexbench.run\(data, \[SparseEncoder",
        ),
        (
            library.MultiVectorEncoder(
                modules=[
                    Router.for_query_document(
                        query_modules=[Transformer(str(body(place)))], document_modules=[Transformer(str(body(place)))]
                    ),
                    MultiVectorMask(),
                ],
                device="cpu",
            ),
            r"a Router, which has several models; give the object: lexbench.run\(data, \[MultiVectorEncoder",
        ),
    )
    for number, (model, message) in enumerate(cases):
        model.save(str(tmp_path / str(number)), create_model_card=False)
        with pytest.raises(CommandError, match=message):
            system(expression_of_folder(tmp_path / str(number)))


def test_settings_of_static_embeddings_are_checked(place, tmp_path):
    """Impossible settings, a folder without a table and one of another kind are one line."""
    saved = tmp_path / "saved"
    library.SentenceTransformer(modules=[of.StaticEmbedding(tokenizer_of(place), embedding_dim=8)], device="cpu").save(
        str(saved), create_model_card=False
    )
    table = next(saved.rglob("model.safetensors")).parent
    for settings, message in (
        ({"similarity": "jaccard"}, "there is dot, cosine"),
        ({"storage": "int8"}, "there is float32, float16"),
        ({"dimensions": -1}, "a number above 0, or 0 for all"),
        ({"dimensions": 9}, "dimensions=9.* has 8"),
    ):
        with pytest.raises(CommandError, match=message):
            StaticEmbedding(str(saved), **settings).encode_query(["x"])
    pooled(place).save(str(tmp_path / "other"), create_model_card=False)
    with pytest.raises(CommandError, match="a model of Transformer and Pooling, and no StaticEmbedding; its files say"):
        system(f'static_embedding(model="{tmp_path / "other"}")')
    (table / "tokenizer.json").rename(table / "gone.json")
    with pytest.raises(LexbenchError, match=r"no tokenizer\.json"):
        system(expression_of_folder(saved))
    shutil.copy(table / "gone.json", table / "tokenizer.json")
    checkpoints.rewrite(table, lambda state: {"other": next(iter(state.values()))})
    with pytest.raises(LexbenchError, match=r"no table embedding.weight or embeddings .* but other"):
        system(expression_of_folder(saved)).retriever.encoder.encode_query(["x"])
