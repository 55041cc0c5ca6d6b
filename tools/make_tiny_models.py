#!/usr/bin/env python3
"""Makes the tiny random-weight models of tests/golden/tiny and their oracles.

For every model of MODELS it writes
  NAME.gguf        a GGUF v3 file of architecture "llama" with a byte-level vocabulary and a chat template
  NAME.json        token ids, per-token losses and full logits at some positions, computed by Hugging Face transformers
                   in float32 on exactly the weights that the file holds (quantised tensors are dequantised first)
and for the models with `sinks` set
  NAME.sinks.json  per-token losses of exact StreamingLLM, computed densely in float64 by StreamingOracle below, which
                   shares no code with the transformers path: it reads the written file back and rotates
                   neighbouring pairs, as the file format defines them
and NAME.v2.gguf, a copy with the header of GGUF version 2, for V2_COPY_OF.

The script stops if the two implementations disagree on the plain causal case, so a wrong permutation cannot pass.

Run:  python3 tools/make_tiny_models.py [--out tests/golden/tiny] [--float32-copies DIR]
Needs: numpy, torch, transformers, gguf. Weights come from numpy's seeded generator, so they do not depend on the
version of torch.
"""

import argparse
import dataclasses
import json
import math
import pathlib

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from transformers import LlamaConfig, LlamaForCausalLM

import gguf_vocabulary

TOKEN_COUNT = 96
SINKS_TOKEN_COUNT = 200
SINKS_CASES = ((4, 32), (0, 24), (3, 20))  # (anchors, capacity)
LOGIT_POSITIONS = (0, 1, 15, 16, 31, 63, 94, 95)
CONTEXT_LENGTH = 512
AGREEMENT = 2e-4  # between float32 transformers and the float64 oracle, on losses and logits


@dataclasses.dataclass(frozen=True)
class Llama3Scaling:
    factor: float
    low: float
    high: float
    original: int


@dataclasses.dataclass(frozen=True)
class Tiny:
    """One model. `types` names the storage type per tensor kind and layer; "*" is the rest."""

    name: str
    hidden: int
    head_dim: int
    heads: int
    kv_heads: int
    ff: int
    layers: int
    vocab: int
    tied: bool
    eps: float
    theta: float
    types: dict
    scaling: Llama3Scaling | None = None
    optional_keys: bool = True  # False: leave out the keys that have a default
    sinks: bool = False

    def type_of(self, kind, layer=None):
        for key in (f"{layer}.{kind}", kind, "*"):
            if key in self.types:
                return Type[self.types[key]]
        raise KeyError(kind)


# Each size is as odd as its storage type allows: a quantised tensor needs rows of a multiple of 32.
MODELS = (
    Tiny("f32-d32", hidden=64, head_dim=32, heads=4, kv_heads=2, ff=64, layers=2, vocab=261,
         tied=True, eps=1e-5, theta=1e4, types={"*": "F32"}, sinks=True),
    Tiny("f16-d64", hidden=96, head_dim=64, heads=3, kv_heads=1, ff=88, layers=2, vocab=263,
         tied=True, eps=1e-6, theta=1e4, types={"*": "F16"}, optional_keys=False),
    Tiny("bf16-d80", hidden=80, head_dim=80, heads=2, kv_heads=2, ff=72, layers=2, vocab=270,
         tied=False, eps=1e-5, theta=1e5, types={"*": "BF16", "output": "F16"}, optional_keys=False),
    Tiny("q8_0-d32", hidden=160, head_dim=32, heads=5, kv_heads=1, ff=128, layers=2, vocab=259,
         tied=False, eps=1e-5, theta=1e4, types={"*": "Q8_0"}),
    Tiny("q4_0-d80", hidden=320, head_dim=80, heads=2, kv_heads=1, ff=96, layers=2, vocab=275,
         tied=True, eps=1e-6, theta=1e5, types={"*": "Q4_0"}),
    Tiny("q4_1-d128", hidden=96, head_dim=128, heads=3, kv_heads=1, ff=160, layers=3, vocab=288,
         tied=False, eps=1e-6, theta=1e5, types={"*": "Q4_1", "token_embd": "Q8_0"}),
    Tiny("mixed-d64", hidden=192, head_dim=64, heads=3, kv_heads=1, ff=96, layers=2, vocab=272,
         tied=True, eps=1e-5, theta=1e5, sinks=True,
         types={"token_embd": "Q8_0", "attn_q": "Q4_1", "attn_k": "BF16", "attn_v": "F16",
                "attn_output": "Q4_0", "ffn_gate": "Q4_0", "ffn_up": "Q4_1", "ffn_down": "Q8_0",
                "1.attn_q": "Q8_0", "1.attn_k": "Q4_0", "1.attn_v": "F32", "1.attn_output": "Q4_1",
                "1.ffn_gate": "BF16", "1.ffn_up": "Q4_0", "1.ffn_down": "Q4_1"}),
    # original=64 puts the 32 rotary pairs in all three bands of the rule within the oracle's 96 tokens
    Tiny("llama3-d64", hidden=96, head_dim=64, heads=4, kv_heads=2, ff=96, layers=3, vocab=266,
         tied=True, eps=1e-5, theta=1e4, types={"*": "Q4_1", "token_embd": "Q8_0"},
         scaling=Llama3Scaling(factor=8.0, low=1.0, high=4.0, original=64)),
)
V2_COPY_OF = "llama3-d64"

MERGES = ("Ġ t", "h e", "Ġ a", "i n", "r e", "o n", "Ġt he", "e r", "Ġ s", "a t", "Ġ w", "Ġ o", "e n", "Ġ c",
          "i t", "i s", "a n", "o r", "e s", "Ġ b", "e d", "Ġ f", "in g", "Ġ p", "o u", "Ġa n", "a l", "a r",
          "Ġt o", "Ġan d")
# GGUF kind -> name inside a transformers layer
LAYER_LINEARS = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
LAYER_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


# ---- weights ----

def linear_shapes(m):
    q, kv = m.heads * m.head_dim, m.kv_heads * m.head_dim
    return {"attn_q": (q, m.hidden), "attn_k": (kv, m.hidden), "attn_v": (kv, m.hidden), "attn_output": (m.hidden, q),
            "ffn_gate": (m.ff, m.hidden), "ffn_up": (m.ff, m.hidden), "ffn_down": (m.hidden, m.ff)}


def random_weights(m, rng):
    """GGUF name -> float32 in transformers' row order. Scaled so that attention is peaked and logits spread, and
    with embeddings so small that a wrong eps in the first norm shows."""
    gains = {"attn_q": 1.6, "attn_k": 1.6}
    embedding_scale, logit_scale = 0.01, 2.0
    head_scale = logit_scale / math.sqrt(m.hidden)

    def normal(shape, scale):
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    weights = {"token_embd.weight": normal((m.vocab, m.hidden), embedding_scale)}
    for layer in range(m.layers):
        for kind, shape in linear_shapes(m).items():
            weights[f"blk.{layer}.{kind}.weight"] = normal(shape, gains.get(kind, 1.0) / math.sqrt(shape[1]))
        for kind in LAYER_NORMS:
            weights[f"blk.{layer}.{kind}.weight"] = (1.0 + normal((m.hidden,), 0.2)).astype(np.float32)
    # a tied head has the small rows of the embedding, so the last norm makes up for them
    last_gain = head_scale / embedding_scale if m.tied else 1.0
    weights["output_norm.weight"] = (last_gain * (1.0 + normal((m.hidden,), 0.2))).astype(np.float32)
    if not m.tied:
        weights["output.weight"] = normal((m.vocab, m.hidden), head_scale)
    return weights


def storage_type(m, name):
    parts = name.removesuffix(".weight").split(".")
    if parts[-1].endswith("norm"):
        return Type.F32
    return m.type_of(parts[-1], int(parts[1]) if parts[0] == "blk" else None)


def interleave_rotary(w, heads):
    """Rows of each head from [first half; second half] to neighbouring pairs, as a "llama" file stores q and k."""
    rows, columns = w.shape
    return w.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def deinterleave_rotary(w, heads):
    rows, columns = w.shape
    return w.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def rotary_heads(m, name):
    return m.heads if name.endswith("attn_q.weight") else m.kv_heads if name.endswith("attn_k.weight") else None


def rope_divisors(m):
    """Per rotary pair, what the plain angle is divided by (Llama 3's rule)."""
    s = m.scaling
    divisors = []
    for pair in range(m.head_dim // 2):
        wavelength = 2 * math.pi * m.theta ** (2 * pair / m.head_dim)
        if wavelength < s.original / s.high:
            divisors.append(1.0)
        elif wavelength > s.original / s.low:
            divisors.append(s.factor)
        else:
            smooth = (s.original / wavelength - s.low) / (s.high - s.low)
            divisors.append(1.0 / ((1.0 - smooth) / s.factor + smooth))
    return np.array(divisors, dtype=np.float32)


# ---- the file ----

def write_keys(writer, m):
    writer.add_name(f"tiny {m.name}")
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(m.hidden)
    writer.add_block_count(m.layers)
    writer.add_feed_forward_length(m.ff)
    writer.add_head_count(m.heads)
    writer.add_layer_norm_rms_eps(m.eps)
    if m.optional_keys or m.kv_heads != m.heads:
        writer.add_head_count_kv(m.kv_heads)
    if m.optional_keys or m.theta != 1e4:
        writer.add_rope_freq_base(m.theta)
    if m.head_dim * m.heads != m.hidden:
        writer.add_key_length(m.head_dim)
        writer.add_value_length(m.head_dim)
    if m.optional_keys:
        writer.add_rope_dimension_count(m.head_dim)
        writer.add_vocab_size(m.vocab)
    gguf_vocabulary.write_vocabulary(writer, m.vocab, MERGES[: m.vocab - 256 - len(gguf_vocabulary.SPECIALS)])


def write_gguf(path, m, weights, as_float32=False):
    """Writes the file and returns the values it holds, dequantised, in transformers' row order."""
    writer = gguf.GGUFWriter(path, "llama")
    write_keys(writer, m)
    held = {}
    for name, value in weights.items():
        heads = rotary_heads(m, name)
        rows = np.ascontiguousarray(interleave_rotary(value, heads)) if heads else value
        kind = storage_type(m, name)
        packed = gguf.quants.quantize(rows, kind)
        rows = gguf.quants.dequantize(packed, kind).astype(np.float32).reshape(value.shape)
        if as_float32:
            packed, kind = rows, Type.F32
        writer.add_tensor(name, packed, raw_dtype=kind)
        held[name] = deinterleave_rotary(rows, heads) if heads else rows
    if m.scaling:
        writer.add_tensor("rope_freqs.weight", rope_divisors(m))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def write_v2_copy(source, target):
    data = bytearray(source.read_bytes())
    assert data[:8] == b"GGUF\x03\0\0\0"
    data[4] = 2  # little-endian files of versions 2 and 3 differ in nothing else
    target.write_bytes(data)


# ---- oracle 1: transformers ----

def transformers_logits(m, held, ids):
    rope = {"rope_type": "default", "rope_theta": m.theta}
    if m.scaling:
        s = m.scaling
        rope.update(rope_type="llama3", factor=s.factor, low_freq_factor=s.low, high_freq_factor=s.high,
                    original_max_position_embeddings=s.original)
    config = LlamaConfig(
        hidden_size=m.hidden, head_dim=m.head_dim, num_attention_heads=m.heads, num_key_value_heads=m.kv_heads,
        intermediate_size=m.ff, num_hidden_layers=m.layers, vocab_size=m.vocab, rms_norm_eps=m.eps,
        rope_parameters=rope, tie_word_embeddings=m.tied, max_position_embeddings=CONTEXT_LENGTH,
        attention_bias=False, mlp_bias=False, hidden_act="silu", attn_implementation="eager",
        bos_token_id=m.vocab - 2, eos_token_id=m.vocab - 1)
    model = LlamaForCausalLM(config).to(torch.float32).eval()
    state = {"model.embed_tokens.weight": held["token_embd.weight"], "model.norm.weight": held["output_norm.weight"],
             "lm_head.weight": held["token_embd.weight" if m.tied else "output.weight"]}
    for layer in range(m.layers):
        for kind, theirs in (LAYER_LINEARS | LAYER_NORMS).items():
            state[f"model.layers.{layer}.{theirs}.weight"] = held[f"blk.{layer}.{kind}.weight"]
    model.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in state.items()}, strict=True)
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].to(torch.float64)


# ---- oracle 2: from the file, in float64, any window ----

class StreamingOracle:
    """Dense float64 Llama that reads a GGUF file; each row has its own visible set and its own positions."""

    def __init__(self, path, m):
        self.m = m
        reader = gguf.GGUFReader(path)
        self.w = {t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64))
                  for t in reader.tensors}
        self.w = {name: w.reshape([int(n) for n in reversed(shape)])
                  for (name, w), shape in zip(self.w.items(), (t.shape for t in reader.tensors))}
        pairs = torch.arange(m.head_dim // 2, dtype=torch.float64)
        self.rates = m.theta ** (-2 * pairs / m.head_dim)
        if "rope_freqs.weight" in self.w:
            self.rates = self.rates / self.w["rope_freqs.weight"]

    def rotate(self, x, positions):
        """x [tokens, heads, dim], neighbouring pairs turned by position * rate."""
        angles = positions.to(torch.float64)[:, None] * self.rates
        turn = torch.polar(torch.ones_like(angles), angles)[:, None, :]
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(pairs * turn).reshape(x.shape)

    def norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.m.eps) * self.w[name + ".weight"]

    @staticmethod
    def visible(row, anchors, capacity):
        """Log indices that `row` attends to; a token's position is its place in this list."""
        if row < capacity:
            return torch.arange(row + 1)
        recent = capacity - anchors
        return torch.cat([torch.arange(anchors), torch.arange(row - recent + 1, row + 1)])

    def attend(self, q, k, v, anchors, capacity):
        m, out = self.m, torch.empty_like(q)
        group = m.heads // m.kv_heads
        for row in range(q.shape[0]):
            seen = self.visible(row, anchors, capacity)
            places = torch.arange(len(seen))
            keys = self.rotate(k[seen], places).repeat_interleave(group, dim=1)
            query = self.rotate(q[row:row + 1], places[-1:])[0]
            weights = torch.softmax(torch.einsum("hd,thd->ht", query, keys) / math.sqrt(m.head_dim), dim=-1)
            out[row] = torch.einsum("ht,thd->hd", weights, v[seen].repeat_interleave(group, dim=1))
        return out

    def logits(self, ids, anchors=0, capacity=1 << 30):
        m, count = self.m, len(ids)
        x = self.w["token_embd.weight"][torch.tensor(ids)]
        for layer in range(m.layers):
            def linear(value, kind, layer=layer):
                return value @ self.w[f"blk.{layer}.{kind}.weight"].T
            h = self.norm(x, f"blk.{layer}.attn_norm")
            q, k, v = (linear(h, kind).reshape(count, -1, m.head_dim) for kind in ("attn_q", "attn_k", "attn_v"))
            x = x + linear(self.attend(q, k, v, anchors, capacity).reshape(count, -1), "attn_output")
            h = self.norm(x, f"blk.{layer}.ffn_norm")
            gate = linear(h, "ffn_gate")
            x = x + linear(gate * torch.sigmoid(gate) * linear(h, "ffn_up"), "ffn_down")
        head = self.w.get("output.weight", self.w["token_embd.weight"])
        return self.norm(x, "output_norm") @ head.T


# ---- output ----

def losses(logits, ids):
    return -torch.log_softmax(logits[:-1], dim=-1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]


def rounded(values):
    return [round(float(v), 6) for v in values]


def write_json(path, fields):
    """One key (or one element of a list of objects) per line: small, and still readable in a diff."""
    def line(value):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join("  " + json.dumps(v) for v in value) + "\n]"
        return json.dumps(value)
    path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {line(v)}" for k, v in fields.items()) + "\n}\n")


def describe(m):
    fields = {"hidden": m.hidden, "head_dim": m.head_dim, "heads": m.heads, "kv_heads": m.kv_heads, "ff": m.ff,
              "layers": m.layers, "vocab": m.vocab, "tied": m.tied, "rms_eps": m.eps, "rope_theta": m.theta}
    if m.scaling:
        fields["rope_divisors"] = rounded(rope_divisors(m))
    return fields


def make(m, seed, out, float32_copies):
    rng = np.random.default_rng(seed)
    weights = random_weights(m, rng)
    ids = [int(i) for i in rng.integers(0, m.vocab - len(gguf_vocabulary.SPECIALS), TOKEN_COUNT)]
    sinks_ids = [int(i) for i in rng.integers(0, m.vocab - len(gguf_vocabulary.SPECIALS), SINKS_TOKEN_COUNT)]
    path = out / f"{m.name}.gguf"
    held = write_gguf(path, m, weights)
    if float32_copies:
        write_gguf(float32_copies / f"{m.name}.gguf", m, weights, as_float32=True)

    logits = transformers_logits(m, held, ids)
    oracle = StreamingOracle(path, m)
    other = oracle.logits(ids)
    logit_gap = float((logits - other).abs().max())
    loss_gap = float((losses(logits, ids) - losses(other, ids)).abs().max())
    print(f"{m.name}: {path.stat().st_size} bytes, logits std {float(logits.std()):.2f}, "
          f"mean loss {float(losses(logits, ids).mean()):.4f}, gaps {logit_gap:.1e} (logits) {loss_gap:.1e} (loss)")
    if max(logit_gap, loss_gap) > AGREEMENT:
        raise SystemExit(f"{m.name}: the two implementations disagree")
    write_json(out / f"{m.name}.json", {
        "model": path.name, "shape": describe(m), "tokens": ids, "nll": rounded(losses(logits, ids)),
        "logits": [{"position": p, "values": rounded(logits[p])} for p in LOGIT_POSITIONS]})
    if m.sinks:
        write_json(out / f"{m.name}.sinks.json", {
            "model": path.name, "tokens": sinks_ids,
            "cases": [{"anchors": a, "capacity": c, "tokens": SINKS_TOKEN_COUNT - 1,
                       "nll": rounded(losses(oracle.logits(sinks_ids, a, c), sinks_ids))} for a, c in SINKS_CASES]})
    if m.name == V2_COPY_OF:
        write_v2_copy(path, out / f"{m.name}.v2.gguf")


def main():
    default_out = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "tiny"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=default_out)
    parser.add_argument("--float32-copies", type=pathlib.Path, default=None,
                        help="also write each model with every tensor as float32, to compare with another engine")
    options = parser.parse_args()
    for folder in filter(None, (options.out, options.float32_copies)):
        folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for seed, m in enumerate(MODELS, start=1):
        make(m, seed, options.out, options.float32_copies)


if __name__ == "__main__":
    main()
