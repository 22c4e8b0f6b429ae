#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embeddings of a few sentences as the framework computes them, with the numbers of their word pieces: reference.json.

    pip install torch transformers sentence-transformers
    scripts/fetch_encoder.py
    samples/18_encoder/reference.py .deps/encoder samples/18_encoder/reference.json

Runs on the CPU in f32. The file is committed, so that a test needs the weights but not the framework.
"""
import importlib.metadata
import json
import pathlib
import sys

SENTENCES = [
    "A kernel is compiled once.",
    "Kernels get compiled only one time.",
    "The caf\u00e9 in Z\u00fcrich isn't open, is it?",
    "\u5b57 antidisestablishmentarianism in \u0141\u00f3d\u017a",
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    model = SentenceTransformer(sys.argv[1], device="cpu")
    with torch.no_grad():
        embeddings = model.encode(SENTENCES, convert_to_numpy=True, batch_size=len(SENTENCES))
    rows = [{"text": text, "ids": model.tokenizer(text)["input_ids"], "embedding": [float(f"{x:.9g}") for x in row]}
            for text, row in zip(SENTENCES, embeddings.astype("float64"))]
    made = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "sentence-transformers")}
    text = json.dumps({"made_with": made, "sentences": rows}, ensure_ascii=True)
    pathlib.Path(sys.argv[2]).write_text(text.replace("}, {", "},\n{") + "\n")


if __name__ == "__main__":
    main()
