"""TREC's files of topics, as they were written in 1994, 2004 and 2020."""

import pytest
from tiny import write_files

import lexbench
from lexbench.datasets.records import read_queries
from lexbench.errors import InvalidFile
from lexbench.types import Query

OLD = """
<top>
<num> Number: 301
<title> International Organized
Crime

<desc> Description:
Identify organizations.
</top>

<top>
<head> Tipster Topic Description
<num> Number:  051
<title> Topic:  Airbus Subsidies
<narr> Narrative:
</top>
"""
IN_OLD = [Query("301", "International Organized Crime"), Query("051", "Airbus Subsidies")]
NEW = """<?xml version="1.0" encoding="UTF-8"?>
<topics task="COVIDSearch">
  <topic number="1">
    <query>Q&amp;A on   coronavirus</query>
    <question>what is it</question>
  </topic>
  <TOPIC number='2'><title></title><query>masks</query></TOPIC>
</topics>
"""
OLDER = '<!-- <topic number="9"><query>old</query></topic> --><topic'
OTHERS = """<topics>
<topic><number>1</number><title id="a title">Tenure?</title></topic>
<topic lang="en"><identifier>401-AH</identifier><title>Euro</title></topic>
<topic number="3">
A man of 45 &amp; asthma
</topic></topics>"""  # as of Touché, CLEF and TREC Clinical Trials
MARKED = NEW.replace("Q&amp;A on", "<![CDATA[Q&A]]> <b>on</b>").replace("  <topic", OLDER)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OLD, IN_OLD),
        (OLD.replace("\n", "\r\n"), IN_OLD),
        (NEW, [Query("1", "Q&A on coronavirus"), Query("2", "masks")]),
        (
            NEW.replace(' number="1"', "").replace("<query>Q", "<num>7</num><query>Q"),
            [Query("7", "Q&A on coronavirus"), Query("2", "masks")],
        ),
        (OLD.replace("</top>\n", "", 1), IN_OLD),
        (MARKED, [Query("1", "Q&A on coronavirus"), Query("2", "masks")]),
        (OTHERS, [Query("1", "Tenure?"), Query("401-AH", "Euro"), Query("3", "A man of 45 & asthma")]),
        (
            "\n301\tInternational Organized Crime\r\n051\tAirbus < Subsidies\n",
            [Query("301", "International Organized Crime"), Query("051", "Airbus < Subsidies")],
        ),
    ],
    ids=["SGML", "CRLF", "XML", "num closed", "top not closed", "comment, CDATA and tags", "others", "TSV"],
)
def test_topics_are_read_as_trec_writes_them(tmp_path, text, expected):
    """A topic is read as number and title, or its query if the title is empty. White space and entities are normalised."""
    (tmp_path / "topics.txt").write_bytes(text.encode())

    assert list(read_queries(tmp_path / "topics.txt")) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no topics here", "there are no topics in it"),
        ("<top>\n<num> Number: 1\n</top>", "topics.txt:1: a topic without a <title> or <query>"),
        ("\n\n<top><title> words </top>", "topics.txt:3: a topic without a number"),
        ("1\ttitle\tdescription\n", "line 1: a header without a column of ids: 1, title, description"),
        (NEW.replace("masks", "masqu\xe9"), "line 7: not UTF-8"),
        ('<!DOCTYPE t [<!ENTITY co "coronavirus">]>' + NEW.replace("masks", "&co;"), "it defines entities"),
    ],
)
def test_what_is_no_topic_is_refused(tmp_path, text, said):
    """A file without topics, a topic without a number or words: the file and the line are named."""
    (tmp_path / "topics.txt").write_text(text, encoding="latin-1")

    with pytest.raises(InvalidFile, match=said):
        list(read_queries(tmp_path / "topics.txt"))


def test_two_topics_of_one_number_are_refused(tmp_path):
    """The file is named."""
    write_files(tmp_path, {"topics.txt": OLD + OLD, "corpus.tsv": "d1\tred\n", "qrels.txt": "301 0 d1 1\n"})
    (failure,) = lexbench.run(str(tmp_path), ["bm25"], store=tmp_path / "store").failures
    assert failure.error.endswith("topics.txt: two queries have the id '301'")
