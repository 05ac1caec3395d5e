#!/bin/sh
# Repeats the measurements of this leaderboard.
# Paths of models and of your own data are relative to the current folder.
set -eu
here=$(dirname "$0")

lexbench run suite beir -d beir/nfcorpus/test -d beir/scifact/test --results "$here" \
  -r 'bm25 + MiniLM = ensemble(bm25, minilm(model="build/minilm"))' \
  -r 'bm25 + mini = ensemble(bm25, lexmae_mini@impact)' \
  -r 'bm25 > MiniLM = pipeline(bm25, minilm(model="build/minilm"), k=100)' \
  -r 'bm25 > mini = pipeline(bm25, lexmae_mini@impact, k=100)' \
  -r 'bm25 + nano = ensemble(bm25, lexmae_nano@impact)' \
  -r 'bm25 > nano = pipeline(bm25, lexmae_nano@impact, k=100)' \
  -r 'mini = lexmae_mini@impact' \
  -r 'nano = lexmae_nano@impact' \
  -r 'nano top 128 = lexmae_nano|top_k(128)@impact' \
  -r bm25 \
  -r bm25@lucene \
  -r 'nano top 64 = lexmae_nano|top_k(64)@impact' \
  -r 'MiniLM = minilm(model="build/minilm")' \
  -r 'splade-tiny = splade_tiny(model="build/splade-tiny")@impact' \
  -r 'nano top 32 = lexmae_nano|top_k(32)@impact' \
  -r 'nano top 16 = lexmae_nano|top_k(16)@impact' \
  -r 'lexmae-minilm = sparse_mlm(model="build/lexmae-minilm/stage3")@impact' \
  -r 'nano top 8 = lexmae_nano|top_k(8)@impact' \
  -r 'nano top 4 = lexmae_nano|top_k(4)@impact' \
  -r 'nano top 2 = lexmae_nano|top_k(2)@impact' \
  -r 'nano top 1 = lexmae_nano|top_k(1)@impact' \
  -m nDCG@10 -m RR@10 -m R@100 -m RCap@100 -m Success@100 -m R@1000 -m AP@1000 -m Judged@10 \
  --time --time-seconds 6 --time-processes 2 --time-single
lexbench run suite beir -d beir/nfcorpus/test -d beir/scifact/test --results "$here" \
  -r 'mini + means = with_means(lexmae_mini@impact)' \
  -r 'mini top 128 = lexmae_mini|top_k(128)@impact' \
  -r 'doc = lexmae_doc@impact' \
  -r 'mini top 64 = lexmae_mini|top_k(64)@impact' \
  -r 'mini top 32 = lexmae_mini|top_k(32)@impact' \
  -r 'mini top 16 = lexmae_mini|top_k(16)@impact' \
  -r 'mini top 8 = lexmae_mini|top_k(8)@impact' \
  -r 'mini top 4 = lexmae_mini|top_k(4)@impact' \
  -r 'mini top 2 = lexmae_mini|top_k(2)@impact' \
  -r 'mini top 1 = lexmae_mini|top_k(1)@impact' \
  -m nDCG@10 -m RR@10 -m R@100 -m RCap@100 -m Success@100 -m R@1000 -m AP@1000 -m Judged@10
lexbench run suite classic -d cranfield --results "$here" \
  -r 'mini + means = with_means(lexmae_mini@impact)' \
  -r 'mini top 128 = lexmae_mini|top_k(128)@impact' \
  -r 'doc = lexmae_doc@impact' \
  -r 'mini top 64 = lexmae_mini|top_k(64)@impact' \
  -r 'mini top 32 = lexmae_mini|top_k(32)@impact' \
  -r 'mini top 16 = lexmae_mini|top_k(16)@impact' \
  -r 'mini top 8 = lexmae_mini|top_k(8)@impact' \
  -r 'mini top 4 = lexmae_mini|top_k(4)@impact' \
  -r 'mini top 2 = lexmae_mini|top_k(2)@impact' \
  -r 'mini top 1 = lexmae_mini|top_k(1)@impact' \
  -m nDCG@10 -m RR@10 -m R@100 -m AP@1000 -m Judged@10
lexbench run suite classic -d cranfield --results "$here" \
  -r 'bm25 + MiniLM = ensemble(bm25, minilm(model="build/minilm"))' \
  -r 'bm25 + mini = ensemble(bm25, lexmae_mini@impact)' \
  -r 'bm25 > MiniLM = pipeline(bm25, minilm(model="build/minilm"), k=100)' \
  -r 'mini = lexmae_mini@impact' \
  -r 'bm25 > mini = pipeline(bm25, lexmae_mini@impact, k=100)' \
  -r 'bm25 + nano = ensemble(bm25, lexmae_nano@impact)' \
  -r 'bm25 > nano = pipeline(bm25, lexmae_nano@impact, k=100)' \
  -r 'nano = lexmae_nano@impact' \
  -r 'nano top 128 = lexmae_nano|top_k(128)@impact' \
  -r 'MiniLM = minilm(model="build/minilm")' \
  -r 'nano top 64 = lexmae_nano|top_k(64)@impact' \
  -r 'splade-tiny = splade_tiny(model="build/splade-tiny")@impact' \
  -r bm25 \
  -r bm25@lucene \
  -r 'nano top 32 = lexmae_nano|top_k(32)@impact' \
  -r 'nano top 16 = lexmae_nano|top_k(16)@impact' \
  -r 'lexmae-minilm = sparse_mlm(model="build/lexmae-minilm/stage3")@impact' \
  -r 'nano top 8 = lexmae_nano|top_k(8)@impact' \
  -r 'nano top 4 = lexmae_nano|top_k(4)@impact' \
  -r 'nano top 2 = lexmae_nano|top_k(2)@impact' \
  -r 'nano top 1 = lexmae_nano|top_k(1)@impact' \
  -m nDCG@10 -m RR@10 -m R@100 -m AP@1000 -m Judged@10 \
  --time --time-seconds 6 --time-processes 2 --time-single
lexbench run suite pydoc -d pydoc/test --results "$here" \
  -r 'mini + means = with_means(lexmae_mini@impact)' \
  -r 'mini top 128 = lexmae_mini|top_k(128)@impact' \
  -r 'mini top 64 = lexmae_mini|top_k(64)@impact' \
  -r 'doc = lexmae_doc@impact' \
  -r 'mini top 32 = lexmae_mini|top_k(32)@impact' \
  -r 'mini top 16 = lexmae_mini|top_k(16)@impact' \
  -r 'mini top 8 = lexmae_mini|top_k(8)@impact' \
  -r 'mini top 4 = lexmae_mini|top_k(4)@impact' \
  -r 'mini top 2 = lexmae_mini|top_k(2)@impact' \
  -r 'mini top 1 = lexmae_mini|top_k(1)@impact' \
  -m nDCG@10 -m 'RR(rel=2)@10' -m 'Success(rel=2)@10' -m 'R(rel=2)@100' -m 'AP(rel=2)@1000' -m Judged@10
lexbench run suite pydoc -d pydoc/test --results "$here" \
  -r 'bm25 + MiniLM = ensemble(bm25, minilm(model="build/minilm"))' \
  -r 'mini = lexmae_mini@impact' \
  -r 'MiniLM = minilm(model="build/minilm")' \
  -r 'bm25 + mini = ensemble(bm25, lexmae_mini@impact)' \
  -r 'bm25 > MiniLM = pipeline(bm25, minilm(model="build/minilm"), k=100)' \
  -r 'bm25 > mini = pipeline(bm25, lexmae_mini@impact, k=100)' \
  -r 'bm25 + nano = ensemble(bm25, lexmae_nano@impact)' \
  -r 'nano = lexmae_nano@impact' \
  -r 'nano top 128 = lexmae_nano|top_k(128)@impact' \
  -r 'bm25 > nano = pipeline(bm25, lexmae_nano@impact, k=100)' \
  -r 'nano top 64 = lexmae_nano|top_k(64)@impact' \
  -r 'splade-tiny = splade_tiny(model="build/splade-tiny")@impact' \
  -r 'nano top 32 = lexmae_nano|top_k(32)@impact' \
  -r bm25 \
  -r bm25@lucene \
  -r 'nano top 16 = lexmae_nano|top_k(16)@impact' \
  -r 'nano top 8 = lexmae_nano|top_k(8)@impact' \
  -r 'lexmae-minilm = sparse_mlm(model="build/lexmae-minilm/stage3")@impact' \
  -r 'nano top 4 = lexmae_nano|top_k(4)@impact' \
  -r 'nano top 2 = lexmae_nano|top_k(2)@impact' \
  -r 'nano top 1 = lexmae_nano|top_k(1)@impact' \
  -m nDCG@10 -m 'RR(rel=2)@10' -m 'Success(rel=2)@10' -m 'R(rel=2)@100' -m 'AP(rel=2)@1000' -m Judged@10 \
  --time --time-seconds 6 --time-processes 2 --time-single
lexbench leaderboard --results "$here"
