"""Text to index terms, held against Lucene's own analyser."""

import json
import random
from importlib.util import find_spec

import numpy as np
import pytest

from lexbench.tokenization import ANALYZERS, analyze, compiled, stem, word_break
from lexbench.tokenization.word_break import STOP_WORDS, words

HARD = [  # text, and the terms that Anserini 1.7.1 (Lucene 9.9.1) gives for it
    ("The dog's bone and the dogs\u2019 bowls", "dog bone dog bowl"),
    ("O'Neil's O\u2019Neil\u2019s O\uff07Neil\uff07S", "o'neil o\u2019neil o\uff07neil"),
    ("it's 'quoted' rock 'n' roll's", "quot rock n roll"),
    ("\"don't\" can't've", "don't can't'v"),
    ("state-of-the-art e-mail", "state art e mail"),
    ("1,000.5 3.14 1.2.3 5% $9.99 10:30 a:b 1;2", "1,000.5 3.14 1.2.3 5 9.99 10 30 a:b 1;2"),
    ("U.S.A. U.S.A.'s e.g. Ph.D.", "u.s.a u.s.a s e.g ph.d"),
    ("user.name@example.com http://a.b/c?d=e_f", "user.nam example.com http a.b c d e_f"),
    ("snake_case __init__ _ x_1 ___", "snake_cas __init__ x_1"),
    ("IL-2 p53 \u03b2-catenin TNF\u03b1 5\u2032-UTR CO\u2082 10\u207b\u00b3", "il 2 p53 \u03b2 catenin tnf\u03b1 5 utr co 10"),
    ("C++ C# .NET F# a+b=c", "c c net f b c"),
    ("na\xefve cafe\u0301 \xc5ngstr\xf6m co\xadoperate", "na\xefv cafe\u0301 \xe5ngstr\xf6m co\xadoper"),
    (
        "\u0130stanbul \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03a3 Stra\xdfe",
        "istanbul \u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c3 stra\xdfe",
    ),
    ("日本語のテキスト カタカナ・テスト ﾊﾝｶｸ", "日 本 語 の テキスト カタカナ テスト ﾊﾝｶｸ"),
    ("한국어 조선말", "한국어 조선말"),
    ("ภาษาไทย ລາວ ខ្មែរ", "ภาษาไทย ລາວ ខ្មែរ"),
    ("צה\"ל ג'ירפה", "צה\"ל ג'ירפה"),
    ("हिन्दी اَلْعَرَبِيَّةُ", "हिन्दी اَلْعَرَبِيَّةُ"),
    ("\U0001f44d\U0001f3fd \U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd \U0001f469\u200d\U0001f467"),
    ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\U0001f1e9\U0001f1ea \U0001f1eb\U0001f1f7"),
    ("1\ufe0f\u20e3 #\ufe0f\u20e3 # \xa92020 \u2122", "1\ufe0f\u20e3 #\ufe0f\u20e3 \xa9 2020 \u2122"),
    ("x\u202fy a\xa0b a\u200bb x\ufeffy", "x\u202fy b b x\ufeffy"),
    ("\U0001d49cs \U0001d41b\U0001d41f\U0001d41bs", "\U0001d49c \U0001d41b\U0001d41f\U0001d41b"),
    ("x" * 300, f"{'x' * 255} {'x' * 45}"),
    ("\U0001d49c" * 130, f"{chr(0x1D49C) * 127} {chr(0x1D49C) * 3}"),
    ("to be or not to be", ""),
    ("  \n\t ", ""),
    ("", ""),
]

# The examples of M. F. Porter's paper, each after all steps of the algorithm.
STEMS = """caresses caress  ponies poni  ties ti  cats cat  feed feed  agreed agre  plastered plaster  bled bled  motoring motor
sing sing  conflated conflat  troubled troubl  sized size  hopping hop  tanned tan  falling fall  hissing hiss  fizzed fizz
failing fail  filing file  happy happi  sky sky  relational relat  conditional condit  rational ration  valenci valenc
digitizer digit  conformabli conform  radicalli radic  differentli differ  vileli vile  analogousli analog
vietnamization vietnam  predication predic  operator oper  feudalism feudal  decisiveness decis  hopefulness hope
callousness callous  formaliti formal  sensitiviti sensit  sensibiliti sensibl  triplicate triplic  formative form
formalize formal  electriciti electr  electrical electr  hopeful hope  goodness good  revival reviv  allowance allow
inference infer  airliner airlin  adjustable adjust  defensible defens  irritant irrit  replacement replac  adjustment adjust
dependent depend  adoption adopt  homologou homolog  communism commun  activate activ  angulariti angular  homologous homolog
effective effect  bowdlerize bowdler  probate probat  rate rate  cease ceas  controll control  roll roll"""


@pytest.fixture(scope="module")
def lucene():
    """Return Lucene's analysis of a text, as Anserini sets it up."""
    if not find_spec("pyserini"):
        pytest.skip("pyserini is not installed; pip install 'lexbench[lucene]'")
    from lexbench.engines.kernels.java import java_class

    analyser = java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    utils = java_class("io.anserini.analysis.AnalyzerUtils")
    return lambda text: list(utils.analyze(analyser, text).toArray())


def classes():
    """Return some code points of each word-break class: the first, the last and the one after of each range."""
    found = {"-": {0x20, 0x2D, 0x3000, 0x10FFFF}}
    for first, last, letter in word_break.classes()._ranges[1:]:
        found.setdefault(letter, set()).update((first, last, last + 1))
    return {letter: sorted(codes) for letter, codes in found.items()}


@pytest.mark.parametrize(("text", "terms"), HARD)
def test_hard_cases(text, terms):
    """A hard text gives the terms that Lucene gave for it."""
    assert analyze(text) == list(filter(None, terms.split(" ")))


def test_hard_cases_are_lucenes(lucene):
    """The terms written down for hard texts are those that Lucene gives today."""
    assert [text for text, terms in HARD if lucene(text) != list(filter(None, terms.split(" ")))] == []


def test_porters_examples():
    """Every example of Porter's paper has its stem."""
    pairs = dict(zip(STEMS.split()[::2], STEMS.split()[1::2], strict=True))

    assert {word: stem(word) for word in pairs} == pairs


def test_departures_from_the_paper():
    """Lucene's Porter has -logi become -log and -bli become -ble, which the paper and Snowball's `porter` do not.

    A word of two characters is not stemmed, and one beyond the basic plane counts as two characters, as in Java.
    """
    assert [stem(word) for word in ("apologi", "possibli", "as", "\U0001d49cs")] == ["apolog", "possibl", "as", "\U0001d49c"]


def test_stop_words_go_before_stemming():
    """A stop word goes; a word that only becomes one when it is stemmed stays. Words alone keep case and repetitions."""
    assert analyze("to be being") == ["be"]
    assert len(STOP_WORDS) == 33
    assert words("To be, to Be!") == ["To", "be", "to", "Be"]


FRAMES = "{} a{}a 1{}1 \u30a2{}\u30a2 \u2764{}\u2764 \u05d0{}\u05d0 x_{}y #{}\u20e3 \u2764{}\u200d\u2764"


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["class boundaries", "all"])
@pytest.mark.parametrize("frame", FRAMES.split())
def test_code_points(lucene, frame, every):
    """The first and last code points of each class of characters (slow: all) give Lucene's terms, alone and between others."""
    codes = sorted(range(0x110000) if every else {code for some in classes().values() for code in some})
    signs = [frame.format(chr(code)) for code in codes if not 0xD800 <= code < 0xE000 and code < 0x110000]
    texts = ["\n".join(signs[start : start + 500]) for start in range(0, len(signs), 500)] if every else signs

    assert [text for text in texts if analyze(text) != lucene(text)] == []


@pytest.mark.parametrize("letters", ["AHDNK_'\".:,x-", "PMFakDzcptgGx", "SsxAIRK-", "AHaDNK_'\".:,xPMFkzcptgGSsIR-"])
def test_random_texts(lucene, letters):
    """Random strings of characters of these classes give Lucene's terms."""
    rng = random.Random(letters)
    known = classes()
    texts = ("".join(chr(rng.choice(known[rng.choice(letters)])) for _ in range(rng.randint(1, 14))) for _ in range(1000))
    texts = [text for text in texts if text.isascii() or not any(0xD800 <= ord(letter) < 0xE000 for letter in text)]

    assert [text for text in texts if analyze(text) != lucene(text)] == []


def test_random_suffixes(lucene):
    """Random words with random endings have Lucene's stems."""
    rng = random.Random(0)
    endings = "ational tional ed ing eed s es ies sses bli logi al e ll ness ful ement ion sion y izer aliti ative ous li at 's"
    made = (
        "".join(rng.choices("abceilnosty", k=rng.randint(1, 5))) + "".join(rng.choices(endings.split(), k=rng.randint(0, 4)))
        for _ in range(4000)
    )

    assert [word for word in made if analyze(word) != lucene(word)] == []


def compiled_terms(chunk, english):
    """Return the terms of a lower-case *chunk* of ASCII by the compiled loops."""
    content, terms = np.frombuffer(chunk.encode(), np.uint8), []
    start, stop = compiled.next_word(content, 0)
    while start < stop:
        word = content[start:stop].copy()
        terms.append(word[: compiled.english_term(word) if english else len(word)].tobytes().decode())
        start, stop = compiled.next_word(content, stop)
    assert start == stop == len(content)
    return [term for term in terms if term]


@pytest.mark.parametrize("name", ["english", "unicode"])
def test_compiled_terms_are_those_of_python(name):
    """For ASCII texts, the compiled loops give the terms of each analyser: for words with any ending, and odd strings."""
    rng = random.Random(name)
    own = "s y l e t ed ing eed sses ies 's at bl iz"
    endings = [*compiled.STEP_2, *compiled.STEP_3, *compiled.STEP_4, *own.split()]
    starts = "a b y ay by ab tr bett hopp fall hiss wax snow fil oats generaliz"
    then = ["", *endings] if name == "english" else [""]  # only it stems
    made = {*(start + ending + more for start in ["", *starts.split()] for ending in endings for more in then), *STOP_WORDS}
    made |= {"".join(rng.choices("aby15.,:;'_s\"-#\0", k=rng.randint(1, 12))) for _ in range(5000)}
    made -= {""}

    assert [chunk for chunk in sorted(made) if compiled_terms(chunk, name == "english") != ANALYZERS[name](chunk)] == []


def test_texts(bread, lucene):
    """Every document and query of a collection gives Lucene's terms, in any script."""
    lines = [line for part in ("corpus", "queries") for line in (bread / f"{part}.jsonl").read_bytes().splitlines()]
    texts = [f"{line.get('title', '')} {line['text']}".strip() for line in map(json.loads, lines)]

    assert len(texts) == 84 + 35
    assert [text for text in texts if analyze(text) != lucene(text)] == []
