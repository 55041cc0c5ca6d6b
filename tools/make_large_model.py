#!/usr/bin/env python3
"""Makes a model file of a well-known shape with random weights, for measuring speed and memory.

    tools/make_large_model.py SHAPE FILE.gguf

SHAPE is one of llama3-1b, llama3-8b (grouped heads, a vocabulary of 128,256) and llama2-7b (no grouped heads).
All matrices are Q4_0. What such a model says is noise; how fast it says it is what counts. One tensor is in memory
at a time; the file takes 0.7, 4.5 and 3.8 GB.

Needs: numpy, gguf.
"""

import argparse
import dataclasses

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import gguf_vocabulary

BLOCK, BLOCK_BYTES = 32, 18  # of Q4_0: a half scale, then 32 numbers of 4 bits
NIBBLE_DEVIATION = 4.61      # of whole numbers that are equally likely from -8 to 7
SEED = 20240229


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    vocab: int
    context: int
    theta: float
    tied: bool


SHAPES = {
    "llama3-1b": Shape(2048, 16, 32, 8, 64, 8192, 128256, 131072, 5e5, True),
    "llama3-8b": Shape(4096, 32, 32, 8, 128, 14336, 128256, 131072, 5e5, False),
    "llama2-7b": Shape(4096, 32, 32, 32, 128, 11008, 32000, 4096, 1e4, False),
}


def tensors(s):
    """Name and shape (rows, columns) of each, in the order of the file; vectors have no rows."""
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    yield "token_embd", (s.vocab, s.hidden)
    for layer in range(s.layers):
        for name, shape in (("attn_norm", (s.hidden,)), ("attn_q", (q, s.hidden)), ("attn_k", (kv, s.hidden)),
                            ("attn_v", (kv, s.hidden)), ("attn_output", (s.hidden, q)), ("ffn_norm", (s.hidden,)),
                            ("ffn_gate", (s.ff, s.hidden)), ("ffn_up", (s.ff, s.hidden)),
                            ("ffn_down", (s.hidden, s.ff))):
            yield f"blk.{layer}.{name}", shape
    yield "output_norm", (s.hidden,)
    if not s.tied:
        yield "output", (s.vocab, s.hidden)


def random_matrix(generator, rows, columns):
    """Blocks of Q4_0 whose values keep the size of what they multiply."""
    blocks = generator.integers(0, 256, (rows, columns // BLOCK, BLOCK_BYTES), dtype=np.uint8)
    scale = 1 / (NIBBLE_DEVIATION * np.sqrt(columns))
    scales = (scale * generator.uniform(0.5, 1.5, (rows, columns // BLOCK, 1))).astype("<f2")
    blocks[:, :, :2] = scales.view(np.uint8)
    return blocks.reshape(rows, -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("file")
    options = parser.parse_args()
    s = SHAPES[options.shape]
    writer = gguf.GGUFWriter(options.file, "llama")
    writer.add_name(f"random {options.shape}")
    writer.add_context_length(s.context)
    writer.add_embedding_length(s.hidden)
    writer.add_block_count(s.layers)
    writer.add_feed_forward_length(s.ff)
    writer.add_head_count(s.heads)
    writer.add_head_count_kv(s.kv_heads)
    writer.add_rope_dimension_count(s.head_dim)
    writer.add_rope_freq_base(s.theta)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(s.vocab)
    gguf_vocabulary.write_vocabulary(writer, s.vocab, [])
    for name, shape in tensors(s):
        if len(shape) == 1:
            writer.add_tensor_info(f"{name}.weight", shape, np.dtype(np.float32), 4 * shape[0])
        else:
            stored = (shape[0], shape[1] // BLOCK * BLOCK_BYTES)
            writer.add_tensor_info(f"{name}.weight", stored, np.dtype(np.uint8), stored[0] * stored[1], Type.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    generator = np.random.default_rng(SEED)
    for _, shape in tensors(s):
        writer.write_tensor_data(np.ones(shape, np.float32) if len(shape) == 1 else random_matrix(generator, *shape))
    writer.close()


if __name__ == "__main__":
    main()
