"""`lexbench judge documents`: judgements by a language model are separate, stamped, and never mixed with official ones."""

import hashlib
import json

import pytest
import tiny
from model_server import ModelServer
from samples import texts_of
from tiny import answer, ended

from lexbench.cli import code
from lexbench.judges.endpoint_judge import _PROMPT, EndpointJudge
from lexbench.trec.qrels import judge_stamps, read_qrels
from lexbench.types import Document

DOCUMENTS = {"d1": "red car", "d2": "a red fast car", "d3": "riddle of a car", "d4": "cat"}
QUERIES = {"q1": "fast red car", "q2": "cat"}


@pytest.fixture
def server():
    """Serve a model whose grade counts common words of query and passage, and that has no grade for a riddle."""
    server = ModelServer()
    yield server
    server.close()


@pytest.fixture
def place(store, tmp_path):
    """Write a collection of two queries and four documents, and a run of both."""
    tiny.write(tmp_path / "cars", DOCUMENTS, QUERIES, [("q1", "d1", 1), ("q1", "d4", 1), ("q2", "d1", 0), ("q2", "d4", 1)])
    lines = [f"q1 Q0 d{n} {n} {9 - n} x\n" for n in (1, 2, 3, 4)]
    (tmp_path / "a.run").write_text("".join(lines) + "q2 Q0 d1 1 1 x\nq9 Q0 d1 1 1 x\n")
    return tmp_path


def words(server, *more, settings="", output="llm.qrels"):
    """Return the command."""
    judge = f'endpoint_judge(url="{server.url}", model="m"{settings})'
    return ["judge", "documents", "a.run", "-d", "cars", "--judge", judge, "--output", output, *more]


def judged(server):
    """Return how many judgements were requested from the server."""
    return sum(path == "/v1/chat/completions" for path, *_ in server.requests)


def test_the_first_documents_are_judged_and_stamped(place, server, capsys):
    """By hand: grades 2, 3 and 0 for q1, none for the riddle, 0 for q2; q9 is not judged; kappa is 0."""
    made = answer(capsys, *words(server), "--json")
    lines = (place / "llm.qrels").read_text().splitlines()

    assert [line.split()[0::2] + line.split()[3:] for line in lines] == [
        ["q1", "d1", "2"], ["q1", "d2", "3"], ["q1", "d4", "0"], ["q2", "d1", "0"],
    ]  # fmt: skip
    assert {line.split()[1] for line in lines} == {made["stamp"]}
    assert (made["grades"], made["unreadable"]) == ({"0": 2, "2": 1, "3": 1}, 1)
    assert made["agreement"] == {"both": 1, "judge": 0, "official": 1, "neither": 1}  # d2 was not judged, nor q2's d4
    assert made["judge"]["identity"]["prompt_sha256"] == hashlib.sha256(_PROMPT.encode()).hexdigest()
    assert "model-0" in made["judge"]["identity"]["said"]
    assert json.loads((place / "llm.qrels.stamp.json").read_text()) == made
    assert judged(server) == 5


def test_a_score_has_a_note_about_judgements_by_a_program(place, server, capsys):
    """A score notes stamped judgements, and a mix of stamped and official ones; so does a run on a folder with such qrels."""
    assert code(words(server)) == 0
    official = "q1 0 d1 1\nq2 0 d4 1\n"
    (place / "official.qrels").write_text(official)
    (place / "mixed.qrels").write_text((place / "llm.qrels").read_text() + "q2 0 d4 1\n")
    command = ("score", "a.run", "-m", "nDCG@10", "--json", "--qrels")
    names = ("llm", "mixed", "official")
    notes = {name: " ".join(texts_of(answer(capsys, *command, f"{name}.qrels")["notes"])) for name in names}

    assert "4 of 4 judgements were made by a program" in notes["llm"]
    assert "MIXED" not in notes["llm"]
    assert "4 of 5 judgements" in notes["mixed"]
    assert "MIXED" in notes["mixed"]
    assert "judge" not in notes["official"]
    (place / "cars" / "qrels" / "test.tsv").write_bytes((place / "llm.qrels").read_bytes())
    (result,) = answer(capsys, "run", "dataset", "cars", "-r", "bm25", "-m", "RR@10", "--json")["results"]
    assert any(
        "4 of 4 judgements were made by a program" in note["text"] and note["kind"] == "judge" for note in result["notes"]
    )


def test_unjudged_documents_alone_can_be_judged(place, server):
    """With --unjudged, d1 and d4 of q1 and d1 of q2 are left out."""
    assert code(words(server, "--unjudged")) == 0

    assert judged(server) == 2
    assert [row[:2] for row in read_qrels(place / "llm.qrels").judgements()] == [("q1", "d2")]


def test_an_interrupted_judging_continues(place, server, capsys):
    """After a failure at q2, q1 is not judged again; a document whose line was truncated is."""
    real = server.answer
    server.answer = lambda path, body: (400, {}) if body and "Query: cat" in str(body) else real(path, body)
    assert "status 400" in ended(capsys, 1, *words(server)).err
    assert not (place / "llm.qrels").exists()
    server.answer = real
    before = judged(server)
    assert code(words(server)) == 0
    assert judged(server) == before + 1
    whole = (place / "llm.qrels").read_bytes()
    answers = place / "llm.qrels.answers"
    answers.write_bytes(answers.read_bytes()[:-5])
    assert code(words(server)) == 0
    assert judged(server) == before + 2
    assert (place / "llm.qrels").read_bytes() == whole
    (place / "llm.qrels.stamp.json").unlink()  # as a kill between the two files leaves it
    assert code(words(server)) == 0
    assert (place / "llm.qrels.stamp.json").exists()


def test_another_prompt_is_another_judge(place, server):
    """Another prompt has another stamp, and answers of the first are not used."""
    prompt = "Grade from 0 to 3.\nQuery: {query}\n\nPassage: {passage}\n\nWhat stands here ends. {other}"
    (place / "prompt.txt").write_text(prompt)
    assert code(words(server)) == 0
    assert code(words(server, settings=', prompt="prompt.txt"', output="other.qrels")) == 0

    (one,), (other,) = (judge_stamps(place / name) for name in ("llm.qrels", "other.qrels"))
    assert one != other
    assert judged(server) == 10
    assert "{other}" in server.requests[-1][2]["messages"][0]["content"]


def test_texts_are_put_into_the_prompt_once(server):
    """{passage} in a query is not filled in, and a passage is cut to the given number of characters."""
    judge = EndpointJudge(url=server.url, model="m", characters=4)
    judge.judge("{passage} of {query}", [Document("d", "longer")])
    content = server.requests[-1][2]["messages"][0]["content"]

    assert "Query: {passage} of {query}\n" in content
    assert "Passage: long\n" in content


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"choices": []}, "the answer is something else"),
        (b"<html>", "no JSON"),
        ({"choices": [{"message": {"content": None}}]}, "else"),
        ({"choices": [{"message": {"content": "As a model I cannot judge."}}]}, "none of 5 answers has a grade"),
    ],
)
def test_an_unusable_answer_is_one_line(place, server, capsys, answer, said):
    """An answer that is not a chat's, or only answers without a grade, give one line, and no qrels file."""
    server.broken = answer
    err = ended(capsys, 1, *words(server)).err

    assert said in err
    assert "Traceback" not in err
    assert not (place / "llm.qrels").exists()


@pytest.mark.parametrize(
    ("more", "ends", "said"),
    [
        ({"settings": ', prompt="gone.txt"'}, 3, "the prompt cannot be read"),
        ({"output": "a.run"}, 3, "not of this judge"),
        ({"settings": ", tokens=0"}, 2, "tokens"),
        ({"settings": ", tokens="}, 2, "is not a valid judge; write e.g. endpoint_judge("),
    ],
)
def test_mistakes_are_refused_before_any_request(place, server, capsys, more, ends, said):
    """A missing prompt, a file of another judge and a setting out of range give one line, and no request."""
    assert said in ended(capsys, ends, *words(server, **more)).err
    assert judged(server) == 0
