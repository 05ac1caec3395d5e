"""The public functions of lexbench: one per command, with the same names and defaults.

Each returns an answer (`lexbench.display.answer`): a typed value that shows itself in a notebook as the command shows it in
a terminal, and becomes a data frame with `to_pandas()`. A wrong value raises a LexbenchError with the line that the shell
prints. The help of a command is made from the docstring of its function. Modules are imported where they are used, so
help loads nothing heavy.

Settings that many functions share: *columns* names the columns of tables in a user's folder, "id=package,text=description",
or {"id": "package", "text": "description"}; *split* is the name of its judgements. *store* is a folder instead of
$LEXBENCH_STORE. *progress* receives the steps of the work and the notes; without one, notes are Python warnings,
or lines on stderr where warnings are errors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lexbench.contracts import MEASURES
from lexbench.display.progress import Plain, Progress, give_warning
from lexbench.errors import CommandError, UnknownName
from lexbench.registry import PACKAGES

if TYPE_CHECKING:
    from lexbench.analysis.audit import Audit
    from lexbench.analysis.compare.tables import Comparison
    from lexbench.analysis.encoder_speed import EncoderSpeed
    from lexbench.analysis.explain import Explanation
    from lexbench.analysis.gate.gates import Accepted, GateReport
    from lexbench.analysis.judgements import Judgements, PoolTest
    from lexbench.analysis.list_similarity import ListComparison
    from lexbench.analysis.ranks import Ranks
    from lexbench.analysis.seen_in_training import SeenInTraining
    from lexbench.analysis.verify.rescoring import Rescoring
    from lexbench.analysis.verify.verdicts import Verification
    from lexbench.analysis.watch import Point
    from lexbench.collecting.collect import Collected
    from lexbench.collecting.page import JudgingPage
    from lexbench.display.answer import Facts, Tables
    from lexbench.interop.conversion import Imported
    from lexbench.interop.formats import Format
    from lexbench.lexmae.training.command import Trained, TrainingPlan
    from lexbench.probing.answer import Probe
    from lexbench.report.change import Report
    from lexbench.report.dataset import DatasetPage
    from lexbench.report.figures import Picture
    from lexbench.report.leaderboard import Leaderboard
    from lexbench.report.run import Summary
    from lexbench.report.score import Score
    from lexbench.report.store import StoreCheck, StoreList
    from lexbench.results import Results
    from lexbench.runner.jobs import EncodedCorpus
    from lexbench.runner.plan import RunPlan
    from lexbench.storage.health import Health
    from lexbench.storage.store import Store
    from lexbench.timing.protocol import TimingSettings

Measured: TypeAlias = Callable[[dict[str, float], dict[str, float]], float]
LIST_DEPTHS = (10, 100)
CHANGES = 5  # queries that a comparison shows
GATE_FILE = Path("lexbench-gate.toml")
_EVERY = 5.0  # seconds between two lines of progress


def _progress(progress: Progress | None) -> Progress:
    """Return *progress*, or one that writes what takes long on stderr and turns notes into Python warnings."""
    return progress or _Shown(_EVERY)


class _Shown(Plain):
    """Progress of programs and notebooks."""

    def note(self, line: str) -> None:
        give_warning(line, stacklevel=3)


def _store(store: "str | Path | None", progress: Progress | None) -> "Store":
    """Return the store; *progress* gets a line when another process has to finish first, and about damage."""
    from lexbench.storage.store import Store, default_root

    shown = _progress(progress)
    return Store(Path(store) if store else default_root(), on_wait=shown.note, on_damage=shown.warn)


def _defined(systems: Any, store: "Store") -> Any:
    """Return *systems*; a name that the store remembers becomes "NAME = EXPRESSION"."""
    from lexbench.analysis.stored_results import definition

    if isinstance(systems, str):
        return definition(systems, store)
    if isinstance(systems, list | tuple):
        return [definition(item, store) if isinstance(item, str) else item for item in systems]
    return systems


def _stated(systems: Any, store: "Store") -> Any:
    """Return the systems to run. Raises CommandError for an empty list, which asks for none, not for the default."""
    if systems is None or (isinstance(systems, str | list | Mapping) and not systems):
        raise CommandError("the list of systems is empty; name some, e.g. ['bm25'], or leave it out for the default")
    return _defined(systems, store)


def _groups(seeds: "Sequence[str] | Mapping[str, Sequence[str]]") -> dict[str, list[str]]:
    from lexbench.analysis.seeds import seed_groups

    if isinstance(seeds, Mapping):
        return {name: list(members) for name, members in seeds.items()}
    return seed_groups([seeds] if isinstance(seeds, str) else seeds)


def _measures(measures: Sequence[str | Measured]) -> list[str]:
    """Return *measures* as texts; functions are known by theirs from now on."""
    from lexbench.measures import function_text

    return [function_text(one) if callable(one) else one for one in measures]


def _columns(columns: "str | Mapping[str, str]") -> Mapping[str, str]:
    """Return stated columns of tables, which are typed as "id=package,text=description"."""
    from lexbench.datasets.stated_columns import parse_columns

    return (parse_columns(columns) if columns else {}) if isinstance(columns, str) else columns


def _in_split(data: Any, split: str | None, columns: "str | Mapping[str, str]" = "") -> Any:
    """Return *data* with the split of its judgements, an id or folder as "NAME#SPLIT", and stated columns of its tables."""
    from lexbench.datasets.location import Typed
    from lexbench.runner.plan import kind_of as kind

    stated = _columns(columns)
    if not split and not stated:
        return data
    said = f"--split {split} chooses the judgements" if split else "--columns names columns of the tables"
    if data is None:
        raise CommandError(f"{said} of a dataset; name it with -d")
    if isinstance(data, str | Path):
        if isinstance(data, str) and data and kind(data) == "suite":
            raise CommandError(f"{said} of one dataset, and {data} is a suite")
        name = f"{data}#{split}" if split else str(data)
        return Typed(name, stated) if stated else name
    if not isinstance(data, Mapping):
        raise CommandError(f"{said} of a folder or a mapping, not of {type(data).__name__}")
    return {**data, **({"split": split} if split else {}), **({"columns": stated} if stated else {})}


def _in_splits(datasets: Sequence[str], split: str | None, columns: "str | Mapping[str, str]" = "") -> list[str]:
    """Return *datasets* with the split of their judgements and stated columns."""
    if not datasets:
        _in_split(None, split, columns)  # raises if one is stated
    return [_in_split(name, split, columns) for name in datasets]


def _path(value: "str | Path | None") -> Path | None:
    return Path(value) if value is not None else None


def _existing(folder: "str | Path") -> Path:
    if not Path(folder).is_dir():
        raise CommandError(
            f"there is no folder {folder}; a folder of results is written by: lexbench run ... --results {folder}"
        )
    return Path(folder)


# ---- run -------------------------------------------------------------------------------------------------------------------


def run(
    data: Any,
    systems: Any = (),
    *,
    datasets: Sequence[str] = (),
    measures: Sequence[str | Measured] = (),
    depth: int | None = None,
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    results: "str | Path | None" = None,
    seeds: "Sequence[str] | Mapping[str, Sequence[str]]" = (),
    on: str | None = None,
    time: "bool | TimingSettings" = False,
    brief: bool = False,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Results":
    """Run systems on a suite or on one dataset.

    *data* is the name of a suite ('pydoc'), a dataset ('pydoc/test') or a folder. *datasets* chooses datasets of a suite,
    *split* the judgements of a folder, and *columns* names the columns of its tables ('id=package,text=description'). A system
    is an expression ('bm25(k1=0.9)'). Finished work is not repeated. *on* is where corpora are encoded: 'processes(4)', 'ray'.

    In Python, *data* may also be in memory: {'corpus': {id: text}, 'queries': {id: text}, 'qrels': {query id: {document id:
    grade}}}, or data frames with named columns, rows, paths of three files, the result of beir's GenericDataLoader, or a
    dataset of ir_datasets. *systems* are a list, or one system. A system may be a function texts -> vectors or (queries, k) ->
    {query id: {document id: score}}, or an object: an encoder, a search system, a model of sentence-transformers, beir or mteb,
    a transformer of PyTerrier, or vectors: {'documents': {id: vector}, 'queries': {id: vector}}, or (ids, array) for each. A
    mapping gives systems names. A measure may be a function of the scores of a query's documents, best first, and of the
    grades: {document id: number} each.
    With *time*, each system is also timed in a fresh process, an object in this one (`Result.timings`; settings:
    `lexbench.TimingSettings`). *seeds* shows several trainings as one system: {'name': ['a', 'b']}. With *results*, the results
    are also written into that folder. With *brief*, what papers call recall (Success@k) is measured beside official recall.

    Raises CommandError or CannotStart for mistakes that are found before any work. Jobs that fail are in `Results.failures`.
    """
    from lexbench.analysis.seeds import check_groups, merge_seeds
    from lexbench.executors import executor
    from lexbench.results import DATASETS, results_of_names
    from lexbench.runner import jobs
    from lexbench.runner.plan import plan_of
    from lexbench.storage.atomic import check_writable
    from lexbench.timing.protocol import TimingSettings
    from lexbench.timing.stored_timings import with_timings
    from lexbench.timing.timer import Timer

    # Plan, and find every mistake that can be found before any work.
    shown, place, groups = _progress(progress), _store(store, progress), _groups(seeds)
    stated, named = _columns(columns), _measures(measures)
    planned = plan_of(data, _stated(systems, place), datasets, named, depth, split, columns=stated, both_recalls=brief)
    encoding = executor(on)
    systems_named = list(dict.fromkeys((job.system.name, job.system.alias_of) for job in planned.jobs))
    check_groups(groups, systems_named)
    timer = Timer(TimingSettings() if time is True else time) if time else None
    for system in [job.system for job in planned.jobs if timer and job.system.expression is None]:
        timer.check(system)  # type: ignore[union-attr] # there is one
    if progress is not None:
        for line in planned.lines:
            progress.note(line)
    folder = _path(results)
    if folder:
        check_writable(folder)
        suite = planned.suite.id if planned.suite else DATASETS
        results_of_names([*systems_named, *((group, "") for group in groups)], suite, folder)  # raises if a name clashes
    # Carry out the jobs.
    outcomes = []
    shown.jobs(planned.suite.id if planned.suite else "dataset", len(planned.jobs))
    for outcome in jobs.run(planned, place, shown, timer, encoding):
        outcomes.append(outcome)
        shown.job_done()
    # Show what was found: with times that are known, seeds as one system, and in the folder of results.
    found = jobs.results_of(planned, outcomes, place)
    if not timer and (brief or folder):  # these show queries per second, which may have been measured before
        found = with_timings(found, place)
    if groups and any(not failure.scored for failure in found.failures):
        shown.note("seeds are shown one by one, because a job failed")
    else:
        found = merge_seeds(found, groups)
    if folder:
        found.save(folder, shown.note)
    return found


def plan(
    data: Any,
    systems: Any = (),
    *,
    datasets: Sequence[str] = (),
    measures: Sequence[str | Measured] = (),
    depth: int | None = None,
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "RunPlan":
    """Check a run and return its jobs and the disk that it needs; run nothing. The settings are those of `run`."""
    from lexbench.runner.plan import RunPlan, plan_of

    place = _store(store, progress)
    given, stated, named = _stated(systems, place), _columns(columns), _measures(measures)
    planned = plan_of(data, given, datasets, named, depth, split, columns=stated)
    if progress is not None:
        for line in planned.lines:
            progress.note(line)
    return RunPlan.of_plan(planned, place)


def kind_of(name: str) -> str:
    """Return what the name of data stands for: "suite", "dataset" or "folder". Raises UnknownName if it is none of them."""
    from lexbench.runner.plan import kind_of as kind

    return kind(name)


def default_measures() -> tuple[str, ...]:
    """Return the measures of a dataset that is run or scored without a suite. Data of a user also have Judged@10."""
    return MEASURES


def summary(results: "Results", *, brief: bool = False) -> "Summary":
    """Return the tables that `lexbench run` prints: all of them, or with *brief* one per dataset."""
    from lexbench.report.run import Summary

    return Summary(results, brief=brief)


def encode(
    data: Any,
    systems: Sequence[str],
    *,
    datasets: Sequence[str] = (),
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    part: "str | None" = None,
    on: str | None = None,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Iterator[EncodedCorpus]":
    """Encode corpora, whole or in parts on several machines that share a store.

    *data* is the name of a suite or dataset, or a folder. The vectors of each system's encoder are made. *part* "I/N"
    encodes only part I (from 0) of N. Yields each corpus and encoder when its part is done.
    """
    from lexbench.executors import executor
    from lexbench.runner.jobs import encode as encode_plan
    from lexbench.runner.jobs import numbered_part
    from lexbench.runner.plan import plan_of

    number = numbered_part(part) if part else (0, 1)
    place = _store(store, progress)
    planned = plan_of(data, _defined(systems, place), datasets, split=split, columns=_columns(columns))
    return encode_plan(planned, place, number, _progress(progress), executor(on))


def watch(
    folder: "str | Path",
    system: str,
    datasets: Sequence[str] = (),
    measures: Sequence[str] = ("nDCG@10",),
    *,
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    once: bool = False,
    every: float = 60.0,
    tests_too: bool = False,
    plot: "str | Path | None" = None,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Iterator[Point]":
    """Benchmark the checkpoints of a training as they are written.

    Runs *system*, with {} in place of the checkpoint, with each checkpoint in *folder*. Of a dataset in a folder the split dev
    is used, if there is one and no *split* is named. Checkpoints that were benchmarked before come from the store. Each line
    has the means with 95 % intervals, the terms per document, and the difference from the best checkpoint before it.
    *plot* is a figure of the curve, PLOT.svg, .pdf and .png, drawn again after each checkpoint.

    Yields one point per checkpoint and dataset; with *once*, of the checkpoints that are there.
    """
    from functools import partial

    from lexbench.analysis.watch import watch as watch_folder
    from lexbench.report.figures import drawn_points

    benchmark = partial(run, measures=measures, store=store, progress=progress)
    given, chosen = _defined(system, _store(store, progress)), _in_splits(datasets, split, columns)
    settings: Any = {"every": None if once else every, "tests_too": tests_too, "on_note": (progress or Progress()).note}
    points = watch_folder(Path(folder), given, chosen, benchmark, **settings)
    return drawn_points(points, Path(plot)) if plot else points


def train(
    recipe: str,
    step: str = "all",
    *,
    settings: Sequence[str] = (),
    output: str | None = None,
    stage: int = 0,
    progress: Progress | None = None,
) -> "Trained | None":
    """Train a LexMAE: pretraining, imitation, negatives, fine-tuning.

    *recipe* is a TOML file or the name of one of lexbench's own recipes, e.g. msmarco; *settings* replace some of it
    ("pretrain.steps=100"). *step* is pretrain, imitate, mine, finetune or all; mine and finetune have a *stage*. Finished
    parts are not repeated, and interrupted ones resume. With several GPUs, type: torchrun --nproc-per-node 8 -m lexbench
    train ...

    Returns the folder of the model, or None in all processes but the first that torchrun started.
    """
    from lexbench.lexmae.training.command import train as train_recipe

    return train_recipe(recipe, step, settings=settings, output=output, stage=stage, progress=_progress(progress))


def training_plan(
    recipe: str,
    step: str = "all",
    *,
    settings: Sequence[str] = (),
    output: str | None = None,
    stage: int = 0,
    time: bool = False,
) -> "TrainingPlan":
    """Check a training and return its parts; train nothing. The settings are those of `train`.

    *time* does three steps of each part on this device, with random weights, and adds seconds, hours and GiB. It downloads the
    models that the recipe starts from.
    """
    from lexbench.lexmae.training.command import training_plan as plan_recipe

    return plan_recipe(recipe, step, settings=settings, output=output, stage=stage, time=time)


def score(
    run: Any,
    dataset: "str | Path | Mapping[str, Any] | None" = None,
    *,
    qrels: Any = None,
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    measures: Sequence[str | Measured] = (),
    precision: Literal["double", "float32"] = "double",
    max_passage: str = "",
    slices: "str | Path | None" = None,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Score":
    """Score a run under the rules of a dataset.

    *run* is a TREC run file (may be compressed). It is scored over all judged queries, with ties in trec_eval's order. With
    *dataset*, it may also be a system that was run on the dataset: then its run in the store is scored. *qrels* is a file:
    without rules, or with *dataset* under the rules of that dataset. *split* chooses the judgements of a folder. *slices* is a
    file with groups of queries. With *max_passage*, e.g. '#', the run is of passages DOCUMENT#PASSAGE: each document has the
    score of its best passage.

    In Python, *run* may also be {query id: {document id: score}}, a data frame or a list of (query, document, score), and
    *qrels* {query id: {document id: grade}} or a data frame.
    """
    from lexbench.report.score import score as score_run

    place = _store(store, progress)
    return score_run(
        run,
        _in_split(dataset, split, columns),
        qrels,
        _measures(measures),
        precision,
        place,
        max_passage=max_passage,
        slices=_path(slices),
    )


# ---- results ---------------------------------------------------------------------------------------------------------------


def results(
    folder: "str | Path | None" = None, *, store: "str | Path | None" = None, progress: Progress | None = None
) -> "Results":
    """Return the results in a folder of results, or else those in the store, the newest of each system and dataset first."""
    from lexbench.analysis.stored_results import results_at

    return results_at(_store(store, progress), _existing(folder) if folder else None)


def result(name: str, *, store: "str | Path | None" = None, progress: Progress | None = None) -> "Facts":
    """Return the newest stored result called SYSTEM:DATASET, or SYSTEM if it has results on one dataset only."""
    from lexbench.report import listings

    return listings.one_result(name, _store(store, progress))


def lists(results: "Results", system: str, dataset: str) -> dict[str, dict[str, float]]:
    """Return the ranked lists behind a result: the score of each document by query, best first.

    Raises MissingData if its run is neither in the store nor in this session.
    """
    from lexbench.analysis.stored_results import lists_behind

    return lists_behind(results, system, dataset, _store(None, None))


def per_query(results: "Results", measure: str | None = None, dataset: str | None = None) -> "Tables":
    """Return the values of each query: its dataset, id and text, and a column per system.

    *measure* is by default the first that all systems have, *dataset* all of them. Texts are shown if the data are here.
    """
    from lexbench.report.listings import query_values

    return query_values(results, measure, dataset, results.session.store or _store(None, None))


def plot(results: "Results", cost: Literal["index", "speed"] = "index", dataset: str | None = None) -> "Picture":
    """Return a figure of effectiveness over index size or speed, which a notebook shows. Needs matplotlib."""
    from lexbench.report.figures import picture

    return picture(results, cost, dataset)


def compare(
    *systems: "str | Path | Results | Mapping[str, Any] | Sequence[Any]",
    qrels: Any = None,
    results: "Results | str | Path | None" = None,
    datasets: Sequence[str] = (),
    split: str | None = None,
    measures: "str | Sequence[str | Measured]" = (),
    margin: float | None = None,
    queries: "int | str | Path | Mapping[str, str]" = CHANGES,
    worst: bool = False,
    seeds: "Sequence[str] | Mapping[str, Sequence[str]]" = (),
    slices: "str | Path | None" = None,
    columns: "str | Mapping[str, str]" = "",
    claims: "str | Sequence[str]" = (),
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Comparison":
    """Compare the scores, settings or ranked lists of systems.

    The first of *systems* is the baseline. Systems are names or expressions of systems that were run ('bm25'), result files,
    or folders of results, which stand for all systems in them. Nothing is run. Names are looked up in the given files first,
    then in the folder *results*, or else in the store. Each of *measures* is tested; p is corrected for all systems and
    datasets by one measure. With *seeds* several trainings count as one system: 'nano = nano42, nano43, nano44'. With a
    *margin*, it is tested that no system is worse by more. *queries* is how many of the most changed queries are shown, or
    with *worst*, of those that lost most, with the documents that moved; or a file with the texts of queries.

    Systems may also be run files in any format, e.g. A.run.gz, or A.run#TAG for one of several runs in a file. They are scored
    by the judgements in *qrels*, or by those of the one dataset that is named; no corpus is needed. *claims* are checked:
    'B nDCG@10 0.412' finds the definitions that give the value, 'B > A nDCG@10' tests the difference and says how many queries
    would settle it.

    In Python, the first argument, or *results*, may be `Results`: then all of its systems are compared if fewer than two are
    named, and names are looked up there. The first argument may also be runs, a list or {name: run}; a run is a file, {query
    id: {document id: score}} or a data frame. *qrels* may be {query id: {document id: grade}}.
    """
    from lexbench.analysis.compare.comparison import compared
    from lexbench.analysis.compare.run_files import given_runs, given_systems
    from lexbench.analysis.slices import read_slices
    from lexbench.results import Results

    # Tell results, run files and names apart, and read what is in files.
    given = given_systems([one for one in systems if not isinstance(one, Results)])
    chosen, asked = _in_splits(datasets, split, columns), _measures([measures] if isinstance(measures, str) else measures)
    container = [one for one in systems[:1] if isinstance(one, Results)]
    names, settings = _compared((*container, *given), results, chosen, seeds=seeds, store=store, progress=progress)
    texts = None if isinstance(queries, int) else queries if isinstance(queries, Mapping) else Path(queries)
    return compared(
        names,
        **settings,
        measures=asked,
        margin=margin,
        queries=queries if isinstance(queries, int) else CHANGES,
        side="lost" if worst else "both",
        slices=read_slices(Path(slices)) if slices else None,
        runs=given_runs(given, chosen, qrels, asked, texts, claims=bool(claims)),
        claims=[claims] if isinstance(claims, str) else claims,
    ).comparison


def _compared(
    systems: "Sequence[str | Results]", results: Any, datasets: Sequence[str], *, seeds: Any, store: Any,
    progress: Progress | None,
) -> tuple[list[str], dict[str, Any]]:  # fmt: skip
    """Return the names of compared *systems*, and where their results are found, as settings of a comparison."""
    from lexbench.results import Results

    container = next((one for one in (*systems[:1], results) if isinstance(one, Results)), None)
    names = [one for one in systems if not isinstance(one, Results)]
    if container is not None and len(names) < 2 and not seeds:  # noqa: PLR2004 - a comparison takes two
        if unknown := [name for name in names if name not in container.systems]:
            raise UnknownName("system in these results:", unknown[0], container.systems)
        names += [name for name in container.systems if name not in names]
    place = container.session.store if container is not None and container.session.store and not store else None
    where: Any = _existing(results) if container is None and isinstance(results, str | Path) else container
    return names, {
        "store": place or _store(store, progress),
        "results": where,
        "datasets": datasets,
        "seeds": _groups(seeds),
    }


def report(
    *systems: "str | Results",
    results: "Results | str | Path | None" = None,
    datasets: Sequence[str] = (),
    split: str | None = None,
    measure: str | None = None,
    queries: int = 5,
    seeds: "Sequence[str] | Mapping[str, Sequence[str]]" = (),
    columns: "str | Mapping[str, str]" = "",
    markdown: "str | Path | None" = None,
    html: "str | Path | None" = None,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Report":
    """Answer on one page whether to change from one system to another.

    The first of *systems* is the one in use; they are named as for `lexbench compare`, and nothing is run. The report has the
    verdict in one sentence, all measures, latency and sizes, the share of judged documents, and as many *queries* that lose
    and gain most, with their texts and the documents that moved. *markdown* and *html* are files to write it to as well.

    In Python, the first argument, or *results*, may be `Results`, as for `lexbench.compare`.
    """
    from lexbench.analysis.compare.comparison import compared
    from lexbench.report.change import report_of
    from lexbench.storage import atomic

    chosen = _in_splits(datasets, split, columns)
    names, settings = _compared(systems, results, chosen, seeds=seeds, store=store, progress=progress)
    found = report_of(compared(names, **settings, measures=[measure] if measure else (), queries=0), queries)
    if markdown:
        atomic.write_text(Path(markdown), found.markdown)
    if html:
        atomic.write_text(Path(html), found.html)
    return found


def compare_lists(
    *systems: Any,
    dataset: str | None = None,
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    depths: Sequence[int] = LIST_DEPTHS,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "ListComparison":
    """Compare ranked lists with those of the first system: common documents, equal order, and rank-biased overlap (RBO).

    *systems* are run files, or systems that were run on *dataset*. It needs no judgements: systems with the same mean may
    find different documents.
    """
    from lexbench.analysis.list_similarity import list_similarities
    from lexbench.analysis.stored_results import named_runs
    from lexbench.datasets.location import find_dataset

    contract = find_dataset(_in_split(dataset, split, columns))[0] if dataset or split or columns else None
    runs = named_runs(systems, _store(store, progress), contract)
    return list_similarities(runs, depths, contract.id if contract else "")


def ranks(
    results: "Results", measure: str | None = None, *, datasets: Sequence[str] = (), weights: "Sequence[float] | None" = None
) -> "Ranks":
    """Return the ranks that paired tests leave possible, by the mean over *datasets* (default: all). See the board."""
    from lexbench.analysis.ranks import ranks as possible_ranks

    return possible_ranks(results, measure, datasets=datasets, weights=weights)


def gate(
    path: "str | Path" = GATE_FILE,
    *,
    markdown: "str | Path | None" = None,
    junit: "str | Path | None" = None,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "GateReport":
    """Test retrieval quality, size and speed against a committed baseline.

    Runs the gates in the file *path* (lexbench-gate.toml) and compares them with the baseline, which is in the same folder,
    with the ending .json. A gate fails if it is significantly worse by more than the margin, or over a limit; it cannot
    tell if it is worse by more than the margin, but has too few queries. *markdown* and *junit* are files to write the
    report to as well.
    """
    from lexbench.analysis.gate.gates import run_gates
    from lexbench.storage import atomic

    report = run_gates(Path(path), _store(store, progress), _progress(progress))
    if markdown:
        atomic.write_text(Path(markdown), report.markdown)
    if junit:
        atomic.write_bytes(Path(junit), report.junit)
    return report


def gate_init(
    dataset: str,
    system: str,
    *,
    measure: str = "nDCG@10",
    margin: float = 0.02,
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    name: str | None = None,
    path: "str | Path" = GATE_FILE,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Accepted":
    """Add a gate to lexbench-gate.toml and its baseline to lexbench-gate.json. Commit both.

    *dataset* has the queries and judgements, *system* is what is tested: an expression, or module:function.
    """
    from lexbench.analysis.gate.files import Gate
    from lexbench.analysis.gate.gates import init_gate

    place = _store(store, progress)
    called = name or Path(dataset.replace("/test", "")).name or "retrieval"
    made = Gate(
        name=called,
        dataset=_in_split(dataset, split),
        columns=dict(_columns(columns)),
        system=_defined(system, place),
        measure=measure,
        margin=margin,
    )
    return init_gate(Path(path), made, place, _progress(progress))


def gate_update(
    path: "str | Path" = GATE_FILE, *, store: "str | Path | None" = None, progress: Progress | None = None
) -> "Accepted":
    """Run the gates, accept their scores as the baseline, and return what changed."""
    from lexbench.analysis.gate.gates import update_gates

    return update_gates(Path(path), _store(store, progress), _progress(progress))


def explain(
    query: str,
    system: str,
    dataset: str | None = None,
    *,
    documents: Sequence[str] = (),
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    top: int = 3,
    terms: int = 15,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Explanation":
    """Show which terms of a query make a system's scores.

    *query* is a text, or the id of a query of the *dataset* (also as qid:ID). Shows the terms of the query and what each
    adds to the scores of the *documents* with these ids, or else of the best *top*; at most *terms* in a table.

    A term adds its weight in the query times its weight in the document. For bm25 that is the idf, counted as often as the
    query has the term, times the term frequency part. A missing index is built first.
    """
    from msgspec.structs import replace

    from lexbench.analysis.explain import explain as explain_query

    place = _store(store, progress)
    found = explain_query(
        query,
        _defined(system, place),
        _in_split(dataset, split, columns),
        documents,
        top,
        store=place,
        progress=_progress(progress),
    )
    return replace(found, most=terms)


def verify(
    name: "str | Results",
    systems: Sequence[str] = (),
    *,
    rescore: bool = False,
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    results: "str | Path | None" = None,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Verification | Rescoring":
    """Compare measured scores with published ones.

    The results on *name*, a suite, a dataset or a folder, which are in the store or in the folder *results*, are compared with
    published scores of the same system, dataset and measure. If a mean is off, its run is scored again under rules that others
    have used by mistake, to find the cause.

    With *rescore*, *name* is a folder of results. All of them are scored again, from the documents that they keep and the
    judgements on this machine, without running a system.

    In Python, *name* may also be `Results`.
    """
    from lexbench.analysis.stored_results import chosen_systems, results_of_suite
    from lexbench.analysis.verify.published import published_scores
    from lexbench.analysis.verify.rescoring import rescore as rescored
    from lexbench.analysis.verify.verdicts import verify as verify_results
    from lexbench.results import Results

    if rescore:
        if systems or results or not isinstance(name, str | Path):
            raise CommandError("rescore takes a folder of results alone: all results in it are scored again")
        return rescored(_existing(name))
    place = _store(store, progress)
    name = name if isinstance(name, Results) and not (split or columns) else _in_split(name, split, columns)
    found = name if isinstance(name, Results) else results_of_suite(name, place, _existing(results) if results else None)
    return verify_results(chosen_systems(_defined(systems, place), found), published_scores(), place)


def exposure(
    systems: Sequence[str] = (), texts: "Sequence[str | Path]" = (), datasets: Sequence[str] = (), split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
) -> "SeenInTraining":  # fmt: skip
    """Show which test data systems had seen in training.

    Shows what *systems* had seen of *datasets* (default: all) in training, and how much of a dataset is among the *texts*
    of folders. For a system, the names of the collections in its training data are compared with those of the datasets. A
    folder of training data has corpus.jsonl and maybe queries.jsonl, like a BEIR dataset; its texts are compared with those
    of the datasets.
    """
    from lexbench.analysis.seen_in_training import look_up

    if not texts and not systems:
        raise CommandError("give a SYSTEM with -r, a FOLDER of texts, or both")
    if texts and not datasets:
        raise CommandError("a FOLDER of texts is compared with datasets: give -d ID")
    return look_up(
        _defined(list(systems), _store(None, None)), [Path(folder) for folder in texts], _in_splits(datasets, split, columns)
    )


def audit(path: "str | Path | Results", measure: str | None = None) -> "Audit":
    """Say which ranks of a leaderboard can be told apart, and what is mixed or missing.

    *path* is a folder of lexbench's results, MTEB's results (MODEL/REVISION/TASK.json), runs with a qrels file (a folder per
    dataset if there are several), or a CSV table: a column per dataset, or columns system, dataset, score, and optionally
    measure and revision.

    In Python, *path* may also be `Results`.
    """
    from lexbench.analysis.audit import Audit
    from lexbench.analysis.audit import audit as audit_board
    from lexbench.interop.boards import boards_of, read_boards
    from lexbench.results import Results

    boards = boards_of(path, measure) if isinstance(path, Results) else read_boards(Path(path), measure)
    return Audit([table for board in boards for table in audit_board(board).tables()])


def audit_suite(
    small: str, *, large: str | None = None, path: "str | Path | None" = None, measure: str | None = None
) -> "Audit":
    """Say how well a small suite predicts the order of systems on a large one, from stored results.

    *small* and *large* are suites, or datasets separated by commas; *large* is by default all others that most systems have.
    *path* is where the results are, as for `audit`; default: the store.
    """
    from lexbench.analysis.audit import predict
    from lexbench.interop.boards import merged_board, suite_datasets

    return predict(merged_board(_path(path), measure), suite_datasets(small), suite_datasets(large) if large else ())


# ---- publish ---------------------------------------------------------------------------------------------------------------


def leaderboard(
    results: "str | Path | Results" = "leaderboard",
    *,
    merge: "Sequence[str] | Mapping[str, str | Path]" = (),
    published: 'Literal["none", "few", "all"] | None' = None,
) -> "Leaderboard":
    """Make the pages of a leaderboard from result files.

    *results* is a folder that `lexbench run suite NAME --results FOLDER` has made. The pages README.md, index.html and
    reproduce.sh are written there. index.html needs no network and no server: open it in a browser. reproduce.sh repeats the
    measurements. With *merge* the pages also show the results of others, "NAME=FOLDER", with who ran what where.

    In Python, *results* may also be `Results`; `save(folder)` writes the pages.
    """
    from lexbench.report.leaderboard import Leaderboard, people, read_results
    from lexbench.results import Results

    if isinstance(results, Results):
        return Leaderboard(results, None, published or "")
    return Leaderboard(read_results(Path(results), people(merge)), Path(results), published or "")


def export(
    format_name: str,
    folder: "str | Path",
    *,
    systems: Sequence[str] = (),
    datasets: Sequence[str] = (),
    split: str | None = None,
    results: "Results | str | Path | None" = None,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write runs, results and figures in other formats.

    Writes the runs and results of the store, or *results*, into *folder*, in the format *format_name*. Most formats have
    one file per system and dataset; the list of formats names the others. Returns the paths.
    """
    from lexbench.interop.conversion import export as export_results
    from lexbench.results import Results

    known = export_formats()
    if format_name not in known:
        raise UnknownName("format to export to", format_name, known)
    place, shown = _store(store, progress), _progress(progress)
    given = results if isinstance(results, Results) or results is None else _existing(results)
    chosen = _defined(list(systems), place)
    paths = export_results(
        format_name,
        place,
        Path(folder),
        systems=chosen,
        datasets=_in_splits(datasets, split),
        results=given,
        on_note=shown.note,
    )
    return list(paths)


def import_(format_name: str, source: "str | Path", target: "str | Path", *, progress: Progress | None = None) -> "Imported":
    """Read runs and judgements of other tools.

    Converts *source*, a file of the format *format_name*, to *target*. Runs become a TREC run file, for `lexbench score`
    and for the system `run_file(path="TARGET")`. Judgements become TREC qrels.
    """
    from lexbench.interop.conversion import import_file

    known = import_formats()
    if format_name not in known:
        raise UnknownName("format to import", format_name, known)
    return import_file(format_name, Path(source), Path(target), _progress(progress).note)


def export_formats() -> "Mapping[str, Format]":
    """Return the formats that results are exported to, by name."""
    from lexbench.interop.formats import exports

    return exports()


def import_formats() -> "Mapping[str, Format]":
    """Return the formats that are imported, by name."""
    from lexbench.interop.formats import imports

    return imports()


def store_list(*, store: "str | Path | None" = None, progress: Progress | None = None) -> "StoreList":
    """Return the artifacts of the store by dataset and system: their size, their age, and what uses them."""
    from lexbench.report.store import StoreList

    return StoreList.of_store(_store(store, progress))


def store_remove(
    names: Sequence[str] = (),
    *,
    unreachable: bool = False,
    dry_run: bool = False,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "StoreList":
    """Remove artifacts from the store, with what they keep on servers.

    A name is that of a dataset, of a corpus or of a system ('bm25'), as `store list` shows them, or the kind and key of one
    artifact ('runs/0123456789abcdef'). What uses a removed artifact is removed too. With *unreachable*, also remove what no
    result uses. A *dry_run* removes nothing, and returns what would go.
    """
    from lexbench.report.store import remove_artifacts

    return remove_artifacts(_store(store, progress), names, unreachable=unreachable, dry_run=dry_run)


def store_check(*, recompute: int = 0, store: "str | Path | None" = None, progress: Progress | None = None) -> "StoreCheck":
    """Read every byte of the store and list damaged artifacts.

    With *recompute*, so many results are also made again from the stored corpora and vectors, and compared. The digest
    of each corpus is computed again, and a few of its documents are encoded again.
    """
    from lexbench.report.store import check_store

    return check_store(_store(store, progress), recompute, _progress(progress))


def store_push(place: str, results: "str | Path", *, private: bool = False) -> list[str]:
    """Upload the results in a folder, and its pages, to a place. Returns the names of the files."""
    from lexbench.interop.sharing import push_results

    return push_results(Path(results), place, private=private)


def store_pull(place: str, results: "str | Path") -> list[str]:
    """Download the results at a place into a folder. Returns the names of the new files.

    Each file is checked; results in the folder that differ are never replaced.
    """
    from lexbench.interop.sharing import pull_results

    return pull_results(place, Path(results))


def store_root() -> Path:
    """Return the folder of the store: $LEXBENCH_STORE, or else the user's cache folder."""
    from lexbench.storage.store import default_root

    return default_root()


def keep_traceback(name: str, text: str) -> Path | None:
    """Save a traceback in the folder `logs` of the store. Returns its file, or None if it cannot be written."""
    from lexbench.storage.store import keep_traceback as keep

    return keep(name, text)


# ---- collections -----------------------------------------------------------------------------------------------------------


def suites() -> "Tables":
    """Return all suites."""
    from lexbench.report import listings

    return listings.suites()


def datasets() -> "Tables":
    """Return all datasets with a contract, and whether they are on this machine."""
    from lexbench.report import listings

    return listings.datasets()


def models() -> "Tables":
    """Return all models of the catalogue, and where their weights come from."""
    from lexbench.report import listings

    return listings.models()


def systems() -> "Tables":
    """Return what a system can be made of: retrievers, models that can be run, and encoders."""
    from lexbench.report import listings

    return listings.systems()


def measures() -> "Tables":
    """Return the measures that lexbench and plug-ins compute; those of ir_measures can be named as well."""
    return installed("measures")


def installed(kind: str) -> "Tables":
    """Return the plug-ins of one kind, e.g. engines, and which package each is from."""
    from lexbench.report import listings

    return listings.plugins(kind)


def listed_kinds() -> tuple[str, ...]:
    """Return what `lexbench list` lists; the kinds of plug-ins are arguments of `installed`."""
    return ("suites", "datasets", "models", "systems", *PACKAGES, "results")


def means(results: "Results", *, store: "str | Path | None" = None, progress: Progress | None = None) -> "Tables":
    """Return the newest mean of each system, dataset and measure of *results*."""
    from lexbench.report import listings

    return listings.means(results, results.session.store or _store(store, progress))


def suite(name: str) -> "Facts":
    """Return a suite by name, or from a TOML file."""
    from lexbench.display.answer import Facts
    from lexbench.suites import suite as suite_named

    return Facts(suite_named(name))


def dataset(name: Any, split: str | None = None, columns: "str | Mapping[str, str]" = "") -> "DatasetPage":
    """Return a dataset, by id or as a folder or data in memory: its contract, documents, queries and judgements."""
    from lexbench.report.dataset import DatasetPage

    return DatasetPage(name, split, _columns(columns))


def model(name: str) -> "Facts":
    """Return a model of the catalogue, or for a folder the system and the settings that its files state."""
    from lexbench.report import listings

    return listings.model(name)


def plugin(name: str) -> "Facts":
    """Return a plug-in by name, e.g. bm25 or impact: its kind, what it does, and its settings with their defaults."""
    from lexbench.report import listings

    return listings.plugin(name)


def what_is(name: str) -> str:
    """Return what *name* is, the first of "suite", "dataset", "model", "plugin" and "result". Raises UnknownName."""
    from lexbench.report import listings

    return listings.what_is(name, _store(None, None))


def machine() -> "Facts":
    """Return this machine: what decides speeds, and the versions of packages."""
    from lexbench.report import listings

    return listings.this_machine()


def probe(
    target: str,
    *,
    knob: "str | Sequence[str]" = (),
    k: int = 10,
    sample: int = 200,
    queries: "str | Path | None" = None,
    vectors: "str | Path | None" = None,
    ids: "str | Path | None" = None,
    similarity: str | None = None,
    filter: "str | Sequence[str]" = (),  # noqa: A002 - the option's name
    selectivity: Sequence[float] = (),
    passing: "Sequence[str | Path]" = (),
    load: float = 0.0,
    seconds: float = 10.0,
    goal: float = 0.95,
    progress: Progress | None = None,
) -> "Probe":
    """Compare the answers of an index with exact search over the same vectors, for each setting and filter.

    *target* is an address or a command. *knob* has texts like "ef_search=40,200"; all combinations are measured. *queries* and
    *vectors* are files; by default queries are a *sample* of the documents, and the server gives the vectors. *filter* is in
    the language of the server; {} in it is filled in so that about the shares *selectivity* of the documents pass. *passing*
    has a file of ids for each filter, if the server does not list them. *load* is in queries per second, 0 for a quarter of
    what the slowest setting answers alone; it lasts *seconds* per setting and filter. *goal* is the wanted recall.
    """
    from lexbench.probing.probe import probe as probe_index

    return probe_index(
        target,
        knob=knob,
        k=k,
        sample=sample,
        queries=queries,
        vectors=vectors,
        ids=ids,
        similarity=similarity,
        filter=filter,
        selectivity=selectivity,
        passing=passing,
        load=load,
        seconds=seconds,
        goal=goal,
        progress=_progress(progress).note,
    )


def collect(
    documents: "str | Path",
    *,
    output: "str | Path | None" = None,
    columns: "str | Mapping[str, str]" = "",
    queries: "str | Path | None" = None,
    count: int | None = None,
    writer: str | None = None,
    writer_model: str = "",
    key: str = "",
    systems: Sequence[str] = (),
    depth: int = 10,
    judge: str | None = None,
    by: str = "",
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Collected":
    """Make a test collection from your own documents.

    *documents* are a corpus file, or a folder of .txt, .md, .rst and .html files. Queries come from a file, from a model,
    or from titles, headings, questions and key words of the documents. All *systems* search, and the first documents of
    each are judged, by a person (`lexbench judge page`) or by a model. The same command continues where it was interrupted,
    and writes the judgements so far.
    """
    from lexbench.collecting.collect import collect as collect_documents
    from lexbench.collecting.made_queries import Writer
    from lexbench.runner import judging

    place, path = _store(store, progress), Path(documents)
    return collect_documents(
        path,
        Path(output) if output else Path(f"{path.resolve().name.partition('.')[0]}-collection"),
        columns=_columns(columns),
        queries=_path(queries),
        count=count,
        writer=Writer(writer, key=key, model=writer_model) if writer else None,
        systems=_defined(list(systems), place),
        depth=depth,
        judge=judging.judge(judge) if judge else None,
        by=by,
        store=place,
        progress=_progress(progress),
    )


def judge(
    systems: Sequence[Any],
    dataset: str,
    judge: str,
    output: "str | Path",
    *,
    depth: int = 10,
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    unjudged: bool = False,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "Judgements":
    """Let a language model grade the first documents of systems and run files, and show how far it agrees with people.

    Its judgements are never mixed with official ones: every line of the qrels file *output* has the judge's stamp, and
    FILE.stamp.json describes the judge. Answers are saved as they come, so the same command continues where it was
    interrupted.
    """
    from lexbench.analysis.judgements import Judgements
    from lexbench.analysis.stored_results import named_runs
    from lexbench.artifacts.corpora import DatasetCorpus
    from lexbench.artifacts.graph import Graph
    from lexbench.datasets.dataset import open_dataset
    from lexbench.datasets.location import find_dataset
    from lexbench.runner import judging

    model, place = judging.judge(judge), _store(store, progress)
    opened = open_dataset(*find_dataset(_in_split(dataset, split, columns)))
    runs = named_runs(systems, place, opened.contract)
    known = {row[:2] for row in opened.topics.judgements} if unjudged else ()
    wanted = judging.documents_to_judge(runs, opened.qrels.query_ids, depth, known)
    with Graph(place, _progress(progress)) as graph:
        corpus = graph.open(DatasetCorpus(opened))
    settings: Any = {"lists": list(runs), "depth": depth, "progress": _progress(progress)}
    made = judging.judge_documents(model, wanted, opened, corpus, Path(output), **settings)
    return Judgements(judging=made, path=str(output))


def judge_pool(
    systems: Sequence[Any],
    dataset: str | None = None,
    *,
    qrels: "str | Path | None" = None,
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    measure: str = "nDCG@10",
    contributors: Sequence[str] = (),
    depth: int | None = None,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "PoolTest":
    """Score systems again without the judgements that only one contributor to the pool brought, for each contributor in turn.

    This shows how unfair the judgements are to a new system whose results nobody judged. Contributors are those that the
    dataset names among *systems*, otherwise all of them.
    """
    from lexbench.analysis.judgements import test_pool

    return test_pool(
        systems, _in_split(dataset, split, columns), _path(qrels), measure, contributors, depth, _store(store, progress)
    )


def judge_page(folder: "str | Path", *, name: str = "judge-1", port: int = 0) -> "JudgingPage":
    """Serve a page on this machine to judge the pool of a collection of `lexbench collect`. Ctrl-C ends it.

    Every grade is stored at once, so the page and the command can end at any time, and the same command continues. At the
    end the judgements become the qrels of the collection.
    """
    from lexbench.collecting.page import JudgingPage

    return JudgingPage(Path(folder), name, port)


# ---- machine ---------------------------------------------------------------------------------------------------------------


def doctor() -> "Health":
    """Show what is installed, what is missing, and what to type."""
    from lexbench.storage.health import health

    return health()


def speed(
    model: str,
    *,
    dtypes: Sequence[str] = (),
    devices: Sequence[str] = (),
    threads: Sequence[int] = (),
    batch: Sequence[int] = (),
    dataset: str = "pydoc/test",
    split: str | None = None,
    columns: "str | Mapping[str, str]" = "",
    sample: int = 256,
    documents: int = 1_000_000,
    price: float | None = None,
    others: "str | Sequence[str]" = "",
    scores: bool = True,
    store: "str | Path | None" = None,
    progress: Progress | None = None,
) -> "EncoderSpeed":
    """Measure how fast an encoder is on this machine, and what a faster dtype costs in effectiveness.

    Times the encoder *model* (lexmae_nano, 'minilm(model="FOLDER")', ./FOLDER) for each dtype, number of threads and batch.
    Each row has a fresh process. The machine should do nothing else.
    """
    from lexbench.analysis.encoder_speed import encoder_speed

    place = _store(store, progress)
    named = [name.strip() for name in others.split(",")] if isinstance(others, str) and others else list(others)
    return encoder_speed(
        _defined(model, place),
        dtypes=dtypes,
        devices=devices,
        threads=threads,
        batch=batch,
        dataset=_in_split(dataset, split, columns),
        sample=sample,
        documents=documents,
        price=price,
        runtimes=named,
        scores=scores,
        store=place,
        on_note=_progress(progress).note,
    )
