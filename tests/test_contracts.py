"""Contracts have the facts of the official files, and faulty contracts are refused."""

import gzip
from collections import Counter

import pytest

from lexbench import registry
from lexbench.contracts import Contract, Expected, all_contracts, suite_folders
from lexbench.datasets import digests
from lexbench.datasets.dataset import check, judgement_facts
from lexbench.errors import ContractMismatch, InvalidFile
from lexbench.storage.reading import read_toml
from lexbench.suites import suite as suite_named
from lexbench.suites import suite_names
from lexbench.trec.qrels import read_judgements
from lexbench.types import Query

CONTRACTS = all_contracts()
AGGREGATES = [aggregate for name in suite_names() for aggregate in suite_named(name).aggregates]
# documents, judged queries, judgements, first digits of the archive's MD5: BEIR's own table and ir_datasets
BEIR = {
    "beir/trec-covid": (171332, 50, 66336, "ce62140c"),
    "beir/nfcorpus/test": (3633, 323, 12334, "a89dba18"),
    "beir/nq": (2681468, 3452, 4201, "d4d3d2e4"),
    "beir/hotpotqa/test": (5233329, 7405, 14810, "f412724f"),
    "beir/fiqa/test": (57638, 648, 1706, "17918ed2"),
    "beir/arguana": (8674, 1406, 1406, "8ad3e3c2"),
    "beir/webis-touche2020": (382545, 49, 2962, "5ec7f8b1"),
    "beir/webis-touche2020/v2": (382545, 49, 2214, "46f650ba"),
    "beir/dbpedia-entity/test": (4635922, 400, 43515, "c2a39eb4"),
    "beir/scidocs": (25657, 1000, 29928, "38121350"),
    "beir/fever/test": (5416568, 6666, 7937, "5a818580"),
    "beir/climate-fever": (5416593, 1535, 4681, "8b66f0a9"),
    "beir/scifact/test": (5183, 300, 339, "5f7d1de6"),
}
MSMARCO_FILES = {
    "msmarco-passage/dev/small": "msmarco-passage.dev-subset",
    "msmarco-passage/trec-dl-2019/judged": "dl19-passage",
    "msmarco-passage/trec-dl-2020/judged": "dl20-passage",
    "msmarco-document/dev": "msmarco-doc.dev",
    "msmarco-document/trec-dl-2019/judged": "dl19-doc",
    "msmarco-document/trec-dl-2020/judged": "dl20-doc",
}
# Anserini's qrels of these have other rows than the archive that ir_datasets reads.
OTHER_ROWS = {"beir/trec-covid": {"-1": 2}, "beir/webis-touche2020/v2": {"0": 1282}}
LIKE_THE_ARCHIVE = sorted(BEIR.keys() - OTHER_ROWS.keys() - {"beir/webis-touche2020"})


def official(shared, dataset_id):
    """Return the facts of Anserini's file of judgements for a dataset, in the terms of a contract."""
    name = f"beir_topics_qrels/qrels.beir-v1.0.0-{dataset_id.split('/')[1]}.test"
    if dataset_id in MSMARCO_FILES:
        name = f"msmarco/qrels.{MSMARCO_FILES[dataset_id]}"
    return judgement_facts(list(read_judgements(shared / "data" / f"{name}.txt.gz")))


def test_contracts_agree_with_themselves_and_with_the_suites():
    """A file is named after its dataset, grades add up to the judgements, and it names exactly the means that include it.

    A threshold other than 1, and documents that are dropped, have a note. Queries for tuning have a contract and are over the
    same corpus.
    """
    for name, contract in CONTRACTS.items():
        expected = contract.expected
        assert (suite_folders()[0] / "datasets" / f"{name.replace('/', '_').replace('-', '_')}.toml").is_file(), name
        assert contract.source.loader in registry.names("sources"), name
        assert not expected.grades or sum(expected.grades.values()) == expected.judgements, name
        for rules in (contract.relevance, contract.protocol):
            assert rules.note or rules == type(rules)(), f"{name}: {rules} departs from the default and has no note"
        assert contract.tuning is None or CONTRACTS[contract.tuning].corpus == contract.corpus, name
        assert set(contract.aggregates) == {one.id for one in AGGREGATES if name in one.members}, name


def test_trec_deep_learning_has_its_own_thresholds():
    """Passages of TREC's Deep Learning tracks are relevant from grade 2, documents from grade 1, in every binary measure."""
    chosen = [name for name in CONTRACTS if name.startswith("msmarco-") and "trec-dl" in name]
    for name in chosen:
        wanted = 2 if name.startswith("msmarco-passage") else 1
        assert {CONTRACTS[name].threshold(one) for one in ("RR", "R", "AP", "P", "Success", "RCap")} == {wanted}, name
    assert chosen


def test_arguana_drops_the_query_itself():
    """Its queries are documents. Five judged documents are not in the corpus."""
    assert CONTRACTS["beir/arguana"].protocol.self_match == "drop"
    assert CONTRACTS["beir/arguana"].expected.absent == 5


def test_ir_datasets_knows_the_datasets_and_their_corpora(ir_datasets_home, monkeypatch):
    """A dataset's id and its corpus's id are ir_datasets' own, exactly."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(ir_datasets_home))
    import ir_datasets

    for name, contract in CONTRACTS.items():
        if contract.source.loader == "ir_datasets":
            assert ir_datasets.load(name).has_qrels(), name
            assert ir_datasets.docs_parent_id(name) == contract.corpus, name


def test_beir_counts_and_archives():
    """A BEIR contract has the counts of BEIR's table."""
    for name, (*counts, md5) in BEIR.items():
        contract, expected = CONTRACTS[name], CONTRACTS[name].expected
        assert [expected.documents, expected.queries, expected.judgements] == counts, name
        assert (contract.source.md5 or "").startswith(md5), name
        assert contract.text.document == "title_text", name


@pytest.mark.parametrize("dataset_id", [*LIKE_THE_ARCHIVE, *MSMARCO_FILES])
def test_official_qrels_are_those_of_the_contract(dataset_id, shared):
    """The official judgements have the counts, grades and digest that the contract expects."""
    check(CONTRACTS[dataset_id], official(shared, dataset_id))
    assert CONTRACTS[dataset_id].expected.qrels_sha256


@pytest.mark.parametrize("dataset_id", OTHER_ROWS)
def test_where_anserini_differs_is_known(dataset_id, shared):
    """Anserini's judgements lack exactly the rows that the defects of the contract describe."""
    lacking = Counter(CONTRACTS[dataset_id].expected.grades) - Counter(official(shared, dataset_id).grades)
    assert dict(lacking) == OTHER_ROWS[dataset_id]
    assert CONTRACTS[dataset_id].expected.qrels_sha256 is None


@pytest.mark.parametrize(
    ("dataset_id", "topics"),
    [
        ("msmarco-passage/dev/small", "msmarco-passage.dev-subset"),
        ("msmarco-passage/trec-dl-2020/judged", "dl20"),
        ("msmarco-document/trec-dl-2020/judged", "dl20"),
    ],
)
def test_ms_marco_queries_are_those_of_the_contract(dataset_id, topics, shared):
    """The official queries that are judged have the digest that the contract expects."""
    folder = shared / "data" / "msmarco"
    judged = {row.query_id for row in read_judgements(folder / f"qrels.{MSMARCO_FILES[dataset_id]}.txt.gz")}
    with gzip.open(folder / f"topics.{topics}.txt.gz", "rt", encoding="utf-8") as file:
        queries = [Query(*line.rstrip("\n").split("\t")) for line in file]
    queries = [query for query in queries if query.query_id in judged]
    assert digests.queries_sha256(queries) == CONTRACTS[dataset_id].expected.queries_sha256


def test_no_relevant_document_is_a_self_match(shared):
    """In no official judgements is a document with the id of its query relevant: dropping it would lower scores."""
    files = [*(shared / "data").glob("beir_topics_qrels/qrels.*"), *(shared / "data").glob("msmarco/qrels.*-passage*")]
    assert len(files) == 15
    for path in files:
        assert not [row for row in read_judgements(path) if row.query_id == row.doc_id and row.grade > 0], path


def test_every_archive_has_its_own_checksum():
    """No two archives have one MD5 in our contracts; two datasets may share an archive."""
    sources = [one.source for name, one in CONTRACTS.items() if name != "bright/theoremqa-questions"]  # it has those of AoPS
    archives = {(source.md5, source.url) for source in sources if source.md5}
    assert len({md5 for md5, _ in archives}) == len(archives)


def test_titled_passages_are_another_dataset():
    """MS MARCO with titles shares queries and judgements with the one without, and no corpus; it is not in any download."""
    plain = [name for name in CONTRACTS if name.startswith("msmarco-passage/")]
    assert len(plain) == 4
    for name in plain:
        titled = CONTRACTS[name.replace("passage", "passage-titled")]
        assert titled.corpus == "msmarco-passage-titled" != CONTRACTS[name].corpus
        assert (titled.source.loader, titled.relevance) == ("files", CONTRACTS[name].relevance)
        assert titled.expected.qrels_sha256 == CONTRACTS[name].expected.qrels_sha256


def test_mismatch_names_both_values():
    """The error has both values of each differing count or grade; unknown facts are not compared."""
    contract = CONTRACTS["beir/scifact/test"]
    with pytest.raises(ContractMismatch) as error:
        check(contract, Expected(documents=5182, queries=300, judgements=340, grades={"1": 339, "0": 1}))
    assert str(error.value) == (
        "beir/scifact/test is not what its contract beir/scifact/test@1 says: documents: 5183 expected, 5182 found; "
        "judgements: 339 expected, 340 found; judgements of grade 0: 0 expected, 1 found"
    )


MINIMAL = 'schema = 1\nid = "x"\nversion = 1\nname = "x"\ndescription = ""\ncorpus = "x"\n'


# Ids and corpora are folders in the user's data, so a name that leads out of them is refused.
OUTSIDE = [MINIMAL.replace('id = "x"', 'id = "../x"'), MINIMAL.replace('corpus = "x"', 'corpus = "a/../../x"')]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        *((f"source = {{}}\n{text}", "leads out of the folder") for text in OUTSIDE),
        ("source = {}\nshema = 1", "unknown field `shema`"),
        ("source = {}\nprotocol = { self_match = 'remove' }", "$.protocol.self_match"),
        ("source = {}\nrelevance = { default = 1.5 }", "$.relevance.default"),
        ("source = {}\nrelevance = { measures = { RR = '2' } }", "$.relevance.measures[...]"),
        ("source = {}\nexpected = { grades = { 1 = true } }", "$.expected.grades[...]"),
        ("source = {}\ntext = { policy = 'text' }", "$.text"),
        ("source = {}\ndefects = [{ what = 'a', source = 'b' }, { what = 'a' }]", "$.defects[1]"),
        ("source = { split = '../test' }", "leads out of the folder"),
        ("source = {}\ntuning = 'x'", "tuned on its own queries"),
    ],
)
def test_a_faulty_contract_is_refused(facts, why, tmp_path):
    """Nothing in a contract is ignored: the error names the file and the place of a wrong key, type or name."""
    path = tmp_path / "x.toml"
    path.write_text(facts if "id =" in facts else MINIMAL + facts)
    with pytest.raises(InvalidFile) as error:
        read_toml(path, Contract)
    assert str(path) in str(error.value)
    assert why in str(error.value)
