"""The card of a trained folder: how to encode with it, and how it was trained."""

import json
import re

import msgspec
import pytest

pytest.importorskip("transformers", reason="models are in the extra neural")

from checkpoints import masked_lm, sparsified
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from msgspec.structs import replace
from tiny_recipes import stage

from lexbench.errors import InvalidFile
from lexbench.lexmae import card
from lexbench.lexmae.card import CardScore, Loss, SeenCollection, Selected, TrainingFacts
from lexbench.lexmae.recipe.settings import (
    Encoding,
    ExactTermsSettings,
    Imitation,
    Pretrain,
    Recipe,
    Selection,
    Start,
    TextHeadSettings,
)
from lexbench.runner import systems

HOSTILE = '[a](http://b) <i>x</i> | `c` *d* _e_ ``` &lt; ![f](g) "h" \\ \x7f\u2028 é😀'
RECIPE = Recipe(
    schema=1,
    name="nano",
    description="A small one.",
    output="build/nano",
    seed=7,
    license="Apache-2.0",
    start=Start(model="owner/base"),
    pretrain=Pretrain(batch_size=64, steps=100, learning_rate=3e-4, corpora=("pydoc/train", "beir/scifact/test")),
    stage1=stage(epochs=3.0, queries=("pydoc/train",), lambda_q=1e-16),
    selection=Selection(datasets=("beir/nfcorpus/dev",)),
)
FACTS = TrainingFacts(
    data=(
        SeenCollection(dataset="pydoc/train", use="pretraining", counts={"documents": 5048}, note="PSF licence"),
        SeenCollection(dataset="pydoc/train", use="training", counts={"queries": 320, "pairs": 1234}),
    ),
    steps=12000,
    seconds=3725.4,
    machine="a laptop",
    versions={"torch": "2.13.0"},
    losses=(Loss(name="contrast", first=2.5, last=0.125),),
    selection=(Selected(dataset="beir/nfcorpus/dev", measure="RR@10", value=0.5, step=9000),),
    scores=(CardScore(dataset="pydoc/test", measure="nDCG@10", value=0.25, interval=(0.2, 0.3), command="lexbench list"),),
    limits=("It knows English only.",),
    language="en",
)


@pytest.fixture
def draft(tmp_path):
    """Return a folder with a model and its tokenizer, as training makes it."""
    return sparsified(masked_lm(tmp_path / "model"))


def finished(draft, recipe=RECIPE, facts=FACTS, what="stage1"):
    """Finish a folder and return its card."""
    card.finish(draft, recipe, what, facts)
    return (draft / "README.md").read_text(encoding="utf-8")


def section(text, name):
    """Return one section of a card."""
    return re.search(rf"^## {name}\n\n(.*?)(?=\n\n## |\Z)", text, re.MULTILINE | re.DOTALL)[1]


ENCODINGS = [
    Encoding(positions="text", titles="pair", query_length=9, document_length=12),
    Encoding(positions="text", titles="string", query_length=8, document_length=12, document_terms=7),
    Encoding(positions="all", titles="off", query_length=10, document_length=11),
]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.titles)
def test_the_encoder_takes_its_settings_from_the_folder(draft, encoding):
    """The encoder takes positions, titles and lengths from the folder; typed settings override them."""
    finished(draft, replace(RECIPE, encoding=encoding))
    own = systems.system(f'sparse_mlm(model="{draft}")').retriever.encoder
    typed = systems.system(f'sparse_mlm(model="{draft}", query_length=30)').retriever.encoder

    assert {name: getattr(own, name) for name in Encoding.__struct_fields__} == msgspec.to_builtins(encoding)
    assert (typed.query_length, typed.document_length) == (30, encoding.document_length)


def test_the_card_names_additions_to_the_paper(draft):
    """Exact terms, collection idf and a text head are named, each only if the model has it."""
    encoding = Encoding(query_idf=0.5, document_terms=5, text_terms=3, query_text_terms=2)
    recipe = replace(RECIPE, encoding=encoding, exact_terms=ExactTermsSettings(corpora=("any",)), text_head=TextHeadSettings())
    for name in ("*exact terms*", "*collection idf*", "*text head*"):
        assert name in finished(draft, recipe)
        assert name not in finished(draft)


def test_a_model_inherits_from_what_its_weights_come_from(draft):
    """A teacher counts for its stage and stages that start there, an imitated model for what starts from the imitation."""
    imitation = Imitation(model="owner/imitated", corpora=("any",), steps=1, batch_size=1, learning_rate=1.0)
    stages = [stage(steps=1), stage(steps=1, start="imitated"), stage(steps=1, start="stage2", teacher="owner/teacher")]
    recipe = replace(RECIPE, imitation=imitation, **{f"stage{number}": one for number, one in enumerate(stages, 1)})
    cards = {what: finished(draft, recipe, what=what) for what in ("pretrained", "imitated", "stage1", "stage2", "stage3")}

    assert [re.search("inherits what (.*) had been", text)[1] for text in cards.values()] == [
        "owner/base",
        "owner/base and owner/imitated",
        "owner/base",
        "owner/base and owner/imitated",
        "owner/base and owner/imitated and owner/teacher",
    ]
    imitates = [what for what, text in cards.items() if "Its predictions imitate those of owner/imitated" in text]
    assert imitates == ["imitated", "stage2", "stage3"]


def test_a_file_of_scores_is_no_model(draft):
    """The card says that a file taught the stage and what starts from it, and that nothing says where the scores come from."""
    stages = [stage(steps=1, teacher="run_file(path='x.trec')"), stage(steps=1, start="stage1"), stage(steps=1, start="start")]
    recipe = replace(RECIPE, **{f"stage{number}": one for number, one in enumerate(stages, 1)})
    cards = [finished(draft, recipe, what=f"stage{number}") for number in (1, 2, 3)]

    assert ["Scores from a file taught it." in text for text in cards] == [True, True, False]
    assert all("inherits what owner/base had been" in text for text in cards)


def test_the_hub_reads_the_front_matter(draft):
    """The hub's own parser finds language, licence, kind and base model; missing facts and a base in a folder are left out."""
    known = ModelCard(finished(draft)).data.to_dict()
    bare = ModelCard(finished(draft, replace(RECIPE, license=""), replace(FACTS, language="")))

    assert known == {
        "language": "en", "license": "apache-2.0", "library_name": "transformers", "pipeline_tag": "feature-extraction",
        "base_model": "owner/base", "tags": ["lexmae", "learned-sparse-retrieval", "information-retrieval", "lexbench"],
    }  # fmt: skip
    assert bare.data.to_dict() == {name: value for name, value in known.items() if name not in {"language", "license"}}
    assert ModelCard(finished(draft, what="pretrained")).data.pipeline_tag == "fill-mask"
    local = replace(RECIPE, start=Start(model=str(draft)))
    assert ModelCard(finished(draft, local)).data.base_model is None
    assert (
        ModelCard(finished(draft, local, replace(FACTS, hub_names={str(draft): "owner/name"}))).data.base_model == "owner/name"
    )


TRAINING = """\
| what | value |
| :-- | --: |
| seed | 7 |
| steps | 12,000 |
| time | 1 h 2 min |
| machine | a laptop |
| torch (version) | 2.13.0 |

| loss | first | last |
| :-- | --: | --: |
| contrast | 2.5000 | 0.1250 |

The best of the models compared in training was kept:

| selected on | measure | value | step |
| :-- | --: | --: | --: |
| beir/nfcorpus/dev | RR@10 | 0.5000 | 9,000 |"""

DATA = """\
| dataset | for | counts | note |
| :-- | --: | --: | --: |
| pydoc/train | pretraining | 5,048 documents | PSF licence |
| pydoc/train | training | 320 queries, 1,234 pairs |  |

Documents were read as the pair of its title ("-" for none) and its body. Pretraining saw the texts of its collections, \
without queries and judgements: no score on them is one on unseen texts. Training saw queries and judgements of its \
collections: no score on them is zero-shot. It inherits what owner/base had been trained on."""

SCORES = """\
| dataset | measure | value | 95 % interval | command |
| :-- | --: | --: | --: | --: |
| pydoc/test | nDCG@10 | 0.2500 | 0.2000 to 0.3000 | lexbench list |"""


def test_the_card_has_the_given_facts_and_no_others(draft):
    """Data, training, selection and scores appear if they are given; a resumed training says which steps its time covers.

    The card says that the model is a re-training.
    """
    text = finished(draft)

    assert section(text, "Data") == DATA
    assert section(text, "Training") == TRAINING
    assert section(text, "Scores") == SCORES
    assert section(text, "Limits").endswith("\n- It knows English only.\n")
    assert "a re-training, not the authors' model: nobody has released a trained LexMAE" in text
    assert "after the first stage of fine-tuning" in text
    bare = finished(draft, facts=TrainingFacts(data=(), steps=5, seconds=2.25, resumed=3, machine="m", versions={}))
    assert "## Scores" not in bare
    assert section(bare, "Training").endswith("There was no selection: these are the weights of the last step.")
    assert "| time | 2.2 s, from step 3 on |" in bare


def test_the_recipe_is_there_in_full(draft):
    """The TOML in the card parses to the recipe, also with hostile strings."""
    recipe = replace(RECIPE, name=HOSTILE, description=f"{HOSTILE}\n```\n# no heading")
    tokens = MarkdownIt().parse(finished(draft, recipe))
    (found,) = (token.content for token in tokens if token.type == "fence" and token.info == "toml")

    assert msgspec.toml.decode(found, type=Recipe) == recipe
    assert "\ndecoder_share = 0.5\n" in found


def test_hostile_names_are_plain_text(draft):
    """Names with Markdown or HTML are shown as plain text: no links, tags or additional cells."""
    recipe = replace(RECIPE, name=HOSTILE, description=HOSTILE)
    data = SeenCollection(dataset=HOSTILE, use="training", counts={HOSTILE: 1}, note=HOSTILE)
    score = CardScore(dataset=HOSTILE, measure=HOSTILE, value=0.5, command=HOSTILE)
    facts = replace(FACTS, data=(data,), scores=(score,), machine=HOSTILE, limits=(HOSTILE,))
    text = finished(draft, recipe, facts).partition("\n---\n")[2]
    tokens = MarkdownIt().enable("table").parse(text)
    inline = [token for token in tokens if token.type == "inline"]
    kinds = {child.type for token in inline for child in token.children}

    assert kinds == {"text", "softbreak"}
    assert not any(token.type == "html_block" for token in tokens)
    shown = ["".join(child.content for child in token.children) for token in inline]
    visible = HOSTILE.replace("\x7f", r"\x7f").replace("\u2028", r"\u2028")
    assert shown.count(visible) == 8
    assert f"1 {visible}" in shown
    rows = re.findall(r"<tr>.*?</tr>", MarkdownIt().enable("table").render(section(text, "Data")), re.DOTALL)
    assert [row.count("<td") for row in rows] == [0, 4]


def test_training_json_has_the_facts_of_the_card(draft):
    """training.json has the same facts and can be written again as the same bytes; a missing or damaged one is refused."""
    with pytest.raises(InvalidFile, match=r"training\.json: .*No such file"):
        card.read(draft)
    finished(draft)
    before = {path.name: path.read_bytes() for path in draft.iterdir()}
    read = card.read(draft)
    card.finish(draft, read.recipe, read.what, read.facts)

    assert (read.what, read.recipe, read.facts) == ("stage1", RECIPE, FACTS)
    assert {path.name: path.read_bytes() for path in draft.iterdir()} == before
    assert json.loads(before["training.json"])["facts"]["losses"] == [{"name": "contrast", "first": 2.5, "last": 0.125}]
    (draft / "training.json").write_bytes(before["training.json"][:100])
    with pytest.raises(InvalidFile, match=r"training\.json: .*train the model again"):
        card.read(draft)
