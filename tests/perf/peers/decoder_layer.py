#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The decoder layer of samples/19_decoder_layer in PyTorch, compiled and not: times for the same shapes on one GPU.

    python3 tests/perf/peers/decoder_layer.py [--only prefill8192,decode16,decode64] [--quick]

One JSON object per line: {"op", "dtype", "shape", "impl", "ms_median", "ms_min", "notes"}; `shape` is width_heads_groups_dim_inner_tokens.
The job is that of the sample, with equal sizes: RMSNorm, one product for queries, keys and values, rotary, keys and values into
a cache, attention (causal over the prompt, or one token of each sequence over up to 4096 keys of different numbers), projection and residual,
RMSNorm, gated MLP, residual. Keys of decoding lie beside each other here, where the sample finds them in pages.

Implementations: `torch` (every operation alone) and `torch_compile` (max-autotune), each with the attention backend that its name ends
with: flash, cudnn, or the one that torch picks. Decoding is captured in a CUDA graph and replayed; its numbers of keys are a mask. A sample is the time between two events behind a write of 256 MB and a spin kernel, so from a cold L2 and without
the host; the result of each implementation is compared with float32 before it is timed.
"""
import argparse
import json
import math
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as problem:
    sys.exit(f"this script needs PyTorch: {problem}")

WIDTH, HEADS, GROUPS, DIM, INNER, KEYS = 4096, 32, 8, 128, 14336, 4096
EPS = 1e-5


def rms(x, w):
    f = x.float()
    return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + EPS)).to(x.dtype) * w


def turn(x, cos, sin):
    """x [.., heads, dim], cos and sin [.., 1, dim / 2]."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


def layer(p, x, cos, sin, keys, values, where, mask):
    """One layer for x [N, WIDTH]. Prompt: keys and values [1, GROUPS, N, DIM], where and mask None. Decoding: [N, GROUPS, KEYS, DIM], the
    position of each token, and which keys it sees [N, 1, 1, KEYS]."""
    n = x.shape[0]
    qkv = rms(x, p["first_norm"]) @ p["qkv"]
    q, k, v = qkv.view(n, HEADS + 2 * GROUPS, DIM).split((HEADS, GROUPS, GROUPS), dim=1)
    q, k = turn(q, cos, sin), turn(k, cos, sin)
    if where is None:
        keys.copy_(k.transpose(0, 1)[None])
        values.copy_(v.transpose(0, 1)[None])
        o = F.scaled_dot_product_attention(q.transpose(0, 1)[None], keys, values, is_causal=True, enable_gqa=True)
        o = o[0].transpose(0, 1).reshape(n, HEADS * DIM)
    else:
        rows = torch.arange(n, device=x.device)
        keys[rows, :, where] = k
        values[rows, :, where] = v
        # Heads that share keys are the queries of one head, so that keys are read once.
        o = F.scaled_dot_product_attention(q.view(n, GROUPS, HEADS // GROUPS, DIM), keys, values, attn_mask=mask)
        o = o.reshape(n, HEADS * DIM)
    y = x + o @ p["out"]
    h = rms(y, p["second_norm"])
    return y + (F.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]


def weights(dtype):
    def matrix(rows, columns):
        return torch.randn(rows, columns, device="cuda", dtype=torch.float32).mul_(rows ** -0.5).to(dtype)

    return {"first_norm": (1 + 0.1 * torch.randn(WIDTH, device="cuda")).to(dtype), "qkv": matrix(WIDTH, (HEADS + 2 * GROUPS) * DIM),
            "out": matrix(HEADS * DIM, WIDTH), "second_norm": (1 + 0.1 * torch.randn(WIDTH, device="cuda")).to(dtype),
            "gate": matrix(WIDTH, INNER), "up": matrix(WIDTH, INNER), "down": matrix(INNER, WIDTH)}


def measure(run, quick):
    """Milliseconds of GPU time, median and least."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for _ in range(5 if quick else 20):
        run()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(3):
        run()
    host = (time.perf_counter() - began) / 3
    torch.cuda.synchronize()
    cycles = int(max(host * 1.6, 6e-6) * 2e9)
    samples, spent = [], time.perf_counter()
    while len(samples) < (25 if quick else 50) and time.perf_counter() - spent < 20:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        flush.fill_(len(samples) % 251)
        torch.cuda._sleep(cycles)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        samples.append(begin.elapsed_time(end))
    return statistics.median(samples), min(samples)


def captured(run):
    """The same as one CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", default="prefill8192,decode16,decode64")
    arguments.add_argument("--quick", action="store_true", help="half of the samples, and no search for kernels by torch.compile")
    options = arguments.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this script needs a GPU")
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    print(json.dumps({"op": "env", "torch": torch.__version__, "gpu": torch.cuda.get_device_name()}), flush=True)
    p = weights(torch.bfloat16)
    exact = {name: w.float() for name, w in p.items()}
    angles = torch.arange(8192, device="cuda")[:, None] * 10000.0 ** (-2 * torch.arange(DIM // 2, device="cuda") / DIM)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    wrong = 0
    for job in options.only.split(","):
        is_decode, n = job.startswith("decode"), int("".join(c for c in job if c.isdigit()))
        x = torch.randn(n, WIDTH, device="cuda").bfloat16()
        if is_decode:
            where = torch.tensor([KEYS - b * KEYS // (2 * n) - 1 for b in range(n)], device="cuda")
            mask = (torch.arange(KEYS, device="cuda") <= where[:, None])[:, None, None]
            caches = [torch.randn(n, GROUPS, KEYS, DIM, device="cuda").bfloat16() for _ in range(2)]
            turned = (cos[where], sin[where])
        else:
            where = mask = None
            caches = [torch.empty(1, GROUPS, n, DIM, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
            turned = (cos[:n], sin[:n])
        # A prompt's first tokens see themselves alone, and are those of a shorter prompt.
        some = n if is_decode else 512
        want = layer(exact, x[:some].float(), turned[0][:some], turned[1][:some],
                     *(c.float() if is_decode else torch.empty(1, GROUPS, some, DIM, device="cuda") for c in caches), where, mask)
        backends = {"auto": None} if is_decode else {"auto": None, "flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
        compiled = torch.compile(layer, fullgraph=True, dynamic=False, mode=None if options.quick else "max-autotune-no-cudagraphs")
        for impl, function in (("torch", layer), ("torch_compile", compiled)):
            for backend, which in backends.items():
                name = f"{impl}_{backend}"
                try:
                    def run():
                        if which is None:
                            return function(p, x, *turned, *caches, where, mask)
                        with sdpa_kernel(which):
                            return function(p, x, *turned, *caches, where, mask)

                    with torch.no_grad():
                        error = ((run()[:some].float() - want).norm() / want.norm()).item()
                        if not error < 2e-2 or math.isnan(error):
                            wrong += 1
                            print(f"# {job} {name}: relative error {error:.3g}, not timed", flush=True)
                            continue
                        median, least = measure(captured(run) if is_decode else run, options.quick)
                    print(json.dumps({"op": f"decoder_layer_{'decode' if is_decode else 'prefill'}", "dtype": "bf16",
                                      "shape": f"{WIDTH}_{HEADS}_{GROUPS}_{DIM}_{INNER}_{n}", "impl": name, "ms_median": round(median, 6),
                                      "ms_min": round(least, 6), "notes": f"error={error:.2e}"}), flush=True)
                except Exception as problem:  # pylint: disable=broad-except
                    print(f"# {job} {name}: {type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
