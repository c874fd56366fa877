#!/usr/bin/env python3
"""Seconds of the `tokenizers` Python library, one thread, beside which bench/tokenizer_speed.sh puts
ours. A test oracle only: the program and its tests need no Python.

  scripts/tokenizer_library_speed.py RUNS TOKENIZER.json DOCUMENT.txt...
Prints: library NAME DOCUMENT TOKENS BEST_SECONDS MCHARS_PER_SECOND
"""
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer  # noqa: E402 - the two settings must come first


def main():
    runs, path, documents = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    start = time.perf_counter()
    tokenizer = Tokenizer.from_file(path)
    name = os.path.basename(os.path.dirname(path))
    print(f"library {name} open {time.perf_counter() - start:.3f} s")
    for document in documents:
        with open(document, encoding="utf-8", errors="replace", newline="") as f:
            text = f.read()
        best = None
        for _ in range(runs):
            start = time.perf_counter()
            n = len(tokenizer.encode(text, add_special_tokens=False).ids)
            took = time.perf_counter() - start
            best = took if best is None else min(best, took)
        print(f"library {name} {os.path.basename(document)} {n} {best:.3f} s "
              f"{len(text) / best / 1e6:.2f} M chars/s")


if __name__ == "__main__":
    main()
