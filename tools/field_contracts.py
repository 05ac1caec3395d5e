"""Write the contracts and suites whose facts are all in the metadata of ir_datasets: NanoBEIR, the rest of BEIR, and others.

    python tools/field_contracts.py            write suites/datasets/<id>.toml and suites/<suite>.toml
    python tools/field_contracts.py --check    say which of them are not what would be written: exit status 1

Counts, grades, addresses and MD5s are those of the installed ir_datasets (etc/metadata.json, etc/downloads.json); nothing is
downloaded. What stands in FAMILIES beside them was read where each entry says.
The contracts of BEIR's twelve are written by hand; those name the means of `beir_all` back.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent / "suites"
UNSEEN = "No digests: the files have not been seen."
LANGUAGES = {
    "ar": "Arabic", "bn": "Bengali", "de": "German", "en": "English", "es": "Spanish", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "hi": "Hindi", "id": "Indonesian", "ja": "Japanese", "ko": "Korean", "ru": "Russian", "sw": "Swahili",
    "te": "Telugu", "th": "Thai", "yo": "Yoruba", "zh": "Chinese",
}  # fmt: skip
FORUMS = (
    "android", "english", "gaming", "gis", "mathematica", "physics", "programmers", "stats", "tex", "unix", "webmasters",
    "wordpress",
)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """What the datasets of one collection have in common."""

    datasets: Mapping[str, tuple[str, str]]  # id: name and description
    text: str  # the policy
    text_note: str
    split: str = "test"
    related: str = ""  # lines of the table `related`
    own_related: Mapping[str, str] = field(default_factory=dict)  # of one dataset, by id, in place of those
    license: tuple[str, str] = ("", "")  # and who states it
    protocol: str = ""  # lines of the table `protocol`
    relevance: str = ""  # lines of the table `relevance`
    defects: tuple[tuple[str, str], ...] = ()
    more_defects: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)  # by id
    aggregates: tuple[str, ...] = ()


NANO_NAMES = {
    "arguana": "ArguAna", "climate-fever": "Climate-FEVER", "dbpedia-entity": "DBPedia", "fever": "FEVER", "fiqa": "FiQA-2018",
    "hotpotqa": "HotpotQA", "msmarco": "MS MARCO", "nfcorpus": "NFCorpus", "nq": "Natural Questions", "quora": "Quora",
    "scidocs": "SCIDOCS", "scifact": "SciFact", "webis-touche2020": "Touché-2020",
}  # fmt: skip
BRIGHT_NAMES = {
    "aops": "AoPS", "biology": "Biology", "earth-science": "Earth Science", "economics": "Economics", "leetcode": "LeetCode",
    "pony": "Pony", "psychology": "Psychology", "robotics": "Robotics", "stackoverflow": "Stack Overflow",
    "sustainable-living": "Sustainable Living", "theoremqa-questions": "TheoremQA questions",
    "theoremqa-theorems": "TheoremQA theorems",
}  # fmt: skip
NANO_RELATED: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {  # the whole set's names, and what holds its documents
    "arguana": (["beir/arguana"], ["idebate"]),
    "climate-fever": (["beir/climate-fever"], ["fever", "beir/fever", "wikipedia"]),
    "dbpedia-entity": (["beir/dbpedia-entity"], ["wikipedia"]),
    "fever": (["beir/fever", "fever"], ["wikipedia"]),
    "fiqa": (["beir/fiqa", "fiqa"], []),
    "hotpotqa": (["beir/hotpotqa", "hotpotqa"], ["wikipedia"]),
    "msmarco": (["beir/msmarco", "msmarco"], ["msmarco-passage"]),
    "nfcorpus": (["beir/nfcorpus"], []),
    "nq": (["beir/nq", "natural-questions"], ["wikipedia"]),
    "quora": (["beir/quora", "quora"], []),
    "scidocs": (["beir/scidocs", "specter"], ["s2orc"]),
    "scifact": (["beir/scifact"], ["s2orc"]),
    "webis-touche2020": (["beir/webis-touche2020", "beir/webis-touche2020/v2"], ["args.me"]),
}
NANO_PART = "a part of the whole set's queries, judgements and documents"
METADATA = "ir_datasets 0.6.3, etc/metadata.json"
MIRACL_ID = {language: f"miracl/{language}/dev" for language in LANGUAGES}
TYDI = ("ar", "bn", "en", "fi", "id", "ja", "ko", "ru", "sw", "te", "th")
LOTTE = ("writing", "recreation", "science", "technology", "lifestyle", "pooled")
YEARS = (2021, 2022, 2023)


def _related(queries: Sequence[str], texts: Sequence[str], source: str) -> str:
    """Return the lines of a table `related`."""
    named = {"queries": list(queries), "texts": list(texts)}
    return "\n".join([*(f"{key} = {json.dumps(names)}" for key, names in named.items() if names), f'source = "{source}"'])


FAMILIES: Sequence[Family] = (
    Family(
        {
            f"nano-beir/{key}": (f"NanoBEIR {name}", f"At most 50 queries of BEIR's {name}, over a part of its documents.")
            for key, name in NANO_NAMES.items()
        },
        text="text",
        text_note="All that NanoBEIR's corpora have; a title, where BEIR has one, is not apart from it.",
        aggregates=("nano-beir-13@1",),
        own_related={f"nano-beir/{key}": _related(*names, NANO_PART) for key, names in NANO_RELATED.items()},
        defects=(
            (
                (
                    "The variant is the first, Zeta Alpha's (zeta-alpha-ai/Nano… on the hub, September 2024), "
                    "every judgement of grade 1. "
                    "Later ones (sentence-transformers/NanoBEIR-en, NanoBEIR-…-bm25) are of the same 13 sets under other names."
                ),
                "ir_datasets 0.6.3, datasets/nano_beir.py and etc/downloads.json",
            ),
            (
                (
                    "Fifty queries tell systems apart that differ much. The documents are a sample around the "
                    "judged ones, so scores are "
                    "higher than on the whole set, and are not comparable with it."
                ),
                METADATA,
            ),
        ),
        more_defects={
            "nano-beir/arguana": (
                (
                    (
                        "BEIR's ArguAna leaves a query's own argument out of its results. Whether query ids are "
                        "document ids here has "
                        "not been seen, so nothing is left out."
                    ),
                    "suites/datasets/beir_arguana.toml",
                ),
            ),
        },
    ),
    Family(
        {
            f"beir/cqadupstack/{forum}": (
                f"CQADupStack {forum}",
                "A question of a StackExchange forum, the questions that were closed as its duplicates.",
            )
            for forum in FORUMS
        },
        text="title_text",
        text_note="BEIR's, and that of Pyserini's \"flat\" indexes.",
        aggregates=("cqadupstack-12@1", "beir-15@1"),
        related='texts = ["stackexchange"]\nsource = "questions of StackExchange"',
        defects=(
            (
                "CQADupStack is twelve forums, each a corpus of its own. BEIR prints their mean as one dataset.",
                "https://github.com/beir-cellar/beir/wiki/Datasets-available",
            ),
        ),
    ),
    Family(
        {"beir/quora/test": ("Quora", "A question, the questions that ask the same.")},
        text="title_text",
        text_note="BEIR's; these documents have no title.",
        aggregates=("beir-15@1", "beir-13@1"),
        related=_related(["quora"], [], "Quora's duplicate questions, which models are trained on under that name"),
        defects=(
            (
                "Finds duplicates of a question, not answers to it: nearly every system has nDCG@10 around .8, BM25 too.",
                "https://castorini.github.io/pyserini/2cr/beir.html",
            ),
        ),
    ),
    Family(
        {"beir/msmarco/dev": ("MS MARCO (BEIR)", "Bing queries, passages of the web: BEIR's copy of the small dev set.")},
        text="title_text",
        text_note="BEIR's; these documents have no title.",
        split="dev",
        aggregates=("beir-15@1",),
        related='queries = ["msmarco"]\ntexts = ["msmarco-passage"]\nsource = "MS MARCO passage, in BEIR\'s format"',
        defects=(
            (
                (
                    "BEIR is for zero-shot retrieval, and most models were trained on MS MARCO: this set is left out of "
                    "most means."
                ),
                "https://github.com/beir-cellar/beir/wiki/Leaderboard",
            ),
        ),
    ),
    Family(
        {
            f"msmarco-passage-v2/trec-dl-{year}/judged": (
                f"TREC DL {year} passage",
                f"TREC Deep Learning track {year}, the 138 million passages of MS MARCO v2, graded judgements.",
            )
            for year in YEARS
        },
        text="text",
        text_note="The passage alone, as in the official collection.",
        relevance="default = 2",
        related='queries = ["msmarco"]\nsource = "queries of Bing, as MS MARCO\'s"',
        defects=(
            (
                "Binary measures (RR, R, AP, P, Success, RCap) need grade 2 or more.",
                "ir_datasets 0.6.3, docs/msmarco-passage-v2.yaml, of P and RR; Anserini's regressions give trec_eval -l 2",
            ),
        ),
        more_defects={
            f"msmarco-passage-v2/trec-dl-{year}/judged": (
                (
                    (
                        "The corpus has many near-duplicate passages. In 2022 and 2023 a judgement was passed on "
                        "to the duplicates of "
                        "a judged passage, which makes most of the judgements of 2022."
                    ),
                    "https://trec.nist.gov/data/deep2022.html; not counted here",
                ),
            )
            for year in (2022, 2023)
        },
    ),
    Family(
        {
            f"msmarco-document-v2/trec-dl-{year}/judged": (
                f"TREC DL {year} document",
                f"TREC Deep Learning track {year}, the 12 million documents of MS MARCO v2, graded judgements.",
            )
            for year in YEARS
        },
        text="url_title_headings_body",
        text_note="The four fields of the official file in its order, each on lines of its own.",
        relevance="default = 1",
        related='queries = ["msmarco"]\nsource = "queries of Bing, as MS MARCO\'s"',
        defects=(
            (
                (
                    "Binary measures need grade 1 or more here, as in Anserini's tables of documents; "
                    "ir_datasets names RR with grade 2 "
                    "among the official measures."
                ),
                (
                    "https://github.com/castorini/anserini/blob/master/docs/regressions/regressions-dl21-doc.md; "
                    "ir_datasets 0.6.3, docs/msmarco-document-v2.yaml"
                ),
            ),
            (
                "How Anserini joins the fields in its index has not been compared with this file's policy.",
                "not seen here",
            ),
        ),
    ),
    Family(
        {
            f"lotte/{domain}/test/{kind}": (
                f"LoTTE {domain}, {kind}",
                (
                    f"{'Questions typed into Google' if kind == 'search' else 'Titles of forum posts'}, "
                    f"answers of StackExchange forums about {domain if domain != 'pooled' else 'all five domains'}."
                ),
            )
            for domain in LOTTE
            for kind in ("search", "forum")
        },
        text="text",
        text_note="The answer alone, as in the official collection.",
        license=("apache-2.0", "https://huggingface.co/datasets/colbertv2/lotte_passages"),
        related='texts = ["stackexchange"]\nsource = "answers of StackExchange"',
        defects=(
            (
                (
                    "An answer counts as relevant if it was accepted or upvoted for the question that a query "
                    "belongs to: other "
                    "answers that would do are not counted."
                ),
                "ir_datasets 0.6.3, docs/lotte.yaml",
            ),
        ),
    ),
    Family(
        {
            name: (
                f"MIRACL {LANGUAGES[language]}",
                f"Questions in {LANGUAGES[language]}, passages of its Wikipedia: the dev queries.",
            )
            for language, name in MIRACL_ID.items()
        },
        text="title_text",
        text_note="Title and text with a space between, ir_datasets' own default_text.",
        split="dev",
        license=("apache-2.0", "https://huggingface.co/datasets/macavaney/miracl-noauth"),
        aggregates=("miracl-18@1",),
        related=_related(["miracl"], ["wikipedia"], "passages of Wikipedia"),
        own_related={
            f"miracl/{language}/dev": _related([], ["wikipedia"], "passages of Wikipedia") for language in ("de", "yo")
        },
        defects=(
            (
                "Test queries have no public judgements: papers score on dev, and so does this.",
                METADATA,
            ),
            (
                (
                    "Words are not found by white space in Chinese, Japanese and Thai; the scores of `bm25` depend on "
                    "its analyser."
                ),
                "https://github.com/castorini/pyserini/blob/master/docs/2cr/miracl.html: a Lucene analyser for each language",
            ),
        ),
        more_defects={
            f"miracl/{language}/dev": (
                (
                    "A surprise language: there is no set to train on.",
                    "Zhang et al. 2022, MIRACL, arXiv 2210.09984",
                ),
            )
            for language in ("de", "yo")
        },
    ),
    Family(
        {
            f"mr-tydi/{language}/test": (
                f"Mr. TyDi {LANGUAGES[language]}",
                f"Questions in {LANGUAGES[language]}, passages of its Wikipedia.",
            )
            for language in TYDI
        },
        text="text",
        text_note="The field `contents` of the official file, which begins with the title.",
        license=("apache-2.0", "https://huggingface.co/datasets/castorini/mr-tydi"),
        aggregates=("mr-tydi-11@1",),
        related=_related(["mr-tydi"], ["wikipedia"], "passages of Wikipedia"),
        defects=(
            (
                "One passage or two are known to be relevant for a query; others that would do are not judged.",
                METADATA,
            ),
            (
                "Version 1.0, as ir_datasets has it; Anserini's regressions and the hub have 1.1, whose scores differ.",
                "ir_datasets 0.6.3, etc/downloads.json; https://github.com/castorini/mr.tydi",
            ),
        ),
    ),
    Family(
        {"codesearchnet/test": ("CodeSearchNet", "The documentation of a function as the query, its code as what is found.")},
        text="code",
        text_note="The function as its file has it.",
        defects=(
            (
                (
                    "A Python function's docstring is inside its code, so a query may stand in its document "
                    "word by word. How often "
                    "has not been seen. Scores of what compares words are bounds then, not comparable with the paper's."
                ),
                "Husain et al. 2019, CodeSearchNet, arXiv 1909.09436, scores code without comments",
            ),
            (
                "All 2.1 million functions of six languages are searched; the paper ranks each with 999 others.",
                f"{METADATA}; arXiv 1909.09436",
            ),
            (
                (
                    "The 99 queries of the challenge are no contract: their annotations name functions that "
                    "the corpus does not "
                    "have, and may judge a pair twice."
                ),
                "ir_datasets 0.6.3, datasets/codesearchnet.py; not counted here",
            ),
        ),
        related='texts = ["github"]\nsource = "functions of public repositories on GitHub"',
    ),
    Family(
        {
            f"bright/{key}": (f"BRIGHT {name}", "A question that takes reasoning, what helps to answer it. Short documents.")
            for key, name in BRIGHT_NAMES.items()
        },
        text="text",
        text_note="The document alone; queries are the posts, without the reasoning that language models wrote.",
        license=("cc-by-4.0", "https://huggingface.co/datasets/xlangai/BRIGHT"),
        aggregates=("bright-12@1",),
        protocol="drop_grade = -100",
        defects=(
            (
                (
                    "Documents that are judged -100 are taken out of the results before they are scored, as "
                    "the authors' evaluation "
                    "does: a problem's own solution, in AoPS, LeetCode and the questions of TheoremQA."
                ),
                "ir_datasets 0.6.3, docs/bright.yaml and datasets/bright.py",
            ),
            (
                "Ids are paths of files. Whether one has white space in it, which no run file could hold, has not been seen.",
                "not seen here",
            ),
        ),
        more_defects={
            "bright/theoremqa-questions": (
                ("Its documents are those of bright/aops: their files have one MD5.", "ir_datasets 0.6.3, etc/downloads.json"),
            ),
        },
    ),
)

RETRIEVER = "bm25"
UNICODE = 'bm25(analyzer="unicode")'


@dataclass(frozen=True)
class Listed:
    """One suite; the means are (id, members, groups, note)."""

    name: str
    description: str
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    retriever: str = RETRIEVER
    means: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...], str], ...] = ()


BEIR_12 = (
    "beir/trec-covid", "beir/nfcorpus/test", "beir/nq", "beir/hotpotqa/test", "beir/fiqa/test", "beir/arguana",
    "beir/webis-touche2020/v2", "beir/dbpedia-entity/test", "beir/scidocs", "beir/fever/test", "beir/climate-fever",
    "beir/scifact/test",
)  # fmt: skip
CQA = tuple(f"beir/cqadupstack/{forum}" for forum in FORUMS)
NANO = tuple(f"nano-beir/{key}" for key in NANO_NAMES)
BRIGHT = tuple(f"bright/{key}" for key in BRIGHT_NAMES)
MIRACL = tuple(MIRACL_ID.values())
MR_TYDI = tuple(f"mr-tydi/{language}/test" for language in TYDI)

SUITES: Mapping[str, Listed] = {
    "nano_beir": Listed(
        "NanoBEIR (13)",
        "The quick answer: 13 sets of at most 50 queries over some thousand documents each, in Zeta Alpha's variant of 2024. "
        "Scores are higher than BEIR's own and not comparable with them.",
        NANO,
        ("nDCG@10", "RR@10", "R@100", "AP@100", "Success@10", "Judged@10"),
        means=(("nano-beir-13@1", NANO, (), "The mean that NanoBEIREvaluator of sentence-transformers prints."),),
    ),
    "beir_all": Listed(
        "BEIR, all that is public",
        "The twelve of `beir`, and the rest of BEIR that anyone can have: MS MARCO, Quora, and CQADupStack's twelve forums. "
        "BioASQ, Signal-1M, TREC-NEWS and Robust04 need an agreement and are no contracts here.",
        (*BEIR_12, "beir/msmarco/dev", "beir/quora/test", *CQA),
        ("nDCG@10", "RR@10", "R@100", "RCap@100", "Success@100", "R@1000", "AP@1000", "Judged@10"),
        means=(
            ("beir-13@1", (*BEIR_12, "beir/quora/test"), (), "The 13 of the SPLADE papers: without MS MARCO and CQADupStack."),
            ("cqadupstack-12@1", CQA, (), "What BEIR prints as CQADupStack."),
            (
                "beir-15@1",
                (*BEIR_12, "beir/msmarco/dev", "beir/quora/test", *CQA),
                (CQA,),
                "All 15, CQADupStack's forums averaged first: the sets of MTEB's English retrieval before version 2.",
            ),
        ),
    ),
    "dl_v2": Listed(
        "TREC Deep Learning 2021 to 2023",
        "The judged topics of the track's last three years over MS MARCO v2: 138 million passages, 12 "
        "million documents. Binary "
        "measures need grade 2 on passages and 1 on documents.",
        (
            *(f"msmarco-passage-v2/trec-dl-{year}/judged" for year in YEARS),
            *(f"msmarco-document-v2/trec-dl-{year}/judged" for year in YEARS),
        ),
        ("nDCG@10", "RR@100", "RR@10", "P@10", "R@100", "R@1000", "AP@100", "Judged@10"),
    ),
    "lotte": Listed(
        "LoTTE, test",
        "ColBERTv2's long-tail questions: five domains of StackExchange and all together, as people search and as forums ask.",
        tuple(f"lotte/{domain}/test/{kind}" for kind in ("search", "forum") for domain in LOTTE),
        ("Success@5", "nDCG@10", "RR@10", "R@100", "R@1000"),
    ),
    "miracl": Listed(
        "MIRACL, dev",
        "Wikipedia in 18 languages, questions of native speakers. Each language is a corpus of its own. The suite's BM25 takes "
        'words as Unicode breaks them; Lucene\'s analyser of a language is bm25(analyzer="fi")@lucene, with -d miracl/fi/dev.',
        MIRACL,
        ("nDCG@10", "R@100", "RR@10", "R@1000", "Judged@10"),
        UNICODE,
        (("miracl-18@1", MIRACL, (), "The mean over all 18 languages."),),
    ),
    "mr_tydi": Listed(
        "Mr. TyDi, test",
        "Wikipedia in eleven languages, one relevant passage a question. The suite's BM25 takes words as Unicode breaks them; "
        'Lucene\'s analyser of a language is bm25(analyzer="fi")@lucene, with -d mr-tydi/fi/test.',
        MR_TYDI,
        ("RR@100", "R@100", "nDCG@10", "R@1000"),
        UNICODE,
        (("mr-tydi-11@1", MR_TYDI, (), "The mean over all eleven languages."),),
    ),
    "code": Listed(
        "Code search",
        "CodeSearchNet's test queries over 2.1 million functions in six programming languages.",
        ("codesearchnet/test",),
        ("RR@1000", "nDCG@10", "R@100", "Success@10"),
    ),
    "bright": Listed(
        "BRIGHT",
        "Questions that take reasoning: twelve sets with short documents, documents of an excluded grade taken out.",
        BRIGHT,
        ("nDCG@10", "R@100", "RR@10", "R@1000"),
        means=(("bright-12@1", BRIGHT, (), "The mean of the paper's tables, over the twelve sets with short documents."),),
    ),
}


@cache
def _json(name: str) -> dict[str, Any]:
    """Return a file of ir_datasets' folder `etc`; the library is not imported, for it takes its folder of data when it is."""
    spec = find_spec("ir_datasets")
    if spec is None or spec.origin is None:
        raise SystemExit("the contracts are written from ir_datasets, which is not here; type: pip install ir_datasets")
    return dict(json.loads((Path(spec.origin).parent / "etc" / name).read_text(encoding="utf-8")))


def _counted(dataset: str, what: str) -> dict[str, Any]:
    """Return what the metadata says of a part of a dataset, which may be that of another."""
    part = dict(_json("metadata.json")[dataset][what])
    return _counted(part["_ref"], what) if "_ref" in part else part


def corpus_of(dataset: str) -> str:
    """Return the dataset whose documents these are."""
    part = _json("metadata.json")[dataset]["docs"]
    return corpus_of(part["_ref"]) if "_ref" in part else dataset


def _archives(corpus: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the library's folder of a corpus's collection, and what is downloaded for its documents, in order."""
    top, _, rest = corpus.partition("/")
    entries = _json("downloads.json")[top]
    keys = {
        "nano-beir": [f"{rest}/docs"],
        "beir": [rest.split("/")[0]],
        "lotte": ["source"],
        "bright": [f"{rest}/docs"],
        "mr-tydi": [rest],
        "miracl": sorted(key for key in entries if key.startswith(f"v1.0/{rest}/corpus/")),
        "codesearchnet": ["python", "java", "go", "php", "ruby", "javascript"],
        "msmarco-passage-v2": ["passages"],
        "msmarco-document-v2": ["docs"],
    }[top]
    return top, [entries[key] for key in keys]


def _place(top: str, corpus: str, entry: Mapping[str, Any]) -> str:
    """Return where the library keeps a download, seen from the folder of the corpus."""
    kept = f"{top}/{entry['cache_path']}" if "cache_path" in entry else f"downloads/{entry['expected_md5']}"
    return os.path.relpath(kept, corpus)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def contract(dataset: str, family: Family) -> str:
    """Return the file of one contract."""
    name, description = family.datasets[dataset]
    corpus = corpus_of(dataset)
    top, archives = _archives(corpus)
    qrels, queries = _counted(dataset, "qrels"), _counted(dataset, "queries")
    grades = qrels["fields"]["relevance"]["counts_by_value"]
    lines = [
        "schema = 1", f"id = {_text(dataset)}", "version = 1", f"name = {_text(name)}", f"description = {_text(description)}",
        f"corpus = {_text(corpus)}",
    ]  # fmt: skip
    if family.aggregates:
        lines.append(f"aggregates = {json.dumps(list(family.aggregates))}")
    lines += ["", "[source]", f"split = {_text(family.split)}", f"url = {_text(archives[0]['url'])}"]
    if len(archives) == 1:
        lines.append(f"md5 = {_text(archives[0]['expected_md5'])}")
    lines.append(f"archive = {_text(_place(top, corpus, archives[0]))}")
    if family.license[0]:
        lines += [f"license = {_text(family.license[0])}", f"license_source = {_text(family.license[1])}"]
    lines += ["", "[text]", f"document = {_text(family.text)}", f"note = {_text(family.text_note)}"]
    for table in ("protocol", "relevance"):
        if getattr(family, table):
            lines += ["", f"[{table}]", getattr(family, table)]
    count = ", ".join(f"{_text(grade)} = {grades[grade]}" for grade in sorted(grades, key=int))
    note = f"Counts and grades: {METADATA}. {UNSEEN}"
    if len(archives) > 1:
        note += f" The documents are {len(archives)} files, of which the first is named above."
    lines += [
        "", "[expected]", f"documents = {_counted(dataset, 'docs')['count']}", f"queries = {queries['count']}",
        f"judgements = {qrels['count']}", f"grades = {{ {count} }}", f"note = {_text(note)}",
    ]  # fmt: skip
    for what, source in (*family.defects, *family.more_defects.get(dataset, ())):
        lines += ["", "[[defects]]", f"what = {_text(what)}", f"source = {_text(source)}"]
    if related := family.own_related.get(dataset, family.related):
        lines += ["", "[related]", related]
    return "\n".join(lines) + "\n"


def suite(key: str, listed: Listed) -> str:
    """Return the file of one suite."""

    def array(values: Sequence[str]) -> str:
        return "".join(["[\n", *(f"    {_text(value)},\n" for value in values), "]"])

    lines = [
        "schema = 1", f"id = {_text(key)}", "version = 1", f"name = {_text(listed.name)}",
        f"description = {_text(listed.description)}", f"datasets = {array(listed.datasets)}",
        f"measures = {json.dumps(list(listed.measures))}", f"headline = {_text(listed.measures[0])}",
        f"retrievers = [{_text(listed.retriever)}]",
    ]  # fmt: skip
    for mean, members, groups, note in listed.means:
        lines += ["", "[[aggregates]]", f"id = {_text(mean)}", f"measure = {_text(listed.measures[0])}"]
        lines.append(f"members = {array(members)}")
        if groups:
            lines.append(f"groups = [{', '.join(json.dumps(list(group)) for group in groups)}]")
        lines.append(f"note = {_text(note)}")
    return "\n".join(lines) + "\n"


def written() -> Iterator[tuple[Path, str]]:
    """Yield every file that is written, with its text."""
    for family in FAMILIES:
        for dataset in family.datasets:
            name = dataset.replace("/", "_").replace("-", "_")
            yield ROOT / "datasets" / f"{name}.toml", contract(dataset, family)
    for key, listed in SUITES.items():
        yield ROOT / f"{key}.toml", suite(key, listed)


def main() -> int:
    """Write the files, or say which are not as they would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    if not parser.parse_args().check:
        for path, text in written():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in written() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT.parent)} is not what tools/field_contracts.py writes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
