"""A comparison, as `lexbench compare --json` prints it. All differences are system minus baseline, in the measure's units."""

import msgspec


class ConfigDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A setting, or another fact of how results were made, that is not the same for all systems."""

    field: str  # as encoder.query_length, machine.processor, versions.torch
    values: list[str | None]  # of each system; None where it has no such field
    implied: bool = False  # a setting of a plug-in that only systems of another kind have: nothing that anyone chose


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One system on one dataset, alone."""

    system: str
    mean: float
    interval: tuple[float, float]  # 95 %, bootstrap over queries
    seeds: int = 1  # trainings that are taken together: the mean is that of their means
    deviation: float | None = None  # standard deviation (n - 1) of their means; None of one
    terms: float | None = None  # active terms a document, of sparse systems
    query_terms: float | None = None  # a query
    flops: float | None = None  # products a query and document


class NoWorse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a system is no worse than the baseline by more than the margin."""

    bound: float  # all differences of the document are above their bounds with 95 % confidence together
    p: float  # of a loss of the margin or more
    corrected: float  # p by Holm over all comparisons of the document
    holds: bool  # whether the corrected p is at most .05
    fewest: int  # queries that the margin takes where not one of them differs


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One system against the baseline on one dataset."""

    system: str
    difference: float
    interval: tuple[float, float]  # 95 %, paired bootstrap over queries
    p: float  # two-sided paired randomisation test
    corrected: float  # p by Holm over all comparisons of the document
    wins: int  # queries on which the system is better
    ties: int
    losses: int
    detectable: float | None  # the least difference that a test of these queries finds with power .8; None for one query
    no_worse: NoWorse | None = None  # with a margin
    over_seeds: tuple[float, float] | None = None  # 95 %, Welch's, over seeds; None where both systems are of one training


class DatasetComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All systems on one dataset."""

    dataset: str
    contract: str
    measure: str
    queries: int
    scores: list[Score]  # of all systems
    differences: list[Difference]  # of all but the first
    slice: str = ""  # the slice of its queries that this is of; "" for all


class MeanDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One system against the baseline in a mean over datasets."""

    system: str
    difference: float
    interval: tuple[float, float]  # 95 %, bootstrap stratified by dataset


class MeanComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A named mean over datasets, all of whose members are compared."""

    aggregate: str  # with its version, as beir-12@1
    measure: str
    means: dict[str, float]  # by system
    differences: list[MeanDifference]


class TermChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a vocabulary term adds to the score of a document; None for a system whose sparse vectors are not in the store."""

    token: str
    baseline: float | None
    system: float | None


class MovedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The relevant document whose place in the list did most to the difference."""

    document: str
    grade: int
    baseline_rank: int | None  # None where it is not in the run
    rank: int | None
    terms: list[TermChange]  # the largest changes first
    unavailable: list[str]  # why terms of a system are not known


class QueryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A query on which a system and the baseline differ much."""

    dataset: str
    system: str
    query: str  # its id
    text: str | None  # None where the dataset is not here
    baseline_value: float
    value: float
    moved: MovedDocument | None = None


_JSON_NAMES = {"config_diff": "differing", "means": "macros", "query_changes": "changed"}  # as they were in version 0.1


class Comparison(msgspec.Struct, frozen=True, kw_only=True, rename=_JSON_NAMES):
    """Systems compared with the first of them, the baseline, on all datasets of which all have results."""

    systems: list[str]
    config_diff: list[ConfigDifference]
    datasets: list[DatasetComparison]
    means: list[MeanComparison]
    query_changes: list[QueryChange]
    resamples: int  # of the tests; intervals have 10,000
    margin: float | None
    worse: list[str]  # "SYSTEM on DATASET" where it is significantly worse, or with a margin not shown to be no worse
    notes: list[str]
    slices: list[DatasetComparison] = []  # p by Holm over all slices, intervals by Bonferroni
    slices_sha256: str = ""  # of the file that declares them
