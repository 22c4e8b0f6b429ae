# SPDX-License-Identifier: Apache-2.0
"""Exports of tuning records for tests, made without Sectile: the format that docs/tuning.md describes."""
import json

M = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def xxhash64(data):
    """xxHash64 with seed 0, by its specification."""
    def rotl(x, n):
        return (x << n | x >> (64 - n)) & M

    def word(at, size):
        return int.from_bytes(data[at:at + size], "little")

    def round_(acc, lane):
        return rotl((acc + lane * P2) & M, 31) * P1 & M

    at = 0
    if len(data) >= 32:
        accs = [(P1 + P2) & M, P2, 0, -P1 & M]
        while at + 32 <= len(data):
            accs = [round_(a, word(at + 8 * i, 8)) for i, a in enumerate(accs)]
            at += 32
        h = sum(rotl(a, n) for a, n in zip(accs, (1, 7, 12, 18))) & M
        for a in accs:
            h = ((h ^ round_(0, a)) * P1 + P4) & M
    else:
        h = P5
    h = (h + len(data)) & M
    while at + 8 <= len(data):
        h = (rotl(h ^ round_(0, word(at, 8)), 27) * P1 + P4) & M
        at += 8
    if at + 4 <= len(data):
        h = (rotl(h ^ word(at, 4) * P1 & M, 23) * P2 + P3) & M
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * P5 & M, 11) * P1 & M
    h = (h ^ h >> 33) * P2 & M
    h = (h ^ h >> 29) * P3 & M
    return h ^ h >> 32


TEXTS = ("kernel", "content", "layout", "shape", "gpu", "driver", "compiler", "assembler", "choice", "choiceContent", "dims", "note")


def checksum(row):
    fields = [str(int(row["kind"] == "candidate"))] + [row[name] for name in TEXTS] + [str(row["multiprocessors"])]
    fields += [repr(row[name]).removesuffix(".0") for name in ("medianNs", "lowNs", "highNs")]
    fields += [str(row["date"]), str(row["tried"]), str(int(row["final"]))]
    return f"{xxhash64(''.join(f + chr(10) for f in fields).encode()):016x}"


def row(number=1, choice="BM=128", micros=1.0, **changes):
    """A final choice for kernel_<number> that took so long, give or take a percent."""
    made = {"kind": "choice", "kernel": f"kernel_{number}", "content": f"c{number}", "layout": "f32 align 16", "shape": "4096/16",
            "gpu": "NVIDIA H200", "multiprocessors": 132, "driver": "13.0", "compiler": "sectile 0.1.0 abc", "assembler": "13.0.88",
            "choice": choice, "choiceContent": f"d{number}", "dims": "4000", "medianNs": micros * 1000.5, "lowNs": micros * 990.25,
            "highNs": micros * 1010.75, "date": 1700000000 + number, "tried": 17, "final": True, "note": ""} | changes
    return made | {"checksum": checksum(made)}


def export(*rows):
    return json.dumps({"format": 1, "rows": rows})
