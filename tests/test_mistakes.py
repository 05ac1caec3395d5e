"""Mistakes that users make. Each gets one line with the fault and the command to type, and no answer."""

import shlex
from importlib.util import find_spec

import fruit
import msgspec
import pytest
import samples
from tiny import run

HUB = find_spec("huggingface_hub") is not None
OWN = {"dataset": "own", "contract": "own@0"}
RESULTS = {
    "a": samples.result("a", digests={"corpus": "e" * 64}, **OWN),
    "b": samples.result("b", digests={"corpus": "e" * 64}, **OWN),
    "elsewhere": samples.result("c", dataset="other", contract="other@0"),
    "corpus": samples.result("b", digests={"corpus": "f" * 64}, **OWN),
    "queries": samples.result("b", query_ids=["x", "y"], digests={"corpus": "e" * 64}, **OWN),
    "measure": samples.result("b", means={"RR@10": 0.0}, per_query={"RR@10": [0.0, 0.0]}, **OWN),
    "later": samples.result("b", dataset="pydoc/test", contract="pydoc/test@2"),
}
FILES = {  # into folders that are otherwise right
    "several/qrels/one.tsv": "query-id\tcorpus-id\tscore\nqa\ta3\t1\n",
    "several/qrels/two.tsv": "query-id\tcorpus-id\tscore\nqa\ta3\t1\n",
}
GATE = 'schema = 1\n[[gate]]\nname = "a"\ndataset = "b"\nsystem = "bm25"\n'
REMOVED = ("several/qrels/test.tsv",)
LONE = {
    "bad.run": "qa Q0 a3 1 x y\n",
    "nan.run": "qa Q0 a3 1 nan t\n",
    "good.run": "qa Q0 a3 1 2.0 t\n",
    "packed.zip": "PK\x03\x04",
    "packed.tar": "\0" * 257 + "ustar",
    "x.safetensors": "",
    "foreign.run": "zz Q0 nope 1 2.0 t\n",
    "empty.run": "",
    "result.json": "{}",
    **{f"{name}.json": msgspec.json.encode(result).decode() for name, result in RESULTS.items()},
    "stray/results/pydoc/b.json": msgspec.json.encode(
        {"suite": "pydoc", "system": "b", "results": [samples.result("b", **OWN)]}
    ).decode(),
    "deep.json": '{"system": "a", "dataset": "b", "contract": "c", "depth": "ten"}',
    "board/words.csv": "a,b\n1,x\n",
    "board/high.csv": "system,dataset,score\na,b,high\n",
    "board/one.csv": "model,A\none,1\n",
    "mteb/m/r/T.json": "{}",
    "ones.py": "def ones(texts):\n    return [[1.0] for _ in texts]\n",
    "none.slices": "",
    "narrow.slices": "q1\n",
    "twice.slices": "q1 a\nq1 a\n",
    "other.slices": "q9 a\n",
    "zstd.run": "\x28\xb5\x2f\xfd" + "\0" * 90,
    "zip.run": "PK\x03\x04" + "\0" * 90,
    "returns.run": "qa Q0 a 1 9 x\rqf Q0 b 1 9 x\r",
    "dense.jsonl": '{"docid": "a3", "vector": [1.0]}\n',
    "text/m/r/T.txt": "",
    "lone.toml": GATE + 'reference = "bm25"\n',
    "unmeasured.toml": GATE + "min_qps_ratio = 0.8\n",
    "loose.toml": GATE + "margin = 2\n",
    "misspelt.toml": GATE + "margn = 0.1\n",
    "twice.toml": GATE + GATE.partition("\n")[2],
}
CANNOT_BE = {  # exit code 2
    # the command
    "comapre a b": "No such command 'comapre'; type: lexbench compare a b",
    "run suite pydoc --depth 0": "0 is not in the range",
    "run suite pydoc --time-k 10": "need --time",
    "run suite pydoc --time --time-single --time-threads 2": "which --time-single leaves out",
    "run suite pydoc --on 'processes(-1)'": "above 0",
    "list suites --results good": "list suites without it",
    "export tre out": "'tre' is not one of",
    # systems
    "run suite pydoc -r ''": "a system is empty; write e.g. -r bm25",
    "run suite pydoc -r ./nothing": "no file or folder ./nothing",
    "run suite pydoc -r own.py:search": "is Python; type -r own:search in its folder, or as a program: -r 'command(",
    "run suite pydoc -r 'python own.py'": """or as a program: -r 'command("python own.py")'""",
    "run suite pydoc -r http://localhost:9/x": 'write: url("http://localhost:9/x")',
    "run suite pydoc -r good": "good: no config.json, so this is no model; give the folder that save_pretrained wrote, or",
    "run suite pydoc -r packed.zip": "packed.zip is packed; type: unzip packed.zip; then give the run file, or the folder of",
    "run suite pydoc -r packed.tar": "packed.tar is packed; type: tar -xf packed.tar; then give",
    "run suite pydoc -r x.safetensors": "x.safetensors is a file of a model; give the folder that it is in",
    "run suite pydoc -r bm25,lexmae_nano": "is 2 systems; give each its own -r: -r bm25 -r lexmae_nano",
    "run suite pydoc -r bm25 lexmae_nano": "type: lexbench run suite pydoc -r bm25 -r lexmae_nano",
    "run suite pydoc -r 'bm25(k1=\"1.2\")'": "write it without quotes: bm25(k1=1.2)",
    "run suite pydoc -r 'bm25(k1=1.2'": "'(' was never closed",
    "run suite pydoc -r 'bm25(k1=-1)'": "k1 is a number from 0 up",
    'run suite pydoc -r \'bm25(expansions="good.run", term_weights="good.run")\'': "term weights replace the texts",
    'run suite pydoc -r \'vectors("x", "y", format="anserine")@csr\'': "there is anserini, anserini-topics",
    'run suite pydoc -r \'vectors("good.run", "good.run")@sharded(csr, shards=0)\'': "each is 1 or more",
    "run good -r 'a = bm25' -r 'a = bm25(k1=2.0)'": "two systems are called 'a': bm25 and bm25(k1=2.0); name one: -r 'other",
    "run suite pydoc -r bm25(k1=True)": "takes float, not True",
    "run suite pydoc -r 'bm25(1, 2, 3, 4, 5, 6, 7, 8)'": "8 given",
    "run suite pydoc -r 'bm25(1.2, k1=0.9)'": "k1 is given twice",
    "run suite pydoc -r run_file": "needs path",
    'run suite pydoc -r \'run_file(path="good.run", scores="half")\'': "run_file(scores='half') is unknown",
    "run suite pydoc -r 'two = lexmae_nano|top_k([8, 4])'": "'two' would be the name of 2 systems, e.g. lexmae_nano|top_k(8)",
    "run suite pydoc -r ' = bm25'": "write 1 to 100 printable characters",
    "run suite pydoc -r 'bm25|top_k(3)'": "bm25 is no encoder",
    "run suite pydoc -r 'rerank(bm25)'": 'e.g. rerank(bm25, cross_encoder(model="FOLDER"), k=100)',
    "run suite pydoc -r 'rerank(bm25, bm25, RERANKER)'": "takes a retriever and a reranker",
    'run suite pydoc -r \'rerank(bm25, cross_encoder("x", titles="pair"))\'': "there is off, string",
    'run suite pydoc -r \'rerank(bm25, cross_encoder("x", device="tpu"))\'': "there is auto, cpu, cuda, cuda:0, mps",
    'run suite pydoc -r \'dense("x", dtype="int4")@flat\'': "there is float32, bfloat16, float16, int8",
    'run suite pydoc -r \'sparse_mlm("x", document_length="9")@impact\'': "takes int, not '9'; write it without quotes",
    "run suite pydoc -r 'rerank(bm25, bm25(k1=2.0))'": "write pipeline(bm25, bm25(k1=2.0), weights=[0, 1])",
    "run suite pydoc -r 'rerank(bm25, lexmae_nano)'": "is no reranker (cross_encoder, endpoint_reranker); to let it score",
    "run suite pydoc -r 'rerank(RERANKER, RERANKER)'": "is a reranker; write rerank(bm25, endpoint_reranker",
    "run suite pydoc -r 'rerank(bm25, RERANKER@flat)'": "a reranker has no vectors",
    "run suite pydoc -r 'rerank(bm25, RERANKER, k=0)'": "rerank(k=0): a whole number from 1",
    "run suite pydoc -r 'rerank(run_file(path=\"x\"), RERANKER)'": "RunFile has no index to search",
    "run suite pydoc -r 'rerank(ensemble(bm25, bm25, depth=50), RERANKER)'": "is asked for 100 documents per query",
    "run suite pydoc -r 'pipeline(bm25, rerank(bm25, RERANKER))'": "Rerank cannot score documents that others found",
    "run suite pydoc -r 'ensemble(bm25)'": "takes two retrievers or more, e.g. ensemble(bm25, bm25(k1=2.0))",
    "run suite pydoc -r 'ensemble(bm25, bm25(b=0.1), weights=[1])'": "takes as many weights; 1 given",
    "run suite pydoc -r 'ensemble(bm25, bm25(b=0.1), depth=50)'": "ensemble(depth=50) is asked for 1000 documents per query",
    "run suite pydoc -r 'pipeline(bm25, bm25, k=0)'": "pipeline(k=0): a whole number from 1",
    "run suite pydoc -r 'pipeline(bm25, bm25, k=\"a\")'": "takes int, not 'a'",
    "run suite pydoc -r 'pipeline(run_file(path=\"x\"), bm25)'": "RunFile has no index to search",
    "run suite pydoc -r passages(bm25)": "takes one of tokens=…, words=… and sentences=…, e.g. passages(bm25, words=150); none",
    "run suite pydoc -r 'passages(bm25, words=5, sentences=2)'": "words and sentences are given",
    "run suite pydoc -r 'passages(bm25, words=1)'": "passages(words=1): a whole number from 2",
    "run suite pydoc -r 'passages(bm25, words=5, stride=6)'": "give at most 5, or text between passages is left out; 0 is 5",
    "run suite pydoc -r 'passages(bm25, words=5, score=\"mean\")'": "passages(score='mean'): there is max, first, sum",
    "run suite pydoc -r 'passages(bm25, words=5, titles=\"no\")'": "passages(titles='no'): there is first, each",
    "run suite pydoc -r 'passages(bm25, words=5, most=3, score=\"first\")'": 'score="first" indexes one',
    "run suite pydoc -r 'passages(bm25, tokens=5)'": "BM25 has no tokens; type words=… or sentences=…",
    "run suite pydoc -r 'passages(ensemble(bm25, bm25(k1=2.0)), words=5)'": "takes one retriever with an index of its own",
    "run suite pydoc -r 'passages(bm25, bm25, words=5)'": "passages takes one retriever with an index of its own",
    "run suite pydoc -r 'ensemble'": "takes two retrievers or more, e.g. ensemble(bm25, bm25(k1=2.0)); 0 given",
    "run suite pydoc -r 'ensemble(bm25, 3)'": "takes retrievers, then settings by name",
    "run suite pydoc -r 'ensemble(members=bm25)'": "takes retrievers, then settings by name",
    "run suite pydoc -r 'ensemble(bm25, bm25, weights=0.3)'": "takes as many weights; 1 given",
    "run suite pydoc -r \"ensemble(bm25, bm25, weights=['a', 1])\"": "weights are numbers from 0",
    "run suite pydoc -r 'ensemble(bm25, bm25, weights=[0, 0])'": "not all 0",
    "run suite pydoc -r 'pipeline(bm25, bm25, weights=\"best\")'": "weights are numbers from 0, not all 0, e.g. weights=[1,",
    "run suite pydoc -r 'ensemble(bm25, bm25, weights=[1, -1])'": "weights are numbers from 0",
    "run suite pydoc -r 'ensemble(bm25, bm25, weights=[1, 1e999])'": "is too large for a number",
    "run suite pydoc -r \"ensemble(bm25, bm25, scores='zscore')\"": "scores are one of minmax, raw, rrf, z",
    "run suite pydoc -r \"ensemble(bm25, bm25, missing='drop')\"": "missing is one of min, rescored, zero",
    "run suite pydoc -r 'ensemble(bm25, bm25, depth=0)'": "a whole number from 1",
    "run suite pydoc -r 'ensemble(bm25, bm25, rrf_k=-1)'": "a whole number from 0",
    "run suite pydoc -r 'ensemble(bm25, ensemble(bm25, bm25, depth=10))'": "1000 documents per query; give it depth=1000",
    "run suite pydoc -r \"ensemble(bm25, run_file(path='x'))\"": "RunFile has no index to search",
    "run suite pydoc -r 'ensemble(bm25, bm25)|top_k(3)'": "is no encoder",
    "run dataset good -r 'command(\"./nothing\")'": "there is no program './nothing'; give its path",
    "run dataset good -r 'command(\"\")'": "there is no program ''",
    'run dataset good -r "command(\\"cat \'x\\")"': "No closing quotation",
    "run dataset good -r 'command(\"cat\", timeout=0)'": "the timeout is a number of seconds above 0",
    "run dataset good -r 'url(\"nothing\")'": 'write it like "http://localhost:8080"',
    **{f"encode suite pydoc -r bm25 --part {part}": f"--part {part}" for part in ("16/16", "1", "0/0", "slurm", "a/b")},
    "encode suite pydoc -r bm25": "bm25 has no encoder; name a system that has one, e.g. lexmae_nano@impact",
    "run suite pydoc -r 'lexmae_nano|top_k([])@impact'": "an empty list names no system",
    # models
    "run suite pydoc -r lexmae": 'lexmae needs model="FOLDER": its authors released no trained one; ours are lexmae_nano',
    "run suite pydoc -r 'splade_mask(query_length=32)'": 'its authors released no weights; write splade_mask(model="FOLDER")',
    "run suite pydoc -r 'splade_v3(\"DIR\")'": "splade_v3 takes settings by name; see: lexbench show model splade_v3",
    "run suite pydoc -r 'lexmae(144)'": "lexmae takes settings by name, or the model alone; see: lexbench show model lexmae",
    'run suite pydoc -r \'lexmae("a", "b")\'': "lexmae takes settings by name, or the model alone",
    "run suite pydoc -r 'lexmae(\"a\", model=1)'": "lexmae takes settings by name, or the model alone",
    "run suite pydoc -r 'lexmae(\"x\")@flat'": "takes dense vectors; lexmae makes sparse ones",
    "run suite pydoc -r bm25_anserini": "bm25_anserini is made of parts: type bm25",
    "explain apple -r mysearch:words -d good": "'mysearch:words' names a Python object: only lexbench run and gate take it",
    "encode dataset good -r ones:ones": "ones:ones has no identity(), so its vectors are not kept; type: lexbench run",
    "run suite pydoc -r 'deepct(k1=2)'": 'type bm25(term_weights="FILE", k1=10, b=0.9); FILE holds each document',
    "run suite pydoc -r 'adore(\"STAR\")'": 'adore needs query_model="FOLDER": its weights are on the authors\' Google Drive',
    "run suite pydoc -r minilm_reranker": "minilm_reranker is a reranker; write rerank(bm25, minilm_reranker, k=100)",
    # measures
    "run suite pydoc -m R@5000": "raise --depth",
    "run suite beir --depth 10": "R@100 looks at 100 documents",
    "run suite pydoc -m nDCG@ten": "measure 'nDCG@ten' is not valid; did you mean 'nDCG@10'?",
    # data
    "run dataset several": "choose one: --split one",
    "run dataset hf:none": "'hf:none' names no dataset of the hub; write hf:ORG/NAME",
    # run files
    "score good/queries.jsonl -d good": "there is: _id, text; expected: query_id, doc_id, and score or rank",
    "score good.run": "give -d ID, --qrels FILE, or both",
    "score good.run --qrels good/queries.jsonl": "there is no column 'query-id'; there is: _id, text",
    "score good.run -d good --slices none.slices": "no slices",
    "score good.run -d good --slices narrow.slices": "1 column, not 2",
    "score good.run -d good --slices twice.slices": "query q1 is in slice a twice",
    "score good.run -d good --slices other.slices": "query q9, which is not among the 5 judged queries of good",
    "score zstd.run -d good": "zstd -d zstd.run",
    "score zip.run -d good": "unzip zip.run",
    "score returns.run -d good": "returns.run:1: a carriage return inside a line",
    # results
    "compare bm25 good.run": "good.run is a run; name its judgements with --qrels FILE, or its dataset with -d",
    "compare bm25 result.json": "result.json: Object missing required field",
    "compare bm25 deep.json": "deep.json: Expected `int`, got `str` - at `$.depth`",
    "compare a.json a.json": "takes two systems or more; there is only a",
    "compare a.json b.json --margin 1.5": "a margin is above 0 and below 1, not 1.5, and takes a measure with values",
    "compare a.json later.json": "it was scored under the contract pydoc/test@2, and this lexbench has pydoc/test@1",
    "leaderboard --results stray": "own is not a dataset of the suite pydoc; move its results to the folder of its suite",
    "leaderboard --results good --merge good=empty": "good is the name of good; rename empty: --merge NAME=FOLDER",
    "leaderboard --results good -d own": "choose the table of --copy; add --copy",
    "compare bm25 empty --margin 0": "margin",
    "compare bm25 empty --lists --margin .1": "--margin compares scores",
    "compare bm25 empty -k 3": "-k is a setting of --lists",
    "audit board/words.csv": "has no scores: it needs columns system, dataset, score",
    "audit board/high.csv": "a on b: 'high' is no score",
    "audit mteb": "T.json: Object missing required field",
    "audit text": "has no scores: give a CSV table",
    "explain nothere -r bm25": "depends on the dataset; name it with -d",
    "explain qid:qa -r bm25": "a query's id depends on the dataset",
    "explain apple -r bm25 --document a1": "a document depends on the dataset",
    "speed bm25": "bm25 is no encoder, so it encodes nothing; type e.g. lexbench speed lexmae_nano",
    "compare --lists good.run": "takes two runs or more",
    "judge pool good.run foreign.run": "give -d",
    "exposure": "give a SYSTEM with -r, a FOLDER of texts, or both",
    "exposure good": "a FOLDER of texts is compared with datasets: give -d ID",
    "show suite": "needs a name",
    "watch empty -r bm25": "name a dataset to choose on",
    "watch empty -r bm25 -d beir/nfcorpus/dev": "has no {} for the checkpoint",
    "watch empty -r 'dense({})' -d beir/scifact/test": "beir/scifact/test is for testing, not for choosing checkpoints",
    "store pull hf:name --results theirs": "hf:name: it names no dataset of the hub; write hf:ORG/NAME or hf:ORG/NAME@REVISION",
    "store push there --private": "Missing option '--results'",
    "store push there 'runs/*' --results good": "Got unexpected extra argument (runs/*)",
    "store remove": "name a dataset, a system or an artifact of lexbench store list, or type --unreachable",
    "store check --recompute -1": "Invalid value for '--recompute'",
    "collect nofolder": "'nofolder' does not exist",
}
NOT_THERE = {  # exit code 3
    "list dtasets": "no kind to list 'dtasets'; did you mean 'datasets'?",
    "run pydok": "did you mean 'pydoc'",
    "run suite pydok": "did you mean 'pydoc'?",
    "run dataset pydoc": "type: lexbench run dataset pydoc/test",
    "run suite nothing.toml": "no suite 'nothing.toml'",
    "run suite pydoc --results /proc/nope": "cannot write results to /proc/nope",
    "run suite pydoc --on proceses": "did you mean 'processes'?",
    "run suite pydoc --on spark": "no executor 'spark'; there is: here, processes, ray",
    "run suite pydoc -d scifact": "there is: pydoc/test",
    "run suite beir -d scifact -r bm25": "did you mean 'beir/scifact/test'?",
    "run suite pydoc -r 'rerank(bm25, cross_encoder(\"/no/where\"))'": "no folder /no/where",
    "run suite pydoc -r 'bm25(term_weights=\"nowhere\")'": "bm25(term_weights='nowhere'): there is no such file",
    'run suite pydoc -r \'vectors("nowhere", "nowhere")@csr\'': "vectors(documents='nowhere'): there is no such file",
    "run suite pydoc -r 'rerank(bm25, cros_encoder)'": "did you mean 'cross_encoder'?",
    "run suite pydoc -r mysearch:words": "mysearch:words cannot be imported: ModuleNotFoundError: No module named 'mysearch'",
    "run suite pydoc -r bm52": "did you mean 'bm25'?",
    "run suite pydoc -r 'bm25(k=1.2)'": "did you mean 'k1'?",
    "run suite pydoc -r bm25@impact": "no bm25 on engine 'impact'; there is: lucene",
    "run suite pydoc -r 'ensemble(bm25, bm52)'": "did you mean 'bm25'?",
    "run suite pydoc -r 'ensemble(bm25, bm25, weight=[1, 2])'": "did you mean 'weights'?",
    "run suite pydoc -r 'bm25@impcat'": "no bm25 on engine 'impcat'",
    "run suite pydoc -r 'run_file(path=\"gone.run\")' --dry-run": "no run file gone.run",
    'run suite pydoc -r \'lexmae("x", posittions="all")\'': "did you mean 'positions'",
    "run suite pydoc -r ar2@flat": "ar2 cannot be run: its authors released weights for Natural Questions and TriviaQA only",
    "run suite pydoc -m nDGC@10": "did you mean 'nDCG@10'",
    "run dataset ./goof": "no dataset or folder './goof'; did you mean './good'?",
    "run several/testing": "no suite, dataset or folder 'several/testing'; did you mean 'several",
    "run ./zzzzzzzz/qq": "no suite, dataset or folder './zzzzzzzz/qq'; there is: ./board, ./empty, ./good, ./mteb",
    "run yyyyyy": ", e.g. beir, beir/arguana, beir/climate-fever; see: lexbench list datasets",
    "run dataset scifact": "did you mean 'beir/scifact/test'",
    "run dataset hf:nobody/nothing": "LEXBENCH_OFFLINE forbids to fetch it" if HUB else "type: pip install 'lexbench[",
    "show dataset ./nofolder": "no dataset or folder './nofolder'",
    "run dataset several --split three": "there is: one, two; choose one: --split one",
    "score nothing.run -d good": "is neither a run file nor a system that was run on good",
    "compare bm25 nothing": "no result in the store of 'bm25'; there is none yet",
    "compare bm25 empty": "no result files in empty; write some: lexbench run suite pydoc --results empty",
    "compare a.json elsewhere.json -d own": "no result of c on 'own'; there is: other",
    "compare a.json elsewhere.json": "no dataset has results of all systems",
    "compare a.json corpus.json": "are not comparable on own: they have different corpus eeeeeeeeeeeeeeee and ffffffffffffffff",
    "compare a.json queries.json": "they have different query ids",
    "compare a.json measure.json": "b on own has no nDCG@10; it has: RR@10",
    "audit board/one.csv": "no two systems have a dataset and a measure in common",
    "explain qid:nothere -r bm25 -d good": "no judged query of good: 'nothere'; there is: qa",
    "explain apple -r bm25 -d good --document x": "no document 'x' in good",
    'explain apple -r \'dense_vectors("dense.jsonl", "dense.jsonl")@flat\'': "dense vectors, so there are no terms to explain",
    "explain apple -r 'ensemble(bm25, bm25(k1=2.0))' -d good": "is made of several systems; explain each of them",
    "leaderboard --results 'no folder'": "write some: lexbench run suite pydoc --results 'no folder'",
    "export trec out -r nothing": "no result of 'nothing'; there is none yet",
    "verify pydoc": "make some: lexbench run suite pydoc",
    "compare --lists good.run gone.run": "'gone.run' is not a run file",
    "judge pool good.run gone.run --qrels good/qrels/test.tsv": "'gone.run' is not a run file",
    "export figures out --results empty": "no result files in empty",
    "show dataset scifact": "did you mean 'beir/scifact/test'",
    "show result x": "no result 'x'",
    "show model lexmae_nan": "did you mean 'lexmae_nano'",
    "judge pool bm25 -d good": "run it: lexbench run dataset good",
    "gate": "make it: lexbench gate init -d DATASET -r SYSTEM",
    "gate init -d good": "Missing option '-r'",
    "gate init -d good -r os:nothing": "os:nothing cannot be imported: AttributeError",
    "gate init -d good -r bm26": "no retriever, encoder or model 'bm26'",
    "gate init -d nothing -r bm25": "'nothing'",
    "gate --no-such": "No such option",
    "gate --file no.toml": "there is no no.toml; make it: lexbench gate init -d DATASET -r SYSTEM",
    "gate --file lone.toml": "`reference` and `min_qps_ratio` or `max_latency_ratio` belong together",
    "gate --file unmeasured.toml": "`reference` and `min_qps_ratio` or `max_latency_ratio` belong together",
    "gate --file loose.toml": "gate",
    "gate --file misspelt.toml": "unknown field `margn`",
    "gate --file twice.toml": "two gates are called 'a'",
    "speed lexmae_nano --dtype int4": "no dtype 'int4'; did you mean 'int8'?",
    "speed lexmae_nano --with openvin": "no runtime 'openvin'; did you mean 'openvino'?",
    "speed lexmae_nanu": "did you mean 'lexmae_nano'",
    "collect empty": "has no documents",
    "store push there --results empty": "empty has no results; lexbench run suite NAME --results",
}
FAILED = {  # exit code 1
    "run dataset good -r 'command(\"false\")'": "it ended with exit code 1 before it answered",
    "run dataset good -r bad.run": "'x' is not a number; a line of a run is: query Q0 document rank score tag",
    "run dataset good -r nan.run": "a score that is not a finite number",
    "run dataset good -r foreign.run": "is of another dataset: no query of it is judged; its ids look like 'zz'",
    "run dataset good -r empty.run": "is empty: no query has a document",
    "score foreign.run -d good": "is of another dataset",
}
ROWS = [(ends, *row) for ends, rows in ((2, CANNOT_BE), (3, NOT_THERE), (1, FAILED)) for row in rows.items()]


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    """Make a folder with right and wrong data, and an empty store."""
    root = tmp_path_factory.mktemp("mistakes")
    for name in {"good", *(path.partition("/")[0] for path in (*FILES, *REMOVED))}:
        fruit.write(root / name, split="test")
    for name, text in (FILES | LONE).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("latin-1"))
    for name in REMOVED:
        (root / name).unlink()
    (root / "empty").mkdir()
    return root


@pytest.mark.parametrize(("ends", "typed", "said"), ROWS, ids=[typed for _, typed, _ in ROWS])
def test_a_mistake_gets_one_line_that_helps(playground, store, monkeypatch, capsys, ends, typed, said):
    """The exit code shows the kind of mistake, stdout is empty, and one line has the fault and the command to type."""
    if "lexmae(" in typed or "cross_encoder(" in typed or typed.startswith("speed lexmae"):
        pytest.importorskip("torch", reason="models are in the extra neural")
    monkeypatch.chdir(playground)
    exit_code, out, err = run(capsys, *shlex.split(typed.replace("RERANKER", 'endpoint_reranker("http://localhost:9")')))

    assert (exit_code, out) == (ends, "")
    assert [line for line in err.splitlines() if said in line], err
    assert "Traceback" not in err
    assert "bug in lexbench" not in err
