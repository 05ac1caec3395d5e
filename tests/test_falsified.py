"""Falsified results of the committed board, of every kind: each is refused, in one line that names the fault.

Each falsification changes what a forger would have to change together, e.g. the mean with the values of queries. The changes
are made to results on pydoc, whose judgements every machine has, and to one on Cranfield, whose judgements a machine may lack.
"""

import json
import math
import shutil
import tomllib
from pathlib import Path

import pytest
import samples
from msgspec.structs import replace
from robustness.honest_results import suite
from tiny import ended

from lexbench import catalog
from lexbench.artifacts.describe import describe
from lexbench.errors import LexbenchError
from lexbench.models.local_model import DTYPES
from lexbench.notation import parse
from lexbench.results import Note, VectorSizes, file_name
from lexbench.runner import origin_checks, recipe_checks, systems
from lexbench.runner.origin_checks import contradictory_origin
from lexbench.runner.scoring import score_ranked
from lexbench.runner.soundness import read_folder
from lexbench.runner.timing_checks import OLDEST_PYTHON, impossible_timing
from lexbench.runner.value_checks import impossible_values, unattainable_values
from lexbench.storage.artifact_folder import digest

COMMITTED = Path(__file__).parents[1] / "leaderboard" / "results"
MODELS = Path(__file__).parents[1] / "models"
N, RR, S, R, AP, J = "nDCG@10", "RR(rel=2)@10", "Success(rel=2)@10", "R(rel=2)@100", "AP(rel=2)@1000", "Judged@10"
DROP = object()
FUTURE = "2099-01-01T00:00:00+00:00"


# ---- changes: each takes the facts of a result as JSON ----------------------------------------------------------------------


def field(path, value):
    """Set the field at *path*, e.g. "counts/missing"; a function gets the old value, and DROP removes the field."""

    def change(result):
        *above, name = path.split("/")
        for part in above:
            result = result[int(part) if isinstance(result, list) else part]
        name = int(name) if isinstance(result, list) else name
        if value is DROP:
            del result[name]
        else:
            result[name] = value(result[name]) if callable(value) else value

    return change


def time(path, value):
    """Set a field of the first timing."""
    return field(f"timings/0/{path}", value)


def machine(**facts):
    """Change facts of the machine of the first timing, and its fingerprint accordingly."""
    return each(time("machine", lambda one: one | facts), fingerprint)


def memory(**amounts):
    """Change bytes of memory of the first timing."""
    return time("memory", lambda one: one | amounts)


def each(*changes):
    """Make several changes."""
    return lambda result: [change(result) for change in changes] and None


def queries(measure, value, where=lambda _result, _at: True, count=1):
    """Set the *value* of a measure for the first *count* queries for which *where* holds, and the mean accordingly.

    Tie intervals and bounds are made to hold the mean, and no document ids are kept, as a forger would do.
    """

    def change(result):
        values = result["per_query"][measure]
        places = [at for at in range(len(values)) if where(result, at)][:count]
        assert places, "no query to falsify"
        for at in places:
            values[at] = value(values[at]) if callable(value) else value
        mean = result["means"][measure] = math.fsum(values) / len(values)
        if bounds := result["incomplete"].get(measure):
            bounds |= {name: max(mean, bounds[name]) for name in ("highest", "condensed")}
        if measure in result["ties"]:
            result["ties"][measure] |= {"lowest": mean, "highest": mean}

    return each(field("top", []), change)


def keeping(change):
    """Make a change and keep the document ids."""

    def changed(result):
        top = result["top"]
        change(result)
        result["top"] = top

    return changed


def has(measure, test):
    """Return a condition on the value of a measure."""
    return lambda result, at: test(result["per_query"][measure][at])


zero, positive = (lambda value: value == 0), (lambda value: value > 0)


def over_seeds(count=2):
    """Make a result that of a mean over seeds that all have its values."""

    def change(result):
        result |= {
            **{name: [] for name in ("top", "timings")}, **{name: {} for name in ("found", "ranks")},
            **dict.fromkeys(("vectors", "work")), "system": "seeds", "notation": "",
            "seeds": {"systems": {f"seed {one}": "" for one in range(count)}, "means": {}},
        }  # fmt: skip
        result["seeds"]["means"] = {name: [mean] * count for name, mean in result["means"].items()}

    return change


def mean_of_seeds(measure, *where, **more):
    """Change values of a result over seeds, and the mean of each seed accordingly."""

    def change(result):
        queries(measure, *where, **more)(result)
        result["seeds"]["means"][measure] = [result["means"][measure]] * len(result["seeds"]["systems"])

    return change


def add_measure(name, values):
    """Add a measure with these values of queries, or those that a function of the result gives."""

    def change(result):
        found = values(result) if callable(values) else [values] * len(result["query_ids"])
        result["per_query"][name], result["means"][name] = found, math.fsum(found) / len(found)

    return each(field("top", []), change)


def faster(factor, *, latency=False, spread=False, passes=False):
    """Multiply QPS; and, to match, latencies, the range over processes, or the number of passes."""

    def change(result):
        timing = result["timings"][0]
        timing["qps"] = {stage: rate * factor for stage, rate in timing["qps"].items()}
        if spread:
            timing["qps_range"] = {stage: [one * factor for one in both] for stage, both in timing["qps_range"].items()}
        if latency:
            for name in ("stages", "first_pass"):
                for steps in timing[name].values():
                    steps |= {kind: value and value / factor for kind, value in steps.items()}
        if passes:
            timing["passes"] = int(timing["passes"] * factor)

    return change


def recipe(path, value):
    """Set a field of the recipe."""
    return field(f"recipe/{path}", value)


def renamed(expression):
    """Give a result the name and expression of another system."""
    return lambda result: result.update(system=expression, notation="")


def reorder(at=0):
    """Swap the first and the last kept document of a query with a positive nDCG."""

    def change(result):
        at = next(at for at, value in enumerate(result["per_query"][N]) if 0 < value < 1)
        ids = result["top"][at].split(" ")
        result["top"][at] = " ".join(reversed(ids))

    return change


def fingerprint(result):
    """Make the fingerprint of a timing match its machine again."""
    timing = result["timings"][0]
    timing["fingerprint"] = digest({name: one for name, one in timing["machine"].items() if name not in ("core", "siblings")})


def kept(change):
    """Change the kept documents of the first query."""
    return lambda result: result["top"].__setitem__(0, change(result["top"][0]))


SEEN = "corpus seen"
VALUES = {  # (a): what no ranking has, whatever was judged; and (b): what these judgements do not allow
    "RR of .7": (queries(RR, 0.7), f"{RR} of query", "reciprocal rank"),
    "RR of 1/11": (queries(RR, 1 / 11, has(RR, zero)), RR),
    "RR without success": (queries(RR, 1.0, has(S, zero)), RR, "is 0"),
    "RR 1 for all": (queries(RR, 1.0, count=115), RR, "is 0"),
    "success of .5": (queries(S, 0.5), "it can only be 0 or 1"),
    "success without RR": (queries(S, 1.0, has(RR, zero)), S, "is 0"),
    "success for all": (queries(S, 1.0, count=115), S, "is 0"),
    "no success with RR": (queries(S, 0.0, has(RR, positive)), f"{S} is 0"),
    "nDCG of .5 for all": (queries(N, 0.5, count=115), N),
    "nDCG 1 for all": (queries(N, 1.0, count=115), N),
    "nDCG a little higher": (queries(N, lambda value: value + 0.01, has(N, lambda value: 0 < value < 0.9)), "no ranking of"),
    "nDCG of the sixth digit": (queries(N, lambda value: value + 1e-6, has(N, lambda value: 0 < value < 0.9)), "no ranking of"),
    "nDCG without a judged document": (each(queries(J, 0.0, has(N, positive))), f"{J} is 0"),
    "nDCG 0 with a relevant document": (queries(N, 0.0, has(RR, positive)), f"{N} is 0"),
    "R of .123": (queries(R, 0.123), R),
    "R of a third more": (queries(R, lambda value: value * 1.1, has(R, lambda value: 0 < value < 0.9)), R),
    "R without AP": (queries(AP, 0.0, has(R, positive)), f"{AP} is 0"),
    "R beyond AP's documents": (queries(R, 1.0, has(AP, zero)), f"{AP} is 0"),
    "R 0 with RR": (queries(R, 0.0, has(RR, positive)), f"{R} is 0"),
    "AP 0 with R": (queries(AP, 0.0, has(RR, positive)), f"{AP} is 0"),
    "AP above what one relevant document allows": (queries(AP, 0.4567, has(R, lambda value: value == 1)), AP),
    "Judged of .55": (queries(J, 0.55), "a share of documents by at most 10"),
    "Judged 0 with RR": (queries(J, 0.0, has(RR, positive)), f"{J} is 0"),
    "R falls with the cutoff": (add_measure("R(rel=2)@1000", 0.0), "R(rel=2)@1000 is 0"),
    "success falls with the cutoff": (add_measure("Success(rel=2)@100", 0.0), "Success(rel=2)@100 is 0"),
    "RR of another rank": (
        add_measure("RR(rel=2)@100", lambda result: [1.0 if one else 0.0 for one in result["per_query"][RR]]),
        "has another rank",
    ),
    "R above its capped form": (
        add_measure("RCap(rel=2)@100", lambda result: [one / 2 for one in result["per_query"][R]]),
        "RCap",
    ),
    "P that is no number of documents": (add_measure("P(rel=2)@10", 0.123), "divided by 10"),
    "P without success": (add_measure("P(rel=2)@10", 0.1), "is 0, so no relevant document"),
    "P of all ranks, behind the first": (
        add_measure("P(rel=2)@10", lambda result: [1.0 if one else 0.0 for one in result["per_query"][RR]]),
        "too deep",
    ),
    "stricter success is higher": (add_measure("Success@10", 0.0), "Success@10 is 0"),
    "a stricter RR is higher": (
        add_measure("RR@10", lambda result: [0.1 if one else 0.0 for one in result["per_query"][N]]),
        "RR@10",
    ),
    "condensed lists above what relevant documents behind the kept ones give": (
        keeping(field(f"incomplete/{RR}/condensed", 0.99)), "without unjudged documents, and the kept documents allow"),
    "condensed lists below the mean": (field(f"incomplete/{N}/condensed", 0.01), "cannot be lower"),
    "a bound below the mean": (field(f"incomplete/{RR}/highest", 0.01), "its bound"),
    "an unknown measure": (add_measure("nDCQ@10", 0.9), "nDCQ@10 is not known here"),
    "a measure that is none": (add_measure("best of all", 0.9), "best of all"),
    "R 1 wherever a document was found": (queries(R, 1.0, has(R, positive), count=115), AP, "no ranks give this value"),
    "R of one document fewer": (queries(R, 0.0, has(R, lambda value: value == 1)), "is 0"),
    "ties in half a query": (field(f"ties/{S}/queries", 0.5 / 115), "ties across the cutoff of"),
    "an interval for ties that nothing makes": (field(f"ties/{S}/lowest", 0.0), "is wider than ties in"),
    "scores of another precision": (field("precision", "half"), "the precision 'half'"),
    "another share of judged documents": (field("counts/judged", 1.0), "another share of judged documents than Judged@10"),
    "documents left out for their grade": (field("counts/excluded", 99), "which the contract pydoc/test@1 keeps"),
    "queries' own documents left out": (field("counts/self_matches", 9), "which the contract pydoc/test@1 keeps"),
    "seeds without means": (
        each(over_seeds(), field("seeds/means", {}), queries(N, 1.0, count=115)),
        "is not that of its seeds",
    ),
    "half a success of two seeds' whole": (each(over_seeds(), mean_of_seeds(S, 0.75)), "0 or 1 in each of 2 seeds"),
    "documents of two seeds": (each(over_seeds(), mean_of_seeds(R, 0.123)), "this value in each of 2 seeds"),
    "seeds that find all documents where none is relevant": (
        each(over_seeds(), mean_of_seeds(R, lambda value: value * 1.1, has(R, lambda value: 0 < value < 0.9))), R),
    "all lists of seeds are perfect": (
        each(over_seeds(), *(mean_of_seeds(one, 1.0, count=115) for one in (N, RR, S, R, AP, J))), "no note says that"),
    "seeds under the name of a system": (each(over_seeds(), field("system", "bm25")), "its name is that of a system"),
    "seeds with the ranks of one system": (each(over_seeds(), field("ranks", {"data-01": {"x": 1}})), "belongs to one system"),
}  # fmt: skip
TIMINGS = {  # (c)
    "QPS times 1000": (faster(1000), "outside its range"),
    "QPS and range times 1000": (faster(1000, spread=True), "and not 1"),
    "QPS, range and latencies": (faster(1000, spread=True, latency=True), "in place of"),
    "QPS 20 % higher": (faster(1.2, spread=True), "and not 1"),
    "QPS twice as high, all but the passes": (faster(3, spread=True, latency=True), "in place of"),
    "QPS of e2e alone": (time("qps/e2e", lambda rate: rate * 0.95), "outside its range"),
    "e2e faster than search": (each(time("qps/search", 1.0), time("qps_range/search", [1.0, 1.0])), "one of the two steps"),
    "QPS of 0": (time("qps/e2e", 0.0), "no QPS above 0"),
    "no QPS of search": (time("qps", lambda rates: {"e2e": rates["e2e"]}), "no QPS above 0 for each"),
    "a reversed range": (time("qps_range/e2e", lambda both: both[::-1]), "range of QPS"),
    "a process of three times the QPS": (
        time("qps_range", lambda one: {stage: [low, 3 * high] for stage, (low, high) in one.items()}), "flags do not say"),
    "a process of a third of the QPS": (time("qps_range/e2e/0", lambda rate: rate / 3), "which its flags do not say"),
    "a range of e2e above that of a step": (time("qps_range/e2e/1", lambda rate: rate * 1.5), "above that of encode_query"),
    "no range": (time("qps_range", {}), "no range of QPS"),
    "p95 below p50": (time("stages/e2e/p50", 10.0), "out of order"),
    "mean below half of p50": (time("stages/e2e/mean", 1e-9), "its timing"),
    "p99 of 115 queries": (time("stages/e2e/p99", 1.0), "percentiles"),
    "p95 of 115 queries": (time("stages/search/p95", 1.0), "percentiles"),
    "no latencies": (time("stages", {}), "no stages"),
    "no latency of a step": (time("stages", lambda steps: {"e2e": steps["e2e"]}), "no stages"),
    "a latency of 0": (time("first_pass/e2e/mean", 0.0), "no first_pass above 0"),
    "search slower than e2e": (
        time("stages/search", lambda one: one | {"mean": one["mean"] * 50, "p50": one["p50"] * 50}),
        "above that of e2e",
    ),
    "no passes": (time("passes", 0), "0 passes"),
    "more passes than the protocol": (time("passes", 10**6), "passes in"),
    "fewer passes": (time("passes", 10), "in place of"),
    "more queries than there are": (time("queries", 1000), "1000 queries were timed, and the dataset has 115"),
    "no queries": (time("queries", 0), "0 queries were timed"),
    "no warm-up": (time("warm_up", 0), "0 passes of warm-up"),
    "no processes": (time("processes", 0), "0 processes"),
    "two threads in one": (time("threads", 2), "it has 2 threads"),
    "processor time of two threads": (time("cpu_per_wall", 1.9), "which its flags do not say"),
    "no processor time": (time("cpu_per_wall", 0.0), "no processor time"),
    "overhead of 60 %": (time("overhead", 0.6), "which its flags do not say"),
    "other documents, without the flag": (time("checked", False), "contradict each other"),
    "an unknown flag": (each(time("flags", ["fast"]), time("notes", ["so fast"])), "unknown flag 'fast'"),
    "a flag without its note": (time("flags", ["noisy"]), "lacks one"),
    "a note without its flag": (each(time("flags", []), time("notes", ["the load was 3"])), "notes on flags that it lacks"),
    "another processor": (time("machine/processor", "Cray-1"), "its fingerprint is not that"),
    "another fingerprint": (time("fingerprint", "0" * 16), "its fingerprint is not that"),
    "a GPU without its flag": (
        each(time("machine", lambda one: one | {"computed_on": ["H100"]}), fingerprint),
        "the flag gpu",
    ),
    "taken in the future": (time("taken", FUTURE), "in the future"),
    "taken at no date": (time("taken", "yesterday"), "no date"),
    "an index of other bytes on disk": (time("disk", {"all": 1}), "the files of its index have 1 bytes"),
    "memory below 0": (time("memory", {"pss_file": -1}), "below 0"),
    "seconds of work below 0": (field("measured/seconds/search", -1.0), "below 0"),
    "k of 0": (time("k", 0), "no documents"),
    "one scenario twice": (lambda result: result["timings"].append(result["timings"][0]), "two timings of one kind"),
    "taken before lexbench was written": (time("taken", "2026-10-01T00:00:00+00:00"), "before lexbench was written"),
    "Python 2": (machine(python="2.7.18"), "made by Python 2.7.18, and lexbench needs 3.11"),
    "no cores": (machine(usable_cores=0), "its machine has usable_cores 0"),
    "processor time of 50 cores": (
        each(time("cpu_per_wall", 50.0), time("flags", ["threads≈50.0"]), time("notes", ["why"])), "its machine has 2 cores"),
    "more memory than the machine": (memory(peak_open=10**14), "its machine has 24 GiB of memory"),
    "a peak below what was measured": (memory(peak_search=2 * 10**8), "its peak_search is 200,000,000 bytes, and the process"),
    "a process of 1 byte": (memory(peak_open=1), "its peak_open is 1 bytes, and the process needs"),
    "memory less an unknown baseline": (time("memory/baseline", DROP), "its memory has pss_file or baseline"),
    "memory of a GPU, without one": (memory(peak_gpu=10**9), "no GPU computed"),
    "memory of the user's process": (each(time("flags", ["in process"]), time("notes", ["why"])), "not measured in the user's"),
    "memory of a program": (
        each(
            time("flags", ["elsewhere"]), time("notes", ["why"]), field("vectors", None),
            field("recipe", {"plugin": "retrievers/command", "version": 1, "settings": {"program": "x", "revision": "1"}}),
            field("notation", 'command("x", revision="1")'), field("exposure/status", SEEN),
        ),
        "a program answers, and it has memory",
    ),
    "an index on a server, without the flag": (
        recipe("settings/engine/plugin", "engines/qdrant"), "it is a timing of a program or server, which its flags"),
    "queries that are not encoded, without the flag": (
        recipe("settings/encoder/plugin", "encoders/vectors"), "it is a timing without encoding, which its flags"),
    "encoding in no time": (
        each(
            time("qps/encode_query", 1e9), time("qps_range/encode_query", [1e9, 1e9]),
            time("stages/encode_query", {"p50": 1e-9, "p95": None, "p99": None, "mean": 1e-9}),
        ),
        "of the time of e2e",
    ),
    "e2e faster than its two steps": (
        lambda result: [
            result["timings"][0][name].update(dict.fromkeys(("encode_query", "search"), steps["e2e"]))
            for name, steps in ((name, dict(result["timings"][0][name])) for name in ("stages", "first_pass"))
        ] and None,
        "take 200% of the time of e2e",
    ),
}  # fmt: skip
ORIGINS = {  # (d)
    "an index of 1 byte": (each(field("sizes/index", 1), time("disk", {"all": 1})), "its index has 1 bytes for 5,048"),
    "an index of half the bytes": (field("sizes/index", lambda size: size // 2), "the files of its index have"),
    "a corpus of 1 byte": (field("sizes/corpus", 1), "its corpus has 1 bytes for 5,048"),
    "made in the future": (field("measured/started", FUTURE), "in the future"),
    "made before lexbench was written": (field("measured/started", "1999-01-01T00:00:00+00:00"), "before lexbench was written"),
    "made by another Python": (field("measured/machine/python", "3.10.1"), "made by Python 3.10.1, and lexbench needs 3.11"),
    "made on no cores": (field("measured/machine/cores", "0"), "its machine has cores '0'"),
    "made at no date": (field("measured/started", "soon"), "no date"),
    "another version of the plug-in": (recipe("version", 99), "version 99 of retrievers/bm25, and this lexbench has"),
    "an older version of the plug-in": (recipe("version", 1), "version 1 of retrievers/bm25, and this lexbench has"),
    "another k1 in the recipe": (recipe("settings/k1", 2.0), "its recipe is not that of bm25"),
    "a setting that the plug-in lacks": (recipe("settings/boost", 2.0), "has the setting 'boost'"),
    "another retriever in the recipe": (recipe("plugin", "retrievers/bm25_lucene"), "its recipe is not that of bm25"),
    "a retriever that does not exist": (recipe("plugin", "retrievers/oracle"), "there is no such plug-in"),
    "a recipe of an encoder under the name bm25": (recipe("plugin", "retrievers/encoded"), "no sizes of its vectors"),
    "bm25's numbers as nano's": (renamed("lexmae_nano@impact"), "its recipe is not that of lexmae_nano@impact"),
    "bm25's numbers with other settings": (renamed("bm25(k1=1.2)"), "its recipe is not that of bm25(k1=1.2)"),
    "bm25's numbers as an ensemble's": (renamed("ensemble(bm25, lexmae_nano@impact)"), "its recipe is not that of ensemble"),
    "no recipe": (field("recipe", {}), "it has no recipe"),
    "settings that are a number": (recipe("settings", 5), "its recipe has a form that lexbench does not write"),
    "no count of documents": (field("counts/documents", None), "it does not count its documents"),
    "no bytes of the corpus": (field("sizes/corpus", DROP), "it has the bytes of its index, and not those of its corpus"),
    "no bytes of the index": (field("sizes/index", DROP), "it has the bytes of its corpus, and not those of its index"),
    "a retriever that nobody has": (renamed("omniscient(k1=1.0)"), "it has retrievers/bm25 in place of omniscient"),
    "an upper bound by its mark alone": (field("bound", True), "it is marked as an upper bound, and its system has no"),
    "the name of a model": (
        lambda result: result.update(system="splade_v3", notation="bm25"), "its name is that of another system"),
    "the name of a model with its engine": (
        lambda result: result.update(system="lexmae_nano@impact", notation="bm25"), "its name is that of another system"),
    "the name of a system with other settings": (
        lambda result: result.update(system="bm25(k1=1.2)", notation="bm25"), "its name is that of another system"),
    "a name that looks like another": (lambda result: result.update(system="bm25 "), "its name begins or ends with a space"),
    "an exposure that is none": (field("exposure/status", "clean"), "its exposure is 'clean'"),
    "contamination without a reason": (field("exposure", {"status": SEEN, "because": []}), "without a reason"),
    "no digest of the corpus": (
        field("digests", lambda one: {name: one[name] for name in ("queries", "qrels")}),
        "no SHA-256 of the corpus",
    ),
}  # fmt: skip
OF_NANO = {
    "zero-shot, trained on the collection": (field("exposure", {"status": "zero-shot", "because": []}), f"it is {SEEN}"),
    "no exposure, trained on the collection": (field("exposure", None), f"it is {SEEN}"),
    "unknown, trained on the collection": (field("exposure", {"status": "unknown", "because": []}), f"it is {SEEN}"),
    "another engine": (recipe("settings/engine/plugin", "engines/csr"), "its recipe is not that of lexmae_nano@impact"),
    "another version of the encoder": (recipe("settings/encoder/version", 7), "version 7 of encoders/sparse_mlm"),
    "another activation": (recipe("settings/encoder/settings/activation", "relu"), "its recipe is not that of"),
    "a transform more": (
        recipe("settings/transforms", lambda one: [*one, {"plugin": "transforms/top_k", "version": 1, "settings": {"k": 4}}]),
        "it has the transforms collection_idf, quantize, top_k in place of collection_idf, quantize",
    ),
    "another power of idf": (
        recipe("settings/transforms/0/settings/power", 0.9), "collection_idf(power=…) is 0.9 in place of 0.4"),
    "another power of idf, and another setting of the model": (
        each(recipe("settings/transforms/0/settings/power", 0.9), recipe("settings/encoder/settings/query_idf", 0.9)),
        "lexmae_nano(query_idf=…) is 0.9 in place of 0.4",
    ),
    "another scale of whole numbers": (
        recipe("settings/transforms/1/settings/scale", 1e4), "quantize(scale=…) is 10000.0 in place of 100.0"),
    "no idf": (
        recipe("settings/transforms", lambda one: one[1:]), "the transforms quantize in place of collection_idf, quantize"),
    "whole numbers before idf": (recipe("settings/transforms", lambda one: one[::-1]), "transforms/quantize in place of"),
    "weights of another model": (recipe("settings/encoder/identity/model/weights", "0" * 64), "the digest of its model"),
    "no digests of the model": (recipe("settings/encoder/identity", {}), "the digest of its model"),
    "a second model for queries": (
        recipe("settings/encoder/identity/query_model", {"weights": "0" * 64}), "the digest of its query_model"),
    "a setting of other models": (recipe("settings/encoder/settings/text_terms", 48), "(text_terms=…) is 48 in place of 0"),
    "a model of 1 byte": (field("sizes/model", 1), "its models have 1 bytes, and those of lexmae_nano@impact"),
    "no bytes of the model": (field("sizes/model", DROP), "its models have 0 bytes"),
    "an engine that does not exist": (renamed("lexmae_nano@impulse"), "it has impact in place of impulse"),
    "a model that does not exist, on another engine": (renamed("lexmae_giga@csr"), "it has engines/impact in place of csr"),
    "a text in place of an expression": (
        lambda result: result.update(notation="lexmae_nano@impact, tuned"), "its expression lexmae_nano@impact, tuned cannot"),
    "an object, zero-shot, with the files of a model that is not": (
        each(field("notation", ""), field("exposure", {"status": "zero-shot", "because": []})), f"it is {SEEN}"),
    "a search that is not exact": (time("exact", False), "its search is exact, and it says otherwise"),
    "recalls of an exact search": (field("found", {"10": 1.0}), "its search is exact, and it has 1 recalls of exact"),
    "candidates of a search of all documents": (time("candidates", 100), "it has 100 candidates in place of 0"),
    "a mean above half of the median and the largest": (field("vectors/terms/p50", 20.0), "no whole numbers"),
    "another version of an engine": (recipe("settings/engine/version", 3), "version 3 of engines/impact"),
    "bytes per document": (field("vectors/bytes_per_document", 1.0), "1.0 bytes per document"),
    "more cut texts than texts": (field("vectors/truncated", 5049), "5,049 of its texts were cut"),
    "more empty texts than texts": (field("vectors/empty", 5049), "5,049 are empty, of 5,048 documents"),
    "dimensions of terms": (field("vectors/dimensions", 384), "terms and dimensions"),
    "half a term": (field("work/query_terms/max", 88.5), "no whole numbers"),
    "terms out of order": (field("vectors/terms/max", 0.5), "out of order"),
    "FLOPS": (field("work/flops", 1e-9), "FLOPS"),
    "no FLOPS": (field("work/flops", None), "it has 0 FLOPS, and its postings give"),
    "no work": (field("work", None), "its vectors have terms, and it counts no postings"),
    "no counts of work": (field("work", {"query_terms": {}, "postings": {}, "flops": None}), "it counts no postings"),
    "no sizes of vectors": (field("vectors", None), "it has no sizes of its vectors"),
    "terms that are no whole number": (
        each(field("vectors/terms/mean", 83.4001), field("vectors/bytes_per_document", 250.2003)), "which is no whole number"),
    "no encoder": (recipe("settings/encoder", {}), "it has no encoder"),
    "vectors of nothing": (field("vectors", {"bytes_per_document": 0.0}), "it has no sizes of its vectors"),
    "postings out of order": (field("work/postings/p50", 1e12), "out of order"),
    "nano's numbers as another model's": (
        lambda result: result.update(notation='splade_tiny(model="x")@impact'), "its recipe is not that of splade_tiny"),
    "nano's numbers with fewer terms": (
        lambda result: result.update(notation="lexmae_nano|top_k(4)@impact"), "in place of collection_idf, top_k, quantize"),
}  # fmt: skip
KEPT = {  # (e): the documents that results keep
    "reversed lists": (reorder(), "the documents that it keeps have"),
    "a document twice": (kept(lambda text: " ".join([text.split(" ")[0]] * 2)), "a document twice"),
    "eleven documents": (kept(lambda text: text + " one.more"), "more than 10 documents"),
    "no documents": (kept(lambda _text: ""), "1 of its queries have no documents"),
    "one list fewer": (lambda result: result["top"].pop(), "keeps the documents of 114 queries"),
    "lists of the next query": (lambda result: result["top"].append(result["top"].pop(0)), "the documents that it keeps have"),
    "unjudged documents": (lambda result: result.update(top=["x y z"] * 115), "the documents that it keeps have"),
    "values of better lists": (keeping(queries(N, 1.0, has(N, positive))), "the documents that it keeps have"),
    "AP below that of the kept documents": (
        keeping(queries(AP, lambda value: value / 16, has(AP, lambda value: value > 0.5))), AP),
    "unjudged documents bounded by the mean": (
        lambda result: result["incomplete"][N].update(highest=result["means"][N]), "if unjudged documents count"),
    "no bounds for unjudged documents": (field("incomplete", {}), "has no bounds for unjudged documents"),
    "no intervals for ties": (field("ties", {}), "no interval for ties"),
    "no interval for ties of one measure": (field(f"ties/{R}", DROP), f"{R} has no interval for ties"),
    "RR of another rank than the kept documents": (
        keeping(each(queries(RR, 0.5, has(RR, lambda value: value == 1)))), "the documents that it keeps have"),
}  # fmt: skip
PIPELINE = {
    "one member fewer": (recipe("settings/members", lambda one: one[:1]), "1 members in place of 2"),
    "another member": (recipe("settings/members/0/settings/k1", 3.0), "bm25(k1=…) is 3.0 in place of 0.9"),
    "another k": (recipe("settings/k", 1000), "pipeline(k=…) is 1000 in place of 100"),
    "other weights than the usual ones": (recipe("settings/weights", [0.1, 1.0]), "is [0.1, 1.0] in place of [1.0, 1.0]"),
    "fewer candidates": (time("candidates", 10), "it has 10 candidates in place of 100"),
    "no note on its candidates": (field("notes", []), "it has no note on the candidates of its first retriever"),
    "zero-shot by its first member": (field("exposure", {"status": "zero-shot", "because": []}), f"it is {SEEN}"),
}
LISTS = {  # what a result says of its lists
    "no kept documents": (field("top", []), "it keeps the documents of 0 queries"),
    "other documents that are judged": (field("lists/judged", 5000), "it says that 5,000 documents are judged, and these are"),
    "one list for 9 queries": (field("lists/same", 9), "it says that 9 queries have the same list"),
    "all judged documents found, and more": (
        field("lists/found", 9999),
        "9,999 judged documents are in its lists",
    ),
    "fewer judged documents found than kept": (field("lists/found", 9), "9 judged documents are in its lists, and it keeps"),
    "short lists of 9 queries": (field("lists/short", 9), "it says that 9 queries have short lists"),
}
OF_MINI = {  # a model in a package beside lexbench
    "weights of another model": (recipe("settings/encoder/identity/model/weights", "0" * 64), "those of lexmae_mini in this"),
    "a model of 1 byte": (field("sizes/model", 1), "its models have 1 bytes, and those of lexmae_mini@impact"),
}
GROUPS = {"bm25": VALUES | ORIGINS | KEPT, "nano": TIMINGS | OF_NANO, "bm25 > nano": PIPELINE, "mini": OF_MINI, "doc": LISTS}
ALL = {(system, name): change for system, group in GROUPS.items() for name, change in group.items()}


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """Return a folder with the committed results of five systems on pydoc."""
    folder = tmp_path_factory.mktemp("board")
    (folder / "results" / "pydoc").mkdir(parents=True)
    for system in GROUPS:
        shutil.copy(COMMITTED / "pydoc" / f"{file_name(system)}.json", folder / "results" / "pydoc")
    return folder


@pytest.mark.parametrize("number", [1, 2, 5, 7])
def test_random_honest_suites_are_accepted(tmp_path, number):
    """Results of random systems, measures and collections, some with continuous grades, raise no alarm."""
    assert suite(number, tmp_path, timed=False, light=True) >= 3


@pytest.mark.parametrize(("size", "fault"), [(1536.0, False), (384.0, False), (48.0, False), (1.0, True), (4000.0, True)])
def test_dense_vectors_may_be_codes(size, fault):
    """Of 384 dimensions, a document has 1,536 bytes, 384 as int8 and 48 as bits; nothing is smaller or larger."""
    vectors = VectorSizes(dimensions=384, vectors=1.0, bytes_per_document=size)
    assert bool(list(contradictory_origin(samples.result("x", vectors=vectors)))) is fault


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_in_any_dtype_is_accepted(dtype):
    """The recipe of a model that computes in a faster type is no contradiction, so the board of `make demo` is made."""
    pytest.importorskip("torch", reason="it is in the extra neural")
    recipe = describe(systems.system(f'lexmae_nano(dtype="{dtype}")@impact').retriever)
    assert list(recipe_checks.faults_of_versions(recipe)) == []


def test_the_note_that_a_result_is_too_good_cannot_be_deleted():
    """With the judgements, the values of queries show that they are too good."""
    names = [f"q{number}" for number in range(20)]
    run, qrels = samples.ranked(**dict.fromkeys(names, "abc")), samples.judged(**{name: {"a": 1, "z": 0} for name in names})
    result = score_ranked(run, qrels, ["RR@10", "nDCG@10"], {"system": "x", "dataset": "own", "contract": "none"})
    assert (result.notes[-1].kind, list(unattainable_values(result, qrels))) == ("too good", [])
    (fault,) = unattainable_values(replace(result, notes=[]), qrels)
    assert fault == "nDCG@10 is 1 for 20 of 20 queries that have a relevant document, and no note says that this is too good"


def test_more_relevant_documents_may_lower_ap():
    """AP is 1, and (1 + 2/3) / 2 if the unjudged third document were relevant, which is no fault."""
    run, qrels = samples.ranked(q="abc"), samples.judged(q={"a": 1, "b": 0})
    result = score_ranked(run, qrels, ["AP@5"], {"system": "x", "dataset": "own", "contract": "none"})
    assert result.incomplete["AP@5"].highest == pytest.approx((1 + 2 / 3) / 2)
    assert not [fault for fault in impossible_values(result) if "its bound" in fault]


@pytest.mark.parametrize(("flags", "faults"), [(["elsewhere"], 0), ([], 1)])
def test_the_bytes_of_an_index_on_a_server_are_in_no_file(flags, faults):
    """A server such as PostgreSQL says how large its index is; the file here has that number."""
    timing = samples.timing(10, flags=flags, disk={"engine/bytes_on_server": 5})
    assert len(list(impossible_timing(samples.result("x", sizes={"index": 5000}), timing))) == faults


def test_an_approximate_search_has_a_note():
    """Its recalls of exact are also said to readers."""
    made = samples.encoded() | {"settings": {"engine": {"plugin": "engines/seismic", "version": 1, "settings": {}}}}
    result = samples.result("x", recipe=made, found={"10": 0.9})
    assert list(origin_checks._faults_of_exactness(result)) == ["it has recalls of exact, and no note on them"]
    assert not list(origin_checks._faults_of_exactness(replace(result, notes=[Note("approximate search", "…")])))


def test_results_of_each_python_that_lexbench_takes_are_accepted():
    """The oldest Python of a result is that of the package."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={'.'.join(map(str, OLDEST_PYTHON))}"


WITH_MEANS = "with_means(lexmae_nano@impact)"


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("version", 2, ""),
        ("settings/weights", [1.0, 1.0], "with_means(weights=…) is [1.0, 1.0] in place of [1.0, 0.5]"),
        ("settings/members", lambda both: both[:1], "it has 1 members in place of 2"),
        ("settings/members/1/settings/encoder/settings/means", False, "sparse_mlm(means=…) is False in place of True"),
        ("settings/members/1/settings/transforms", [], "it has the transforms none in place of int8"),
    ],
)
def test_a_retriever_that_makes_a_member_of_its_own_is_accepted(path, value, fault):
    """`with_means` has the means as a second member, which nobody types; other members and weights are faults."""
    pytest.importorskip("torch", reason="it is in the extra neural")
    recipe = json.loads(json.dumps(describe(systems.system(WITH_MEANS).retriever)))
    field(path, value)(recipe)
    assert next(recipe_checks.faults_of_expression(parse(WITH_MEANS), recipe), "") == fault


def test_a_board_is_scored_again(board, tmp_path, capsys):
    """`verify --rescore` finds all values of the kept documents, and names a result whose values are others."""
    assert "115" not in ended(capsys, 0, "verify", board, "--rescore").err
    shutil.copytree(board, tmp_path / "forged")
    path = tmp_path / "forged" / "results" / "pydoc" / "bm25.json"
    entry = json.loads(path.read_bytes())
    keeping(queries(N, 1.0, has(N, positive)))(entry["results"][0])
    path.write_text(json.dumps(entry))
    said = ended(capsys, 1, "verify", tmp_path / "forged", "--rescore").out
    assert "bm25 on pydoc/test: nDCG@10 of query" in said
    entry["results"][0] |= {"top": ["no.such.document"] * 115}
    path.write_text(json.dumps(entry))
    said = ended(capsys, 1, "verify", tmp_path / "forged", "--rescore").out
    assert "1 of the documents that it keeps are not in the corpus" in said
    entry["results"][0]["per_query"][N].pop()
    path.write_text(json.dumps(entry))
    assert "it has 114 values of nDCG@10 for 115 queries" in ended(capsys, 1, "verify", tmp_path / "forged", "--rescore").out


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("results/beir/bm25.json", "pydoc/test is not in the suite beir; see: lexbench show suite beir"),
        ("results/bm25.json", "/results/SUITE/SYSTEM.json; move it there, or away"),
        ("results/pydoc/old/bm25.json", "/results/SUITE/SYSTEM.json; move it there, or away"),
        ("results/pydoc/.old/bm25.json", ""),
        ("results/pydoc/._bm25.json", ""),
    ],
)
def test_a_file_of_results_at_another_place_is_refused(board, tmp_path, path, fault):
    """No file is left out in silence, but for hidden ones, which other programs write."""
    for place in ("results/pydoc/bm25.json", path):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        suite_of_file = place.split("/")[1]
        text = (board / "results" / "pydoc" / "bm25.json").read_text()
        (tmp_path / place).write_text(text.replace('"suite": "pydoc"', f'"suite": "{suite_of_file}"'))
    said = ""
    try:
        read_folder(tmp_path)
    except LexbenchError as error:
        said = str(error)
    assert said.endswith(fault)
    assert bool(said) is bool(fault)


@pytest.mark.parametrize(("system", "name"), ALL, ids=lambda one: one)
def test_a_falsification_is_refused_by_name(board, tmp_path, monkeypatch, system, name):
    """One line says which file and result, and what is impossible."""
    change, *said = ALL[system, name]
    if system == "mini" and "lexmae_mini" not in catalog.names():
        monkeypatch.setenv("LEXBENCH_MODELS", str(MODELS / "lexmae_mini" / "lexmae_mini"))
    (tmp_path / "results" / "pydoc").mkdir(parents=True)
    for one in {system} if system != "bm25 > nano" else ("bm25", "nano", system):  # it is compared with its members
        shutil.copy(board / "results" / "pydoc" / f"{file_name(one)}.json", tmp_path / "results" / "pydoc")
    path = tmp_path / "results" / "pydoc" / f"{file_name(system)}.json"
    entry = json.loads(path.read_bytes())
    change(entry["results"][0])
    entry["system"] = entry["results"][0]["system"]
    path.unlink()
    path.with_name(f"{file_name(entry['system'])}.json").write_text(json.dumps(entry))

    with pytest.raises(LexbenchError) as refused:
        read_folder(tmp_path)
    line = str(refused.value)
    assert all(part in line for part in said), line
    assert file_name(entry["system"]) in line
    assert "\n" not in line
