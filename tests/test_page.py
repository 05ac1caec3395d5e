"""The leaderboard page in a browser."""

import base64
import hashlib
import json
import re
from pathlib import Path

import msgspec
import pytest
import samples

from lexbench.report.leaderboard import copies
from lexbench.report.leaderboard.page import html
from lexbench.report.leaderboard.sections import board
from lexbench.results import Counts, Entry, Note, Results

pytestmark = pytest.mark.usefixtures("open_contracts")

CHROMIUM = [Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium")]
MINUS = "\N{MINUS SIGN}"
QUERIES = [f"q{number}" for number in range(40)]
HOSTILE = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"


def timing(qps, fingerprint="aaaa", **more):
    """Make a timing on a machine with a name."""
    return samples.timing(qps, fingerprint=fingerprint, machine={"processor": "CPU", "system": "Linux"}, **more)


def result(system, level, dataset="beir/scifact/test", index=4000, **more):
    """Make a result whose queries score about *level*, each a little differently."""
    scores = [min(1.0, max(0.0, level + ((number * 7) % 11 - 5) / 50)) for number in range(len(QUERIES))]
    mean = sum(scores) / len(scores)
    return samples.result(
        system, scores, dataset, 10, means={"nDCG@10": mean, "RR(rel=2)@10": mean / 2}, query_ids=QUERIES,
        sizes={"index": index}, digests={"qrels": "abc"}, **more,
    )  # fmt: skip


BM25 = {"plugin": "retrievers/bm25", "settings": {}}
# On the frontier of speed: a (best), c (fastest); b is slower and worse than a, "noisy" would be fastest and does not count.
SPEEDS = [
    result("a", 0.8, timings=[timing(100, qps_range={"e2e": (90, 110)})], index=8000),
    result("b", 0.5, timings=[timing(50)], index=9000),
    result("c", 0.4, timings=[timing(900)], index=1000, recipe=BM25),
    result("noisy", 0.45, timings=[timing(5000, flags=["noisy"])], index=9500),
    result("oracle", 0.9, timings=[timing(9000)], index=500, bound=True),
    result("elsewhere", 0.3, timings=[timing(70, fingerprint="bbbb")], index=9900),
    result("elsewhere too", 0.35, timings=[timing(60, fingerprint="bbbb")], index=9900),
]


def board_of(results):
    """Make the board of *results* on one suite."""
    return board(Results(Entry(one, "beir") for one in results))


@pytest.fixture(scope="module")
def browser():
    """Start headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with playwright.sync_playwright() as started:
        executable = next((path for path in (*CHROMIUM, Path(started.chromium.executable_path)) if path.is_file()), None)
        if executable is None:
            pytest.skip(f"no {CHROMIUM[0]}: apt install chromium-headless-shell, or: playwright install chromium")
        chromium = started.chromium.launch(executable_path=str(executable), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def show(browser, tmp_path):
    """Return a function that opens a board, or the text of a page, without network; fail on any console error or request."""
    complaints, requests, contexts = [], [], []

    def opened(made, **settings):
        path = tmp_path / "index.html"
        path.write_text(made if isinstance(made, str) else html(made), encoding="utf-8")
        context = browser.new_context(offline=True, **settings)
        context.set_default_timeout(5000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        if settings.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert {request.rpartition("/")[2] for request in requests} == {"index.html"}


def systems(page, table="table.scores"):
    """Return the names of the rows of a table, from top to bottom."""
    return page.locator(f"{table} tbody th code").all_inner_texts()


@pytest.fixture(scope="module")
def speeds():
    """Make the board of timed systems."""
    return board_of(SPEEDS)


def test_the_policy_names_exactly_the_script_and_the_style(speeds):
    """The page allows only its script and its style, by their SHA-256, and has no address to load from."""
    text = html(speeds)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]

    assert policy.startswith("default-src 'none'; ")
    for kind in ("script", "style"):
        (part,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"""(src|href)=["'](?!#)""", text)


def test_the_table_sorts_by_its_headings(show, speeds):
    """A click on a heading sorts, a second one reverses, and aria-sort says which; missing values come last."""
    page = show(speeds, viewport={"width": 1400, "height": 900})
    assert systems(page) == ["a", "b", "noisy", "c", "elsewhere too", "elsewhere", "oracle"]

    page.get_by_role("button", name="nDCG@10").click()
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    assert systems(page)[:2] == ["oracle", "a"]
    page.keyboard.press("Enter")  # the heading still has the focus
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert systems(page)[0] == "elsewhere"

    page.get_by_role("button", name="system").click()
    assert systems(page) == sorted(systems(page))
    page.get_by_role("button", name="QPS").click()
    assert systems(page)[:2] == ["oracle", "noisy"]
    assert set(systems(page)[-2:]) == {"elsewhere", "elsewhere too"}  # timed on another machine


def test_the_table_filters(show, speeds):
    """Text and family filter the rows, and the number of remaining rows is shown; published scores are a table of their own."""
    page = show(speeds)
    page.fill("#find", "ELSE")
    assert systems(page) == ["elsewhere too", "elsewhere"]
    assert page.locator("#shown").inner_text() == "2 rows"
    page.fill("#find", "")
    page.select_option("#family", "bm25")
    assert systems(page) == ["c"]
    page.fill("#find", "nothing is called so")
    assert page.locator("table.scores tbody").inner_text() == "no system matches the filter"

    assert page.locator("table.scores").count() == 1
    page.check("#published")
    assert page.locator("tr.published .tag").first.inner_text() == "not measured here"
    assert "splade_v3 (anserini prebuilt)" in systems(page)


def test_best_and_second_are_of_the_rows_that_are_shown(show, speeds):
    """The best is bold and the second underlined, although an upper bound scores more; of other rows, others are."""
    page = show(speeds)

    def marked(tag):
        return page.locator("table.scores tbody tr", has=page.locator(f"td {tag}")).locator("th code").all_inner_texts()

    assert (marked("strong"), marked("u")) == (["a"], ["b"])
    assert page.locator("tr.unranked .tag").inner_text() == "upper bound, not ranked"
    page.fill("#find", "else")
    assert (marked("strong"), marked("u")) == (["elsewhere too"], ["elsewhere"])


def test_narrow_windows_hide_columns_instead_of_cutting_them(show, speeds):
    """At 420 pixels the headline and QPS are there, no table is cut off, and a button shows the other columns."""
    page = show(speeds, viewport={"width": 420, "height": 900})
    heads = page.locator("table.scores thead th:visible")
    assert [text.split()[0] for text in heads.all_inner_texts()][:3] == ["system", "rank", "nDCG@10"]
    assert page.evaluate("document.querySelector('.scroll').scrollWidth <= document.querySelector('.scroll').clientWidth")
    hidden = heads.count()
    page.click("button.more:visible")
    assert heads.count() > hidden
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_variants_are_folded_under_their_system(show):
    """Systems that keep fewer terms are hidden until the button of their system is pressed; a line joins their points."""
    sizes = {"x|top_k(8)@impact": (8, 100, 0.3), "x@impact": (0, 900, 0.6), "x|top_k(64)@impact": (64, 500, 0.5)}
    count = Counts(queries=len(QUERIES), documents=10)
    made = [
        result(name, level, recipe=samples.encoded(k), index=size, counts=count) for name, (k, size, level) in sizes.items()
    ]
    page = show(board_of([*made, result("bm25", 0.4, recipe=BM25)]))
    main = page.locator("table.scores").first.locator("tbody th code")
    assert main.all_inner_texts() == ["x@impact", "bm25"]
    page.click("button.fold")
    assert main.all_inner_texts() == ["x@impact", "x|top_k(64)@impact", "x|top_k(8)@impact", "bm25"]
    assert page.locator("path.family-line").count() == 1
    assert set(page.locator("#trade-off .point-label").all_text_contents()) == {"top 8", "top 64", "x@impact", "bm25"}
    assert page.locator("table.scores").nth(1).locator("thead th").all_inner_texts() == ["system", "8", "64", "all"]


def test_hostile_names_stay_text(show):
    """Markup in names, notes and query ids is shown literally: it makes no element and runs no script."""
    bad = msgspec.structs.replace(result(HOSTILE, 0.7, notes=[Note("model", HOSTILE)]), query_ids=[HOSTILE, *QUERIES[1:]])
    page = show(board_of([bad, msgspec.structs.replace(result("b", 0.5), query_ids=bad.query_ids)]))

    assert systems(page)[0] == HOSTILE
    assert page.title() == "lexbench leaderboard"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    page.locator("#sources summary").first.click()
    assert HOSTILE in page.locator("#sources li").all_inner_texts()[0]


def test_the_frontier_joins_systems_that_no_other_beats(show, speeds):
    """Points of the frontier are joined by steps, dominated ones pale, noisy timings and upper bounds hollow."""
    page = show(speeds)
    plots = page.locator("#trade-off figure")
    assert plots.locator("figcaption").all_inner_texts()[1:] == ["Speed on CPU, Linux (aaaa)", "Speed on CPU, Linux (bbbb)"]

    def named(plot, kind):
        labels = plots.nth(plot).locator(f".point.{kind}").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
        return {label.partition(":")[0] for label in labels}

    assert (named(0, "frontier"), named(0, "aside")) == ({"a", "c"}, {"oracle"})
    assert (named(1, "frontier"), named(1, "dominated"), named(1, "aside")) == ({"a", "c"}, {"b"}, {"noisy", "oracle"})
    assert named(2, "frontier") == {"elsewhere", "elsewhere too"}
    assert plots.nth(1).locator("line.whisker").count() == 4 + 1  # an interval each but the oracle's; the rates of a
    assert set(plots.nth(1).locator(".point-label").all_text_contents()) >= {"a", "b", "c"}
    assert page.locator("#trade-off .legend span").all_inner_texts() == ["bm25", "other"]
    path = plots.nth(1).locator("path.frontier-line").get_attribute("d")
    assert re.fullmatch(r"M[\d.]+ [\d.]+V[\d.]+H[\d.]+", path)


def test_the_best_published_of_each_family_are_levels(show, speeds):
    """A tick shows the best published score of each family as a dashed line with its name; the address has the tick."""
    page = show(speeds)
    labels = page.locator("#trade-off figure").nth(1).locator(".level-label")
    assert labels.count() == 0
    page.check("#anchors")
    told = labels.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert "splade_v3 (anserini prebuilt): nDCG@10 0.7140, published, not measured here" in told
    assert "splade_v3" in labels.all_text_contents()
    assert len(told) == len(speeds.suites[0].datasets[0].plots[0].levels) <= 10
    assert "anchors=true" in page.url


def test_recall_of_exact_is_plotted_over_speed(speeds):
    """If an engine is approximate, a plot shows its recall and that of exact engines, which is 1, without published levels."""
    rough = [
        result(
            f"rough {number}", 0.5, timings=[msgspec.structs.replace(timing(qps), exact=False)], found={"10": share, "100": 0.1}
        )
        for number, (qps, share) in enumerate([(400, 0.8), (300, 0.7), (200, 0.95)])
    ]
    panel = board_of([SPEEDS[0], *rough]).suites[0].datasets[0]
    plot = panel.plots[-1]

    assert (plot.title, plot.y) == ("Approximate search on CPU, Linux (aaaa)", "recall of exact @10")
    assert sorted((p.x, p.y, p.frontier) for p in plot.points) == [
        (100, 1.0, True), (200, 0.95, True), (300, 0.7, False), (400, 0.8, True),
    ]  # fmt: skip
    assert [bool(one.levels) for one in panel.plots] == [one.y == "nDCG@10" for one in panel.plots] == [True, True, False]
    assert [one.title for one in speeds.suites[0].datasets[0].plots if one.title.startswith("Approximate")] == []


def test_the_heat_map_shows_differences_to_the_chosen_baseline(show):
    """Each cell is the system's mean minus the baseline's, significant ones have a dot, and the baseline can be changed."""
    page = show(board_of([result("a", 0.8), result("b", 0.5), result("b", 0.4, "beir/nfcorpus/test")]))
    page.select_option("#baseline", "b")
    cells = dict(zip(systems(page, "table.heat"), page.locator("table.heat tbody tr").all_inner_texts(), strict=True))

    assert cells["a"].split("\t")[1:] == ["—", "+0.3000 •"]
    assert page.locator("table.heat td.better").count() == 1
    page.select_option("#baseline", "a")
    assert f"{MINUS}0.3000" in page.locator("table.heat tbody").inner_text()


def test_two_systems_are_compared_query_by_query(show):
    """Two chosen systems have their difference, its interval and p, wins, ties and losses, and the queries."""
    other = msgspec.structs.replace(
        result("b", 0.5), per_query={"nDCG@10": [0.9, 0.1, *result("a", 0.5).per_query["nDCG@10"][2:]]}
    )
    page = show(board_of([result("a", 0.5), other]))
    page.select_option("#pair-a", label="a")
    page.select_option("#pair-b", label="b")
    shown = page.locator("#pair-shown")

    assert "1 · 38 · 1" in shown.inner_text()
    # a has .40 on the first query, where b has .90; on the second a has .54 and b .10
    assert shown.locator("tbody tr").all_inner_texts() == [
        "q1\t0.5400\t0.1000\t+0.4400",
        "q0\t0.4000\t0.9000\t" + MINUS + "0.5000",
    ]
    assert shown.locator("rect.bar").count() == 2


def test_the_keyboard_reaches_every_cell_and_its_note(show):
    """A table is one stop of the Tab key, arrow keys move between cells, and the focused cell shows its note."""
    page = show(board_of([SPEEDS[1], SPEEDS[0]]), viewport={"width": 1400, "height": 900})
    page.locator("table.scores td[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowUp", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator("#tip").inner_text() == "90 to 110 over 1 fresh processes"
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_without_javascript_there_are_tables(show, speeds):
    """A browser without JavaScript shows the main table of each suite."""
    page = show(speeds, java_script_enabled=False)
    text = page.locator("body").inner_text()

    assert "With JavaScript, these tables" in text
    assert "0.8010" in text
    assert page.locator("main").is_hidden()


def test_print_shows_the_whole_on_white(show, speeds):
    """Dark mode is dark, but in print the background is white, there are no controls, and provenance is unfolded."""
    page = show(speeds, color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 27)"
    page.pdf()
    page.emulate_media(media="print", color_scheme="dark")

    assert page.locator("#controls").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("details:not([open])").count() == 0


def test_the_committed_page_is_small(show):
    """Our own page, which `make lint` makes again, opens without an error, and has the query texts of pydoc alone.

    It is below a megabyte, and the table beside it below ten kilobytes.
    """
    folder = Path(__file__).parent.parent / "leaderboard"
    text = (folder / "index.html").read_text(encoding="utf-8")
    suites = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])["suites"]
    datasets = [one for suite in suites for one in suite["datasets"]]

    assert len(text.encode()) < 1_000_000
    assert (folder / "README.md").stat().st_size < 10_000
    assert show(text).locator("table.scores").count() == sum(1 + bool(suite.get("top_k")) for suite in suites)
    assert len(datasets) > 1
    assert {one["id"] for one in datasets if "texts" in one} == {"pydoc/test"}


@pytest.mark.parametrize("published", [False, True])
def test_the_page_and_the_command_copy_the_same_text(show, published):
    """Each button copies the text that `lexbench leaderboard --copy` prints, for the main table and for one dataset."""
    made = board_of(
        [
            result("a_b", 0.8, expression="bm25(k1=0.8)", timings=[timing(326, flags=["noisy"])]),
            result("c", 0.4),
            result("a_b", 0.7, "beir/nq"),
            result("c", 0.6, "beir/nq"),
        ]
    )
    page = show(made)
    page.set_checked("#published", published)
    (section,) = made.suites
    shown = msgspec.structs.replace(made, suites=(section if published else msgspec.structs.replace(section, published=None),))
    for view, dataset in (("main", ""), ("0", section.datasets[0].id)):
        page.select_option(f"#view-{section.id}", view)
        for name, form in {"Markdown": "markdown", "LaTeX": "latex", "CSV": "csv"}.items():
            page.click(f".copies button:text-is('{name}')")
            assert page.input_value(".copies textarea") == copies.FORMATS[form](copies.view(shown, section.id, dataset))


def test_a_link_shows_the_view_again(show):
    """The address has the view, the order, the filters and the chosen systems; opened again it shows the same table."""
    made = board_of([result("a", 0.8), result("b", 0.6), result("c", 0.4), result("a", 0.5, "beir/nq")])
    page = show(made)
    assert "#" not in page.url
    page.select_option("#view-beir", "1")
    page.click("#suite-beir thead button:has-text('RR@10')")
    page.fill("#find", "b")
    page.check("#published")
    page.select_option("#baseline", "c")
    address = page.url
    assert set(address.split("#?")[1].split("&")) == {
        "find=b", "published=true", "view-beir=1", "baseline=c", "sort-beir=-RR%4010",
    }  # fmt: skip
    before = page.inner_text("#suite-beir")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    assert page.inner_text("#suite-beir") == before
    assert (page.input_value("#baseline"), page.is_checked("#published")) == ("c", True)
    page.evaluate("location.hash = '#?view-beir=99&find=zzz'")  # of another board: what is not here is left as it begins
    page.wait_for_function("document.querySelector('#find').value === 'zzz'")
    assert page.input_value("#view-beir") == "main"


def test_a_name_shows_its_expression_at_a_click(show):
    """A click on the name of a system shows the expression behind it."""
    page = show(board_of([result("short", 0.8, expression="bm25(k1=0.8)"), result("b", 0.6)]))
    assert not page.is_visible("text=bm25(k1=0.8)")
    page.click("summary:text-is('short')")
    assert page.inner_text("details.named code") == "bm25(k1=0.8)"
